"""What is left of an attempt that is over goes on speaking: nothing of it counts any more."""

import array
import os
import signal
import socket
import stat
import struct

from lab import case, expect, show, wait_until
from look import program_of, workers_of


def packed(value):
    """MessagePack, as much of it as requests need."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"\xd9" + bytes([len(value.encode())]) + value.encode()
    return bytes([0x80 | len(value)]) + b"".join(packed(key) + packed(item) for key, item in value.items())


class Relic:
    """A worker's end of the local socket."""

    def __init__(self, environment):
        self.token = environment["SHOAL_TOKEN"]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(environment["SHOAL_SOCKET"])
        self.id = 0

    def ask(self, op, memory=None, **arguments):
        """The reply's bytes: what tests look for in them is text."""
        self.id += 1
        body = packed({"v": 1, "id": self.id, "op": op, **arguments})
        rights = [] if memory is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))]
        self.socket.sendmsg([struct.pack(">I", len(body)) + body], rights)
        return self.reply()

    def reply(self):
        """The next reply, of whatever request."""
        while True:
            reply = self.receive(struct.unpack(">I", self.receive(4))[0])
            if b"notice" not in reply[:8]:
                return reply

    def receive(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            expect(more != b"", "the daemon closed the connection")
            data += more
        return data

    def open(self):
        return self.ask("worker_open", token=self.token, pid=os.getpid())

    def report(self, value):
        return self.ask("worker_report", group="training", step=int(value), metrics={"loss": value})

    def save(self, step):
        memory = os.memfd_create("relic")
        try:
            os.write(memory, b"x" * 1000)
            return self.ask("worker_save", memory, step=step, bytes=1000)
        finally:
            os.close(memory)


def is_refused(reply, words):
    return b"error" in reply and words in reply


@case(limit_s=90)
def an_attempt_that_is_over_is_not_listened_to(lab):
    """A worker's token and connection outlive its attempt, in another process. While the next attempt runs they try everything
    that a worker can ask for."""
    mesh = lab.mesh(["alder"], slots="cpu:1")
    alder = mesh.nodes[0]
    identity = lab.submit(alder, {"name": "fenced", "entrypoint": "exec sleep 600", "hyperparameters": {"x": 1}, "max_restarts": 3,
                                  "searcher": {"name": "single", "metric": "loss"}, "resources": {"slots_per_trial": 1}})

    def sleeper(other_than=None):
        found = [(pid, environment) for pid, environment in workers_of(identity) if program_of(pid) == "sleep"]
        return next((item for item in found if item[1]["SHOAL_TOKEN"] != other_than), None)

    pid, environment = wait_until(sleeper, 30, "the first attempt")
    relic = Relic(environment)
    expect(b"experiment" in relic.open(), "the first attempt's worker is not let in")
    expect(b"error" not in relic.report(1.0), "its report is refused")
    expect(b"error" not in relic.save(1), "its checkpoint is refused")
    os.kill(pid, signal.SIGKILL)
    _, second = wait_until(lambda: sleeper(environment["SHOAL_TOKEN"]), 60, "the second attempt")
    expect(second["SHOAL_ATTEMPT"] == "2", f"attempt {second['SHOAL_ATTEMPT']}, not 2")

    again = Relic(environment)
    expect(is_refused(again.open(), b"not valid here"), "a token opens after its lease")
    for old in (relic, again):
        for reply in (old.report(2.0), old.save(2), old.ask("worker_progress", step=9), old.ask("worker_load"),
                      old.ask("worker_group", port=40000, elastic=True, generation=1, has_state=True, step=1000)):
            expect(is_refused(reply, b"belongs to no worker") or is_refused(reply, b"has ended"), f"it is answered {reply}")
    new = Relic(second)
    expect(b"experiment" in new.open() and b"error" not in new.report(3.0), "the second attempt's worker is not let in")

    points = wait_until(lambda: [p for p in alder.json_lines("metrics", identity) if p["attempt"] == 2], 20, "the second attempt's point")
    points = [(p["attempt"], p["step"]) for p in alder.json_lines("metrics", identity)]
    expect(sorted(points) == [(1, 1), (2, 3)], f"points {points}")
    trial = show(mesh, identity)["trials"][0]
    expect(trial["attempt"] == 2 and trial["step"] != 1000, f"{trial}")
    expect(trial["checkpoint"] is None or trial["checkpoint"]["step"] == 1, f"checkpoint {trial['checkpoint']}")


SHOALS_OWN = {"SOCKET", "TOKEN", "PORTS", "EXPERIMENT", "TRIAL", "ATTEMPT", "RANK", "SIZE", "SEED", "COLLECTIVE_TIMEOUT", "HPARAMS",
              "HPARAMS_FILE", "OUTPUT_DIR", "CHECKPOINT_DIR", "TENSORBOARD_DIR"}


@case(limit_s=90)
def what_a_program_prints_of_its_environment_opens_nothing_elsewhere(lab):
    """Every member can read the log. The token in it is good at one socket, which is closed to all but the user, and no longer than
    the lease; nothing else there is a secret of Shoal."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": "env; echo the end; exec sleep 600", "hyperparameters": {"x": 1},
                                  "searcher": {"name": "single", "metric": "loss"}})
    said = wait_until(lambda: "the end\n" in (text := alder.run("logs", f"{identity}/0", check=False)) and text, 30, "the log")
    read = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    shown = {name.removeprefix("SHOAL_") for name in read if name.startswith("SHOAL_") and not name.startswith("SHOAL_HP_")}
    expect(shown == SHOALS_OWN, f"is one of these a secret? {shown ^ SHOALS_OWN}")
    for node in mesh.nodes:
        key = (node.dir / "key").read_text().split()[0]
        expect(len(key) == 64 and key not in said, f"the key of {node.name} is in the log")
        for path, mode in ((node.dir, 0o700), (node.dir / "shoald.sock", 0o600)):
            expect(stat.S_IMODE(path.stat().st_mode) == mode, f"{path} has the mode {path.stat().st_mode:o}")
    elsewhere = Relic({**read, "SHOAL_SOCKET": str(alder.dir / "shoald.sock")})
    expect(is_refused(elsewhere.open(), b"not valid here"), "the token opens on another node")
    expect(b"experiment" in Relic(read).open(), "the token in the log is not the worker's")  # else the lines above show nothing
    alder.run("cancel", identity)
    wait_until(lambda: not workers_of(identity), 30, "the worker to be gone")
    expect(is_refused(Relic(read).open(), b"not valid here"), "the token opens after its lease")
