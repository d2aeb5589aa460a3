"""A report that was answered is kept, and a report that is repeated is one report, wherever the daemon is killed."""

import os
import select
import socket
import struct
import subprocess

from case_disk import MIB, full_disk
from case_fence import Relic, packed
from lab import case, expect, show, wait_until
from look import program_of, workers_of

WAITING_MAX = 4096  # reports without an answer, as libshoal has them
SESSION = 0xfeed


def id_of(reply):
    """Of the answer {"id": ..., ...}."""
    expect(reply[1:4] == b"\xa2id", f"this is no answer: {reply[:40]}")
    first = reply[4]
    width = {0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8}.get(first)
    return first if width is None else int.from_bytes(reply[5 : 5 + width], "big")


class Reporter:
    """What libshoal does with reports: many are under way, and those without an answer are repeated to the next daemon."""

    def __init__(self, environment):
        self.environment = environment
        self.waiting = {}  # id: frame
        self.answered = 0
        self.last = 1  # the first id is the opening's
        self.refusals = []

    def connect(self):
        def opened():
            self.relic = Relic(self.environment)
            reply = self.relic.ask("worker_open", token=self.environment["SHOAL_TOKEN"], pid=os.getpid(), session=SESSION)
            return b"experiment" in reply

        wait_until(opened, 20, "the daemon to let the worker in")  # a new one may not know it at first
        self.relic.socket.setblocking(False)
        self.out = b"".join(self.waiting.values())
        self.read = b""

    def report(self):
        """Puts the next report on its way; its step is its number."""
        self.last += 1
        body = packed({"v": 1, "id": self.last, "op": "worker_report", "group": "training", "step": self.last - 1,
                       "metrics": {"loss": 0.5}})
        self.waiting[self.last] = struct.pack(">I", len(body)) + body
        self.out += self.waiting[self.last]

    def turn(self, seconds):
        """Sends and receives what goes at once, or within some seconds. False: the daemon has gone."""
        writes = [self.relic.socket] if self.out else []
        ready = select.select([self.relic.socket], writes, [], seconds)
        try:
            if ready[1]:
                self.out = self.out[self.relic.socket.send(self.out) :]
            more = self.relic.socket.recv(1 << 20) if ready[0] else None
        except OSError as error:
            expect(isinstance(error, (ConnectionError, socket.timeout)), f"the connection fails: {error}")
            return False
        if more == b"":
            return False
        self.read += more or b""
        while len(self.read) >= 4 and len(self.read) >= 4 + struct.unpack(">I", self.read[:4])[0]:
            count = struct.unpack(">I", self.read[:4])[0]
            self.take(self.read[4 : 4 + count])
            self.read = self.read[4 + count :]
        return True

    def take(self, reply):
        if b"notice" in reply[:8]:
            return
        self.waiting.pop(id_of(reply))
        self.answered += 1
        if b"error" in reply:
            self.refusals.append(reply)

    def settle(self):
        wait_until(lambda: self.turn(1) and not self.waiting, 40, "all answers")


def worker_on(lab, node):
    """An experiment with one worker that does nothing; its id, and the environment of the worker."""
    identity = lab.submit(node, {"name": "reports", "entrypoint": "exec sleep 600", "max_restarts": 0,
                                 "searcher": {"name": "single", "metric": "loss"}, "resources": {"slots_per_trial": 1}})
    _, environment = wait_until(lambda: next((item for item in workers_of(identity) if program_of(item[0]) == "sleep"), None), 30,
                                "the worker")
    return identity, environment


@case(limit_s=90)
def a_report_that_was_answered_outlives_the_daemon_and_is_there_once(lab):
    """It is killed while its disk hangs, when nothing may be answered, then three times in the midst of thousands of reports."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity, environment = worker_on(lab, node)
    reporter = Reporter(environment)
    reporter.connect()
    hold = subprocess.Popen([f"{lab.build}/hold_state", node.dir, "chunks"], stdout=subprocess.PIPE, text=True)
    try:
        expect(hold.stdout.readline() == "held\n", "the disk does not hang")
        reporter.report()
        reporter.relic.socket.setblocking(True)
        reporter.relic.socket.sendall(reporter.out)
        reporter.relic.id = 1 << 20  # above the ids of reports
        first = id_of(reporter.relic.ask("worker_load"))  # behind the report, and needs no disk
        expect(first == reporter.relic.id, "a report is answered that is not on the disk")
        node.kill_daemon()
    finally:
        hold.kill()
        hold.wait()
    for _ in range(3):
        node.start()
        reporter.connect()
        enough = reporter.answered + lab.random.randrange(1000, 4000)
        while reporter.answered < enough:
            while len(reporter.waiting) < WAITING_MAX:
                reporter.report()
            expect(reporter.turn(20), "the daemon has closed the connection")
        node.kill_daemon()
        while reporter.turn(20):  # what it has answered before it died
            pass
        lab.note(f"{reporter.answered} answers, {len(reporter.waiting)} wait")
    node.start()
    waiting = {number - 1 for number in reporter.waiting}
    stored = [point["step"] for point in node.json_lines("metrics", identity)]
    lost = set(range(1, reporter.last)) - waiting - set(stored)
    expect(not lost, f"{len(lost)} reports that were answered are lost, for example of step {min(lost, default=0)}")
    reporter.connect()
    reporter.settle()
    expect(not reporter.refusals, f"it is refused: {reporter.refusals[:1]}")
    steps = sorted(point["step"] for point in node.json_lines("metrics", identity))
    expect(steps == list(range(1, reporter.last)), f"{len(steps)} points of {len(set(steps))} of the {reporter.last - 1} steps")


@case(limit_s=60)
def a_report_that_a_full_disk_refuses_is_answered_so(lab):
    mesh = lab.mesh(1, start=False, slots="cpu:1")
    node = mesh.nodes[0]
    fill = full_disk(lab, node, 140 * MIB)
    mesh.start()
    identity, environment = worker_on(lab, node)
    reporter = Reporter(environment)
    reporter.connect()
    reporter.report()
    reporter.settle()
    fill(0)
    while not reporter.refusals:
        expect(reporter.last < 200_000, "the series grows although the disk is full")
        for _ in range(1000):
            reporter.report()
        reporter.settle()
    refused = reporter.refusals[0]
    expect(b"the report could not be stored on this node" in refused, f"it is answered {refused}")
    fill(60 * MIB)
    reporter.refusals.clear()
    reporter.report()
    reporter.settle()
    expect(not reporter.refusals, f"with room again it is refused: {reporter.refusals}")
    expect(show(mesh, identity)["trials"][0]["attempt"] == 1, "the trial was disturbed")
    steps = [point["step"] for point in node.json_lines("metrics", identity)]
    expect(reporter.last - 1 in steps, "the last report is not there")
