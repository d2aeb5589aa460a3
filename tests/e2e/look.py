"""How cases look at nodes from outside: processes, events, refusals."""

import os
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


def program_of(pid):
    """The name of its file; empty if it has ended."""
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name
    except OSError:
        return ""


def parent_of(pid):
    """Its parent's number; None if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def is_sanitized(pid):
    """Built with a sanitizer: what it uses of memory and processor says nothing about the program."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return any(f"lib{kind}.so" in maps for kind in ("asan", "tsan"))


def events_of(node):
    return [event["text"] for document in node.json_lines("events") for event in document.get("events", [document])]


def refusal(node, *arguments, code, **options):
    """Runs a command that must fail with this exit code (None: any) and one sentence; returns the sentence."""
    shown = " ".join(map(str, arguments))
    try:
        output = node.run(*arguments, **options)
    except Refused as error:
        expect(code is None or error.code == code, f"shoal {shown}: exit {error.code} instead of {code}: {error.text}")
        expect(len(error.text.splitlines()) == 1, f"shoal {shown}: not one line: {error.text!r}")
        return error.text
    raise AssertionError(f"shoal {shown} was not refused: {output!r}")
