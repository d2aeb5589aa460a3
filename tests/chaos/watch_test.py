#!/usr/bin/python3
"""The watcher sees what it is there for: fake workers, whose parents hold lock files of slots open as shoal-keep does.
usage: watch_test.py [BUILD_DIRECTORY]"""

import shutil
import signal
import subprocess
import sys
import tempfile
import time

from watch import Watch

BOUND_S = 60  # for what takes a tenth of a second

# Holds the file that its first argument names, and runs a worker, of two processes and with the environment that its other
# arguments are, until its standard input ends.
KEEP = """
import os, signal, subprocess, sys
lock = open(sys.argv[1], "a")
environment = os.environ | dict(item.split("=", 1) for item in sys.argv[2:])
worker = subprocess.Popen(["/bin/sh", "-c", "sleep 600 & echo ready; wait"], stdin=subprocess.DEVNULL, env=environment, process_group=0)
sys.stdin.read()
os.killpg(worker.pid, signal.SIGKILL)
worker.wait()
"""


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def wait(condition, what):
    deadline = time.monotonic() + BOUND_S
    while not condition():
        expect(time.monotonic() < deadline, f"waited {BOUND_S} s for {what}")
        time.sleep(0.02)


class World:
    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="shoal-watch-")
        self.keeps = []
        self.watches = []

    def watch(self, **options):
        self.watches.append(Watch(self.base, **options))
        return self.watches[-1]

    def worker(self, token, slot, experiment="e1"):
        environment = [f"SHOAL_TOKEN={token}", f"SHOAL_EXPERIMENT={experiment}", f"SHOAL_SOCKET={self.base}/alder/data/socket"]
        keep = subprocess.Popen([sys.executable, "-c", KEEP, f"{self.base}/slot-{slot}.lock", *environment], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)
        self.keeps.append(keep)
        expect(keep.stdout.readline() == b"ready\n", "the fake worker did not start")

    def end(self):
        for keep in self.keeps:
            keep.communicate(timeout=BOUND_S)
        for watch in self.watches:
            watch.process.send_signal(signal.SIGCONT)
            watch.end()
        shutil.rmtree(self.base)


def two_workers_of_one_slot_are_said(world):
    watch = world.watch()
    world.worker("token-a", 0)
    world.worker("token-b", 0)
    wait(lambda: watch.problems, "a problem")
    expect(len(watch.problems) == 1 and "slot-0.lock has 2 live workers" in watch.problems[0], f"it said {watch.problems}")


def workers_with_a_slot_each_are_well(world):
    watch = world.watch()
    world.worker("token-a", 0)
    world.worker("token-b", 1)
    wait(lambda: watch.seen == {"token-a", "token-b"}, "both to be seen")
    looks = watch.looks
    wait(lambda: watch.looks > looks + 3, "some looks more")
    watch.end()
    expect(watch.problems == [], f"it said {watch.problems}")


def a_worker_of_what_is_over_is_said(world):
    watch = world.watch()
    world.worker("token-a", 0, experiment="e1")
    world.worker("token-b", 1, experiment="e2")
    wait(lambda: len(watch.seen) == 2, "both to be seen")
    expect(watch.problems == [], f"it said {watch.problems}")
    watch.forbid({"e2"})
    wait(lambda: watch.problems, "a problem")
    watch.end()
    expect(all("experiment e2 is over" in problem for problem in watch.problems), f"it said {watch.problems}")


def what_begins_just_before_the_end_is_said(world):
    watch = world.watch()
    world.worker("token-a", 0, experiment="e1")
    watch.forbid({"e1"})
    watch.end()
    expect(watch.problems, "the last look did not see it")


def a_watcher_that_dies_is_said(world):
    watch = world.watch()
    wait(lambda: watch.looks > 0, "a look")
    watch.process.kill()
    wait(lambda: watch.problems, "a problem")
    watch.forbid({"e1"})
    expect(watch.problems == ["the watcher ended by itself with -9"], f"it said {watch.problems}")


def a_watcher_that_stops_looking_is_said(world):
    watch = world.watch(silent_s=3)
    wait(lambda: watch.looks > 0, "a look")
    watch.process.send_signal(signal.SIGSTOP)
    wait(lambda: watch.problems, "a problem")
    expect(watch.problems == ["the watcher has not looked for 3 s"], f"it said {watch.problems}")


def main():
    for test in (two_workers_of_one_slot_are_said, workers_with_a_slot_each_are_well, a_worker_of_what_is_over_is_said,
                 what_begins_just_before_the_end_is_said, a_watcher_that_dies_is_said, a_watcher_that_stops_looking_is_said):
        began, world = time.monotonic(), World()
        try:
            test(world)
        finally:
            world.end()
        print(f"ok {test.__name__} ({time.monotonic() - began:.1f})", flush=True)


if __name__ == "__main__":
    main()
