"""The program of a search of one's own (searcher custom), run anew: a fresh instance of the user's class is told of the
events of a log, and says what it answers. Stands in for the package shoal, with which it shares no code."""

import json
import runpy
import sys
import types
from dataclasses import dataclass, field
from unittest import mock

ACTIONS_MAX = 64  # of one answer
CREATES_BYTES = 6000  # of one answer, in the log


@dataclass(frozen=True)
class Create:
    values: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Stop:
    trial: int


@dataclass(frozen=True)
class Finish:
    pass


class Begun(Exception):
    """The program has come to run()."""


class Searcher:
    """What the user's class derives from."""

    def __init__(self):
        self.trials = {}

    def on_start(self):
        pass

    def on_report(self, trial, step, metric):
        pass

    def on_end(self, trial, how, metric):
        pass

    def run(self):
        raise Begun(self)


def load(path, *arguments):
    """The searcher that the program makes."""
    stub = types.ModuleType("shoal")
    stub.Searcher, stub.Create, stub.Stop, stub.Finish = Searcher, Create, Stop, Finish
    with mock.patch.dict(sys.modules, {"shoal": stub}), mock.patch.object(sys, "argv", [str(path), *arguments]):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Begun as begun:
            return begun.args[0]
    raise ValueError(f"{path} does not call run() of a shoal.Searcher")


@dataclass
class Event:
    """What a program is told. `kind` is start, report, end, more, or other: the log repeats something."""

    kind: str
    created: dict  # of the answer to the event before: trial -> values
    trial: int = 0
    step: int = 0
    how: str = ""
    metric: float = 0.0
    values: dict = None


class Life:
    """One life of a program, from its start on."""

    def __init__(self, searcher, parameters):
        self.searcher, self.pending, self.told = searcher, [], []
        self.most = min(ACTIONS_MAX, CREATES_BYTES // (16 + 9 * parameters))  # actions of one answer

    def answer(self, event):
        """The actions, and whether it has more to say."""
        searcher = self.searcher
        for trial, values in event.created.items():
            searcher.trials.setdefault(trial, values)
        if event.kind == "other":
            return [], False
        if event.kind in ("report", "end"):
            searcher.trials[event.trial] = event.values
        said = (searcher.on_start() if event.kind == "start" else
                searcher.on_report(event.trial, event.step, event.metric) if event.kind == "report" else
                searcher.on_end(event.trial, event.how, event.metric) if event.kind == "end" else None)
        self.told.append(self.line(event))
        self.pending += said or []
        actions, self.pending = self.pending[:self.most], self.pending[self.most:]
        return actions, bool(self.pending)

    def line(self, event):
        """The event as tests/e2e/programs/custom_kills.py writes it down."""
        words = [event.kind, len(self.searcher.trials)]
        if event.kind in ("report", "end"):
            words[1:1] = [event.trial, event.how or event.step, event.metric, json.dumps(event.values, sort_keys=True)]
        return " ".join(map(str, words))
