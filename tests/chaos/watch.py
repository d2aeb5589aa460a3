#!/usr/bin/python3
"""Looks on from outside, through /proc: which worker is on which slot. The lock file of a slot is held open by the worker's
shoal-keep, and what runs under a lease has its token in the environment.

This program is the watcher, a process of its own, which shares nothing with those who make the faults: usage: watch.py --base
DIR, the directory that all nodes of the mesh are below. It looks at all processes ten times a second. Lines of JSON come in,
{"forbid": [EXPERIMENT, ...]}: nothing of these may run any more. After each look one goes out, {"problems": [SENTENCE, ...],
"seen": [TOKEN, ...]}: what is new. It ends when its standard input does. The class Watch starts it and listens to it."""

import argparse
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY_S = 0.1
SILENT_S = 15  # without a look: then it is broken, not slow


def read_link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def process_parent(pid):
    """The parent's id, or None if the process is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])


def worker_environment(pid):
    """SHOAL_TOKEN, SHOAL_EXPERIMENT, ... of a worker's process; {} for any other."""
    try:
        blob = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    if b"SHOAL_TOKEN=" not in blob:
        return {}
    items = (item.decode(errors="replace").split("=", 1) for item in blob.split(b"\0") if b"=" in item)
    return {name: value for name, value in items if name.startswith("SHOAL_")}


def locked_slot(keep):
    """The lock file of a slot that this process holds open, or None."""
    try:
        descriptors = os.listdir(f"/proc/{keep}/fd")
    except OSError:
        return None
    links = (read_link(f"/proc/{keep}/fd/{fd}").removesuffix(" (deleted)") for fd in descriptors)
    return next((link for link in links if re.search(r"/slot-\d+\.lock$", link)), None)


def workers(base):
    """[(pid, environment)] of all live processes of workers of the mesh below this directory."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            environment = worker_environment(entry)
            if environment.get("SHOAL_SOCKET", "").startswith(f"{base}/") and process_parent(entry) is not None:
                found.append((int(entry), environment))
    return found


class Watcher:
    """What it has seen so far. `forbidden` are the experiments of which nothing may run any more."""

    def __init__(self, base):
        self.base = base
        self.slots = {}  # token -> lock file of the slot that it was first seen on
        self.forbidden = set()
        self.seen = set()  # tokens
        self.said = set()
        self.problems = []

    def look(self):
        """What is new: problems and tokens."""
        self.problems, seen_before = [], set(self.seen)
        on_slot = {}  # lock file -> {token: pid}
        for pid, environment in workers(self.base):
            token = environment["SHOAL_TOKEN"]
            if token not in self.slots:
                slot = locked_slot(process_parent(pid))
                if slot is not None:
                    self.slots[token] = slot
            self.seen.add(token)
            if environment["SHOAL_EXPERIMENT"] in self.forbidden:
                self.say(token, f"experiment {environment['SHOAL_EXPERIMENT']} is over, but process {pid} of it runs, {where(environment)}")
            slot = self.slots.get(token)
            if slot is not None:
                on_slot.setdefault(slot, {})[token] = pid
        for slot, tokens in on_slot.items():
            # They were read one after the other: only those that are still there were there together.
            still = {t: pid for t, pid in tokens.items() if worker_environment(pid).get("SHOAL_TOKEN") == t}
            if len(still) > 1:
                self.say((slot, *sorted(still)), f"{slot} has {len(still)} live workers: " + "; ".join(
                    f"process {pid} {where(worker_environment(pid))}" for pid in still.values()))
        return {"problems": self.problems, "seen": sorted(self.seen - seen_before)}

    def say(self, key, text):
        """Once for each key."""
        if key not in self.said:
            self.said.add(key)
            self.problems.append(text)

    def run(self, commands, out):
        """Until there are no more commands, and one look more."""
        pending, is_over = b"", False
        while not is_over:
            if select.select([commands], [], [], EVERY_S)[0]:
                block = os.read(commands, 1 << 16)
                is_over = block == b""
                *lines, pending = (pending + block).split(b"\n")
                for line in lines:
                    self.forbidden.update(json.loads(line)["forbid"])
            print(json.dumps(self.look()), file=out, flush=True)


class Watch:
    """The watcher as who started it sees it. `problems` are sentences; `seen` are tokens. A watcher that dies, or does not look
    for `silent_s`, is a problem too."""

    def __init__(self, base, silent_s=SILENT_S):
        self.silent_s = silent_s
        self.problems = []
        self.seen = set()
        self.looks = 0
        self.is_ending = False
        self.process = subprocess.Popen([sys.executable, __file__, "--base", str(base)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        self.thread = threading.Thread(target=self.run, name="watch", daemon=True)
        self.thread.start()

    def run(self):
        try:
            self.listen(self.process.stdout.fileno())
        except Exception as error:  # nobody would hear the watcher
            self.problems.append(f"what the watcher says cannot be understood: {error!r}")

    def listen(self, fd):
        pending = b""
        # The time is that of this wait alone, so that a standstill of the whole machine is not the watcher's fault.
        while select.select([fd], [], [], self.silent_s)[0]:
            block = os.read(fd, 1 << 16)
            if block == b"":
                if self.process.wait() != 0 or not self.is_ending:
                    self.problems.append(f"the watcher ended by itself with {self.process.returncode}")
                return
            *lines, pending = (pending + block).split(b"\n")
            for line in lines:
                told = json.loads(line)
                self.seen.update(told["seen"])
                self.problems += told["problems"]
                self.looks += 1
        self.problems.append(f"the watcher has not looked for {self.silent_s} s")

    def forbid(self, experiments):
        """From now on no worker of these may run."""
        try:
            self.process.stdin.write(json.dumps({"forbid": sorted(experiments)}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # who listens says that it is gone

    def end(self):
        """After one look more."""
        if self.is_ending:
            return
        self.is_ending = True
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.thread.join(2 * self.silent_s)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        if self.looks == 0 and not self.problems:
            self.problems.append("the watcher never looked")


def where(environment):
    return (f"(trial {environment.get('SHOAL_TRIAL')} attempt {environment.get('SHOAL_ATTEMPT')} rank {environment.get('SHOAL_RANK')} "
            f"token {environment.get('SHOAL_TOKEN', '')[:8]} {environment.get('SHOAL_SOCKET', '')}, at {time.strftime('%H:%M:%S')})")


def main():
    parser = argparse.ArgumentParser(prog="tests/chaos/watch.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="DIR", help="of the mesh")
    Watcher(parser.parse_args().base).run(sys.stdin.fileno(), sys.stdout)


if __name__ == "__main__":
    main()
