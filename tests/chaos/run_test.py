#!/usr/bin/python3
"""What a storm over a mesh is told and cannot use, and a run that shows nothing. usage: run_test.py BUILD_DIRECTORY"""

import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from run import Broken, Chaos, Judge

from mesh import Refused  # where `run` finds it

RUN = Path(__file__).resolve().parent / "run.py"
BOUND_S = 60


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def what_cannot_be_used_is_a_usage_error():
    for option, error in (
            ("--minutes=-1", "--minutes is -1; allowed are numbers from 0, which is one storm, on"),
            ("--minutes=nan", "--minutes is nan; allowed are numbers from 0, which is one storm, on"),
            ("--experiments=0", "--experiments is 0; without one under way nothing is shown: give 1 at least"),
            ("--nodes=1", "--nodes is 1; allowed are 2 to 9"),
            ("--faults=", "--faults is at least one"),
            ("--faults=flood", "there is no fault flood")):
        done = subprocess.run([sys.executable, RUN, "--build", "/nosuch", option], capture_output=True, text=True, timeout=BOUND_S)
        expect(done.returncode == 2 and done.stderr.endswith(f"run.py: error: {error}\n"), f"{option}: {done.returncode} {done.stderr}")


def broken_by(judged, checkpoints):
    """What a run of which so much was judged is said to lack."""
    chaos = Chaos.__new__(Chaos)  # without a mesh
    chaos.judge = SimpleNamespace(judged=judged, checkpoints=checkpoints)
    try:
        chaos.must_show_something()
    except Broken as broken:
        return str(broken)
    return ""


def a_run_that_looks_at_nothing_is_broken():
    expect(broken_by({"e1"}, 1) == "", "a run that shows something is called broken")
    expect(broken_by(set(), 1) == "no experiment was judged: this run shows nothing", "no experiment was judged")
    expect(broken_by({"e1"}, 0) == "no checkpoint was read back: this run shows nothing of them", "no checkpoint was read")


class Node:
    """Lists what it is given, and refuses to read anything."""

    def __init__(self, steps):
        self.checkpoints = [{"trial": 0, "step": step, "durable": durable} for step, durable in steps.items()]
        self.tree, self.name = Path("/nosuch"), "a"

    def json(self, *_):
        return {"checkpoints": self.checkpoints}

    def run(self, *_, **__):
        raise Refused(1, "it cannot be read")


def a_checkpoint_that_cannot_be_read_is_excused_only_when_all_list_a_later_one_instead():
    sys.modules[Judge.__module__].READ_S = sys.modules[Judge.__module__].DROPPED_S = 0.1
    newer, both = {9: True}, {7: True, 9: True}
    for refusing, first, second, excused in (
            (0, both, both, False), (0, {7: False, 9: True}, newer, False), (0, newer, both, False), (0, newer, {7: False, 9: True}, False),
            (1, newer, both, False), (1, both, newer, False), (0, newer, newer, True), (1, newer, newer, True),
            (0, {}, {}, False), (1, newer, {}, False), (0, {5: True}, {5: True}, False)):
        judge = Judge.__new__(Judge)  # without a mesh
        judge.mesh = SimpleNamespace(nodes=[Node(first), Node(second)])
        judge.dropped = 0
        judge.stream = SimpleNamespace(choice=lambda nodes: nodes[refusing])
        try:
            judge.read_checkpoint(SimpleNamespace(identity="e1"), 0, 7)
            was = True
        except Broken:
            was = False
        expect(was == excused and judge.dropped == int(excused),
               f"refused at node {refusing} of two that list {first} and {second}: {'excused' if was else 'broken'}")


class SlowNode(Node):
    """Reads what it lists at the second try."""

    def __init__(self, tree):
        super().__init__({7: True})
        self.tree, self.tries = Path(tree), 0

    def run(self, *arguments, **_):
        self.tries += 1
        if self.tries == 1:
            return super().run(*arguments)
        arguments[-1].mkdir()
        (arguments[-1] / "checkpoint").write_bytes(b"7")
        return ""


def a_checkpoint_that_is_listed_is_read_again_when_it_cannot_be_read_at_once():
    sys.modules[Judge.__module__].READ_S = BOUND_S
    with tempfile.TemporaryDirectory() as tree:
        judge = Judge.__new__(Judge)  # without a mesh
        judge.checkpoints = judge.dropped = 0
        judge.stream = SimpleNamespace(choice=lambda nodes: nodes[0])
        judge.mesh = SimpleNamespace(nodes=[SlowNode(tree)])
        judge.read_checkpoint(SimpleNamespace(identity="e1", checkpoint=lambda trial, step: b"7"), 0, 7)
        expect((judge.checkpoints, judge.dropped, judge.mesh.nodes[0].tries) == (1, 0, 2), "it was not read at the second try")


def main():
    for test in (what_cannot_be_used_is_a_usage_error, a_run_that_looks_at_nothing_is_broken,
                 a_checkpoint_that_cannot_be_read_is_excused_only_when_all_list_a_later_one_instead,
                 a_checkpoint_that_is_listed_is_read_again_when_it_cannot_be_read_at_once):
        test()
        print(f"ok {test.__name__}", flush=True)


if __name__ == "__main__":
    main()
