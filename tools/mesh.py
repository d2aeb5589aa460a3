"""Starts and ends nodes of a Shoal mesh on this machine: for the demo, the tests and the benchmarks."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Refused(Exception):
    """A `shoal` command that did not exit with 0: its exit code and its sentence."""

    def __init__(self, code, text):
        super().__init__(f"exit {code}: {text}")
        self.code = code
        self.text = text


def processes_naming(text):
    """Ids of all processes whose arguments or environment name `text` (a data directory), this one excluded."""
    found = []
    needle = os.fsencode(str(text))
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            blob = Path(f"/proc/{entry}/cmdline").read_bytes() + b"\0" + Path(f"/proc/{entry}/environ").read_bytes()
            if needle + b"/" in blob or needle + b"\0" in blob:
                found.append(int(entry))
        except OSError:
            pass
    return found


class Node:
    """One node: a data directory, a working tree, a daemon. `wrap` is put before every command (ip netns exec ...)."""

    def __init__(self, base, name, slots="cpu:2", listen="127.0.0.1:0", build="release", wrap=(), options=()):
        self.name = name
        self.dir = Path(base) / name / "data"
        self.tree = Path(base) / name / "tree"
        self.tree.mkdir(parents=True, exist_ok=True)
        self.bin = ROOT / "build" / build
        self.slots = slots
        self.listen = listen
        self.wrap = list(wrap)
        self.options = list(options)
        self.daemon = None
        self.log = Path(base) / name / "shoald.log"

    def run(self, *arguments, check=True, timeout=120, text=True):
        """Runs `shoal` against this node; returns its standard output."""
        command = [*self.wrap, str(self.bin / "shoal"), *map(str, arguments), "--dir", str(self.dir)]
        done = subprocess.run(command, capture_output=True, text=text, timeout=timeout, cwd=self.tree)
        if check and done.returncode != 0:
            error = done.stderr if text else done.stderr.decode(errors="replace")
            raise Refused(done.returncode, error.strip())
        return done.stdout

    def json(self, *arguments, **options):
        return json.loads(self.run(*arguments, "--json", **options))

    def json_lines(self, *arguments, **options):
        return [json.loads(line) for line in self.run(*arguments, "--json", **options).splitlines() if line.strip()]

    def start(self):
        command = [*self.wrap, str(self.bin / "shoald"), "--dir", str(self.dir), "--listen", self.listen, "--slots",
                   self.slots, "--beacon", "0", "--name", self.name, *self.door(), *self.options]
        # Workers would wait for whatever else this machine computes; $SHOAL_POLITE and --polite decide otherwise.
        environment = {"SHOAL_POLITE": "off"} | os.environ
        with open(self.log, "ab") as log:
            self.daemon = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.tree,
                                           env=environment, start_new_session=True)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.daemon.poll() is not None:
                raise Refused(self.daemon.returncode, self.log.read_text(errors="replace")[-2000:])
            try:
                self.json("status", timeout=5)
                return self
            except (Refused, subprocess.TimeoutExpired, ValueError):
                time.sleep(0.05)
        raise Refused(5, f"{self.name} did not answer within 20 s; see {self.log}")

    def door(self):
        """No HTTP door, unless the options ask for one; a daemon from before there were doors does not know the option."""
        if "--http" in self.options:
            return []
        help_text = subprocess.run([str(self.bin / "shoald"), "--help"], capture_output=True, text=True, timeout=20).stdout
        return ["--http", "off"] if "--http" in help_text else []

    def kill_daemon(self, with_signal=signal.SIGKILL):
        self.daemon.send_signal(with_signal)
        self.daemon.wait(timeout=20)

    def kill_machine(self):
        """As if the power went: the daemon, its workers and whatever watches over them, at once."""
        deadline = time.monotonic() + 20
        left = [self.daemon.pid, *processes_naming(self.dir)]  # the daemon first: it must not see the others die
        while left and time.monotonic() < deadline:
            for process in left:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.daemon.wait(timeout=20)
            left = processes_naming(self.dir)  # what was just forked, and what is still on its way out

    def is_running(self):
        return self.daemon is not None and self.daemon.poll() is None


class Mesh:
    """Nodes that know each other by invite tokens. Use as a context manager: everything is ended at its end."""

    def __init__(self, base, names, **options):
        self.base = Path(base)
        self.nodes = [Node(base, name, **options) for name in names]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def start(self):
        first = self.nodes[0]
        first.run("init", "--name", "lab")
        first.start()
        for node in self.nodes[1:]:
            self.add(node)
        self.wait_alive(len(self.nodes))
        return self

    def add(self, node):
        member = next(n for n in self.nodes if n.is_running())
        token = member.run("invite").split()[-1]
        node.run("join", token, "--name", node.name)
        node.start()
        if node not in self.nodes:
            self.nodes.append(node)

    def living(self):
        return [node for node in self.nodes if node.is_running()]

    def wait_alive(self, count, timeout=30):
        wait_until(lambda: all(n.json("status")["nodes_alive"] >= count for n in self.living()), timeout,
                   f"{count} nodes to see each other")

    def by_name(self, name):
        return next(node for node in self.nodes if node.name == name)

    def end(self):
        for node in self.nodes:
            if node.is_running():
                node.daemon.kill()
                node.daemon.wait()
            for process in processes_naming(node.dir):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def remove(self):
        self.end()
        shutil.rmtree(self.base, ignore_errors=True)


def wait_until(condition, timeout, what):
    """Polls until `condition()` is true; returns what it returned. Errors of a node that is just dying are passed over."""
    deadline = time.monotonic() + timeout
    last = None
    while time.monotonic() < deadline:
        try:
            value = condition()
            if value:
                return value
        except (Refused, subprocess.TimeoutExpired, ValueError) as error:
            last = error
        time.sleep(0.1)
    raise TimeoutError(f"waited {timeout} s for {what}" + (f"; last: {last}" if last else ""))
