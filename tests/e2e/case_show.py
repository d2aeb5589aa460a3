"""What people look at all day: shoal show, shoal watch with its keys, shoal why."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import termios
import time

from door import DOOR, Door
from lab import Refused, case, expect, show, wait_over, wait_until

# Reports a loss that falls with each step, at some steps a second, until the file is there.
LOOP = """i=0; while [ $i -lt 600 ] && [ ! -e {done} ]; do i=$((i + 1))
echo "::shoal metric validation loss=$((1000 - i)) step=$i"; sleep 0.1; done"""


def search(lab, name="searched", done=None, trials=2, entrypoint=None, **more):
    return {"name": name, "entrypoint": entrypoint or LOOP.format(done=done), "metrics_from_output": True,
            "hyperparameters": {"rate": {"type": "double", "minval": 0, "maxval": 1}, "batch": 32, "max_steps": 600},
            "searcher": {"name": "random", "metric": "loss", "smaller_is_better": True, "max_trials": trials}, "max_restarts": 0, **more}


class Terminal:
    """A program on a terminal of its own: what it writes, and the terminal's mode."""

    def __init__(self, words, columns=80, lines=24, environment=None):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.pop("NO_COLOR", None)
            os.environ.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", **(environment or {})})
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execvp(words[0], [str(word) for word in words])

    def resize(self, columns, lines):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, timeout_s=0.1):
        if select.select([self.fd], [], [], timeout_s)[0]:
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                pass  # its last program has ended

    def wait(self, *texts, timeout_s=30):
        """Waits until one of the texts comes, and forgets what came before; returns what came up to it."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            found = [self.seen.index(text) + len(text) for text in texts if text in self.seen]
            if found:
                before, self.seen = self.seen[:min(found)], self.seen[min(found):]
                return before
            self.read()
        raise AssertionError(f"the terminal does not show {texts}, but: {self.seen[-3000:]!r}")

    def takes_keys(self):
        """The terminal hands over single keys."""
        return not termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO)

    def status(self):
        """Waits for the program's end."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.pid = None
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the program does not end")

    def end(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def on_terminal(lab, words, columns, **environment):
    """What the program writes on a terminal of so many columns."""
    terminal = Terminal(words, columns=columns, environment=environment)
    lab.at_end.append(terminal.end)
    expect(terminal.status() == 0, f"{words}: {terminal.seen}")
    return terminal.seen.replace("\r\n", "\n")


def wait_reported(mesh, identity, step):
    wait_until(lambda: all((t["step"] or 0) >= step and t["metrics"] for t in show(mesh, identity)["trials"]), 60, f"step {step} of all trials")


@case(limit_s=150)
def show_has_what_differs_how_far_and_how_fast(lab):
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    done = lab.dir / "done"
    identity = lab.submit(alder, search(lab, done=done))
    wait_reported(mesh, identity, 60)
    for node in mesh.nodes:
        text = node.run("show", identity)
        expect("in all trials: batch=32 max_steps=600\n" in text or "in all trials: max_steps=600 batch=32\n" in text, f"constants stand once:\n{text}")
        [head] = [line for line in text.splitlines() if line.lstrip().startswith("TRIAL")]
        for column in ("STATE", "STEP", "loss", "CURVE", "rate", "ELAPSED", "LEFT", "STEPS/S"):
            expect(column in head.split(), f"there is no {column}: {head}")
        expect("batch" not in head, head)
        curves = node.json("show", identity)["curves"]
        expect([c["index"] for c in curves] == [0, 1], f"curves of both trials: {curves}")
        for curve in curves:
            steps, values = curve["steps"], curve["values"]
            expect(2 <= len(steps) <= 24 and steps == sorted(steps) and len(values) == len(steps), f"{curve}")
            expect(values == sorted(values, reverse=True) and curve["best"] == values[-1], f"the loss falls: {curve}")
            expect(curve["rate"] and 1 < curve["rate"] < 20, f"some ten steps a second: {curve}")
    words = [alder.bin / "shoal", "show", "--dir", alder.dir, identity]
    for columns in (60, 80, 120):
        text = on_terminal(lab, words, columns, NO_COLOR="1")
        expect("\033" not in text and max(map(len, text.splitlines())) <= columns and "▁" in text, f"it fits {columns} columns:\n{text}")
    expect("\033[1m" in on_terminal(lab, words, 80), "colours on a terminal")
    expect("\033" not in on_terminal(lab, words, 80, TERM="dumb"), "none on a dumb one")
    expect(on_terminal(lab, words, 80, LC_ALL="C").isascii(), "ASCII where the locale is not UTF-8")
    text = birch.run("show", f"{identity}/1")
    expect("trial 1 of searched  " in text and "\nattempts\n  attempt 1 on " in text and "validation/loss\n" in text, text)
    expect("attempt 1 runs on " in birch.run("why", f"{identity}/1"), "why it runs")
    birch.run("stop", f"{identity}/1")
    wait_until(lambda: show(mesh, identity)["trials"][1]["state"] == "stopped", 60, "trial 1 to be stopped")
    expect("a user stopped the trial, and its last worker has ended (20" in birch.run("why", f"{identity}/1"), birch.run("why", f"{identity}/1"))
    done.touch()
    wait_over(mesh, identity, 60)
    expect(alder.json("show", identity)["curves"][0]["steps"][-1] > 60, "the curve outlives the trial")


@case(limit_s=120)
def why_names_the_cause_and_what_was_reported_instead(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    fails = lab.submit(node, search(lab, "fails", trials=1, entrypoint="echo the last words; exit 3"))
    wait_over(mesh, fails, 60, state="failed")
    text = node.run("why", f"{fails}/0")
    expect(text.startswith("trial 0 is failed\n  a worker failed: rank 0 ended with status 3 (20"), text)
    expect("its program failed 1 time, and max_restarts is 0\n" in text and "    the last words\n" in text, text)
    other = lab.submit(node, search(lab, "other", trials=2, entrypoint="echo '::shoal metric validation acc=1 step=1'; sleep 1"))
    wait_over(mesh, other, 60)
    text = node.run("why", f"{other}/1")
    expect("searcher.metric is loss, and the trial has not reported it in group validation; it has reported: validation/acc; "
           "so it cannot be the best trial\n" in text, text)
    waits = lab.submit(node, search(lab, "waits", trials=1, entrypoint="true", resources={"slots_per_trial": 7}))
    text = wait_until(lambda: t if "7 slots" in (t := node.run("why", waits)) else None, 30, "the reason why it waits")
    expect(text.startswith("trial 0 is queued\n"), text)
    expect(json.loads(node.run("why", waits, "--json"))["trial"]["state"] == "queued", "--json has the document")


@case(limit_s=180)
def watch_has_keys_and_gives_the_terminal_back(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    done = lab.dir / "done"
    identity = lab.submit(node, search(lab, done=done, trials=3))
    words = [node.bin / "shoal", "watch", "--dir", node.dir, identity]
    wait_reported_two = lambda: sum(bool(t["metrics"]) for t in show(mesh, identity)["trials"]) == 2  # noqa: E731
    wait_until(wait_reported_two, 60, "two trials to report")
    terminal = Terminal(words)
    lab.at_end.append(terminal.end)
    terminal.wait("q quit")
    expect(terminal.takes_keys(), "the terminal hands over keys")
    terminal.press("s")
    terminal.wait("s sort:best")
    terminal.press("\033[B\r")  # down, Enter
    terminal.wait("attempt 1 on ")
    terminal.press("\033")
    terminal.wait("Enter open")
    terminal.resize(40, 14)
    terminal.wait("\033[2J")
    drawn = terminal.wait("↑↓ Enter l s c q")
    expect("ELAPSED" not in drawn and "TRIAL" in drawn, f"40 columns have no room for all: {drawn!r}")
    terminal.resize(160, 24)
    terminal.wait("ELAPSED")
    terminal.press("l")
    terminal.wait("Ctrl-C goes back")
    terminal.wait("::shoal metric validation loss=")
    terminal.press("\003")
    terminal.wait("q quit")
    terminal.press("c")
    terminal.wait("for good, with all its trials? y/n")
    terminal.press("n")
    terminal.wait("q quit")
    expect(show(mesh, identity)["state"] == "running", "no is no")
    terminal.press("q")
    expect(terminal.status() == 0 and not terminal.takes_keys(), "q ends it, and the terminal is as before")
    for number in (signal.SIGINT, signal.SIGTERM):
        terminal = Terminal(words, environment={"LC_ALL": "C"})
        lab.at_end.append(terminal.end)
        terminal.wait("up/down choose")
        expect(terminal.takes_keys(), "the terminal hands over keys")
        os.kill(terminal.pid, number)
        terminal.wait("\033[?25h")
        expect(terminal.status() == -number and not terminal.takes_keys(), f"after {number.name} the terminal is as before")
    terminal = Terminal(words)
    lab.at_end.append(terminal.end)
    terminal.wait("q quit")
    terminal.press("c")
    terminal.wait("y/n")
    terminal.press("y")
    expect(terminal.status() == 0, "it ends with the experiment")
    expect(show(mesh, identity)["state"] == "cancelled", "yes is yes")


@case(limit_s=120)
def watch_can_be_suspended_and_goes_on(lab):
    """By a shell, whose mode of the terminal is its own."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, search(lab, entrypoint="sleep 600"))
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "a trial to run")
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], environment={"PS1": "ready> "})
    lab.at_end.append(terminal.end)
    terminal.wait("ready> ")
    terminal.press(f"{node.bin}/shoal watch --dir {node.dir} {identity}\n")
    terminal.wait("q quit")
    wait_until(terminal.takes_keys, 10, "keys to be taken")
    terminal.press("\032")  # Ctrl-Z
    shown = terminal.wait("Stopped")
    expect("\033[?25h" in shown, f"the cursor is back: {shown!r}")
    terminal.wait("ready> ")
    terminal.press("stty -a; echo is\"\"over\n")
    modes = terminal.wait("isover")
    expect(" icanon" in modes and " echo " in modes, f"the shell's mode is back: {modes}")
    terminal.press("fg\n")
    terminal.wait("q quit")
    wait_until(terminal.takes_keys, 10, "keys to be taken again")
    terminal.press("q")
    terminal.wait("ready> ")
    terminal.press("echo status=$?\n")
    terminal.wait("status=0")
    node.run("cancel", identity)


@case(limit_s=60)
def a_thousand_trials_are_shown_at_once(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, search(lab, "wide", trials=1000, entrypoint="sleep 600"))
    wait_until(lambda: show(mesh, identity)["counts"]["running"] == 1, 30, "a trial to run")
    text = node.run("show", identity)
    expect("and 980 more: 980 queued; --all shows them\n" in text, text)
    expect(len(text.splitlines()) < 40, f"the summary is short:\n{text}")
    expect(len(node.run("show", identity, "--all", "--columns", "trial,params").splitlines()) > 1000, "--all has all")
    node.run("cancel", identity)


@case(limit_s=60)
def trials_are_found_and_sorted_by_their_hyperparameters(lab):
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    node.run("withhold")  # what is queued has its hyperparameters already
    spaces = {"hyperparameters": {"rate": {"type": "double", "minval": 0, "maxval": 1}, "net": {"depth": {"type": "categorical", "vals": ["low", "high"]}}}}
    identity = lab.submit(node, {**search(lab, trials=300, entrypoint="true"), **spaces})
    rows = node.json("show", identity)["experiment"]["trials"]
    rates = {row["index"]: row["hyperparameters"]["rate"] for row in rows}
    few = sorted((index for index, rate in rates.items() if rate < 0.1), key=rates.get)
    expect(10 < len(few) < 100, f"{len(few)} of {len(rows)} draws are below 0.1")
    part = node.json("show", identity, "--where", "hp.rate<0.1")["experiment"]
    expect([row["index"] for row in part["trials"]] == sorted(few) and part["matching"] == len(few), f"--where: {part['matching']}")
    low = [row["index"] for row in rows if row["hyperparameters"]["net"]["depth"] == "low"]
    both = node.json("show", identity, "--where", "hp.net.depth = low and hp.rate>=0.5")["experiment"]["trials"]
    expect([row["index"] for row in both] == [index for index in low if rates[index] >= 0.5], "a text and a number")
    table = [line.split()[0] for line in node.run("show", identity, "--all", "--where", "hp.rate<0.1", "--sort", "hp.rate").splitlines()]
    expect([word for word in table if word.isdigit()] == [str(index) for index in few], f"the table: {table}")
    door = Door(node)
    page = door.document(f"/experiments/{identity}?sort=hp.rate&descending=true&limit=5&from=2")["experiment"]
    wanted = sorted(rates, key=rates.get, reverse=True)[2:7]
    expect([row["index"] for row in page["trials"]] == wanted and page["matching"] == 300, f"{page['trials']}")
    page = door.document(f"/experiments/{identity}?sort=hp.net.depth&where=hp.rate%3C0.1")["experiment"]
    expect([row["index"] for row in page["trials"]] == sorted(sorted(few), key=lambda index: index in low), "texts are sorted")
    for words in ("hp.lr<1", "rate<1", "hp.rate<small", "hp.rate<1 and"):
        try:
            node.run("show", identity, "--where", words)
            raise AssertionError(f"{words} is taken")
        except Refused as error:
            expect(error.code == 2 and ("has a hyperparameter lr" in str(error) or "conditions are such as" in str(error)), f"{words}: {error}")
    answer = door.get(f"/api/v1/experiments/{identity}?sort=hp.lr")
    expect(answer.status == 400 and "No trial of searched has a hyperparameter lr" in answer.json()["detail"], f"{answer}")
