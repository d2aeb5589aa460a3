"""Looks on from outside, through /proc: which worker is on which slot. The lock file of a slot is held open by the worker's
shoal-keep, and what runs under a lease has its token in the environment."""

import os
import re
import threading
import time
from pathlib import Path

EVERY_S = 0.1


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


class Watch:
    """A thread that looks at all processes ten times a second. `problems` are sentences; `forbidden` are the experiments of
    which nothing may run any more."""

    def __init__(self, base):
        self.base = str(base) + "/"
        self.slots = {}  # token -> lock file of the slot that it was first seen on
        self.problems = []
        self.said = set()
        self.forbidden = set()
        self.looks = 0
        self.seen = set()  # tokens
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, name="watch", daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(EVERY_S):
            try:
                self.look()
            except Exception as error:  # a watcher that died would see nothing wrong
                self.problems.append(f"the watcher failed: {error!r}")
                return

    def workers(self):
        """[(pid, environment)] of all live processes of workers of this mesh."""
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                environment = worker_environment(entry)
                if environment.get("SHOAL_SOCKET", "").startswith(self.base) and process_parent(entry) is not None:
                    found.append((int(entry), environment))
        return found

    def look(self):
        on_slot = {}  # lock file -> {token: pid}
        for pid, environment in self.workers():
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
        self.looks += 1

    def say(self, key, text):
        """Once for each key."""
        if key not in self.said:
            self.said.add(key)
            self.problems.append(text)

    def end(self):
        self.over.set()
        self.thread.join(10)
        if self.looks == 0 and not self.problems:
            self.problems.append("the watcher never looked")


def where(environment):
    return (f"(trial {environment.get('SHOAL_TRIAL')} attempt {environment.get('SHOAL_ATTEMPT')} rank {environment.get('SHOAL_RANK')} "
            f"token {environment.get('SHOAL_TOKEN', '')[:8]} {environment.get('SHOAL_SOCKET', '')}, at {time.strftime('%H:%M:%S')})")
