"""How cases look at nodes from outside: processes, memory, events, refusals."""

import os
import re
from pathlib import Path

from lab import Refused, expect


def environment_of(pid):
    try:
        items = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return dict(item.decode(errors="replace").split("=", 1) for item in items if b"=" in item)


def workers_of(experiment):
    """(pid, environment) of every process of this experiment's workers on this machine."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            environment = environment_of(entry)
            if environment.get("SHOAL_EXPERIMENT") == experiment:
                found.append((int(entry), environment))
    return found


def anonymous_bytes(pid):
    """RssAnon: memory that is this process' own."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^RssAnon:\s+(\d+) kB", text, re.M).group(1)) * 1024


def processor_s(pid):
    """Processor time of all threads so far; the fields follow the name in parentheses (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def events_of(node):
    return [event["text"] for document in node.json_lines("events") for event in document.get("events", [document])]


def refusal(node, *arguments, code, **options):
    """Runs a command that must fail with this exit code and one sentence; returns the sentence."""
    shown = " ".join(map(str, arguments))
    try:
        output = node.run(*arguments, **options)
    except Refused as error:
        expect(error.code == code, f"shoal {shown}: exit {error.code} instead of {code}: {error.text}")
        expect(len(error.text.splitlines()) == 1, f"shoal {shown}: not one line: {error.text!r}")
        return error.text
    raise AssertionError(f"shoal {shown} was not refused: {output!r}")
