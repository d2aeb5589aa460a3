"""Computes anew what a search has decided and drawn, from the records on a node's disk. Shares no code with Shoal: it reads
the envelopes and MessagePack bodies by docs/wire.md, folds the logs by docs/design.md 14, and applies the rules of
asynchronous successive halving, with stops or with promotions, of the tree-structured Parzen estimator and of population-
based training (search_draws.py) to the metrics in their order. Of a search in which a program decides, it tells a fresh
instance of the program (search_programs.py) of the log's events and compares the answers.

usage: search_replay.py DIR EXPERIMENT [--build DIR] [--program "FILE ARGUMENT..."]
checks one node's records; prints what it found, exit status 1 if anything is wrong"""

import argparse
import json
import math
import shlex
import struct
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

from search_draws import TPE, Space
from search_programs import load
from search_states import (CLOSES, ENDS, OVER, PAUSES, STOPS, TOPS_OUT, WORDS, Answer, Answers, Entry, Generations, Ladder,
                           State, Wrong, same)

EXPERIMENT, CLAIM, ATTEMPT, WORKER, VERDICT, MANIFEST, EXPERIMENT_LARGE, ATTEMPT_LARGE, STOP, NOTE = 5, 7, 8, 9, 10, 11, 25, 26, 28, 29
RESULT, LOG, SEARCH_STOP, SEARCH_PAUSE = 30, 31, 32, 35
GRID, ASHA, ADAPTIVE, DRAWS, POPULATION, CUSTOM = 1, 3, 4, 5, 6, 7  # searchers; DRAWS: tpe
RANGES = (2, 3, 4)  # kinds of hyperparameters with a count
MODES = ("standard", "aggressive", "conservative")
FURTHER_TRIALS = 5  # the subject of a note


# ---- bytes ---------------------------------------------------------------------------------------------------------------


def unpack(data, at=0):
    """One MessagePack value from `at` on, and where it ends."""
    head = data[at]
    at += 1
    if head < 0x80 or head >= 0xe0:
        return (head if head < 0x80 else head - 256), at
    if head < 0xc0:
        count = head & (0x1f if head >= 0xa0 else 0x0f)
        kind = "text" if head >= 0xa0 else "list" if head >= 0x90 else "map"
    elif head in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[head], at
    elif head in SCALARS:
        form = struct.Struct(">" + SCALARS[head])
        return form.unpack_from(data, at)[0], at + form.size
    else:
        kind, size = SIZED[head]
        count = int.from_bytes(data[at:at + size], "big")
        at += size
    if kind in ("text", "bytes"):
        part = bytes(data[at:at + count])
        return (part.decode(errors="replace") if kind == "text" else part), at + count
    values = []
    for _ in range(count * (2 if kind == "map" else 1)):
        value, at = unpack(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2])) if kind == "map" else values), at


SCALARS = {0xca: "f", 0xcb: "d", 0xcc: "B", 0xcd: "H", 0xce: "I", 0xcf: "Q", 0xd0: "b", 0xd1: "h", 0xd2: "i", 0xd3: "q"}
SIZED = {0xc4: ("bytes", 1), 0xc5: ("bytes", 2), 0xc6: ("bytes", 4), 0xd9: ("text", 1), 0xda: ("text", 2), 0xdb: ("text", 4),
         0xdc: ("list", 2), 0xdd: ("list", 4), 0xde: ("map", 2), 0xdf: ("map", 4)}


class Record:
    """A decoded envelope."""

    def __init__(self, envelope):
        _, self.kind = struct.unpack_from(">BH", envelope)
        self.writer = envelope[3:19]
        self.boot, self.sequence, length = struct.unpack_from(">QQB", envelope, 19)
        self.key = envelope[36:36 + length]
        size = int.from_bytes(envelope[36 + length:38 + length], "big")
        self.body = envelope[38 + length:38 + length + size]

    def value(self):
        return unpack(self.body)[0]


def read_records(directory, build):
    done = subprocess.run([f"{build}/dump_state", directory], capture_output=True, text=True, check=True)
    return [Record(bytes.fromhex(line)) for line in done.stdout.split()]


# ---- the configuration ---------------------------------------------------------------------------------------------------


class Bracket:
    def __init__(self, rungs, trials=1):
        self.rungs, self.trials = rungs, trials


def most_rungs(divisor, whole, most):
    """The largest number of rungs for which divisor^(rungs-1) is at most `whole`."""
    return max(rungs for rungs in range(1, most + 1) if rungs == 1 or divisor ** (rungs - 1) <= whole)


def make_brackets(config):
    divisor, trials = Fraction(config.get("divisor", 4)), config["max_trials"]
    if config["searcher"] == ASHA:
        return [Bracket(config["num_rungs"], trials)]
    rungs = sorted((rungs for rungs in config.get("bracket_rungs", []) if rungs != 0), reverse=True)  # 0: the search promotes
    if not rungs:
        most = min(most_rungs(divisor, config["max_time"], config.get("max_rungs", 5)),
                   most_rungs(divisor, trials, config.get("max_rungs", 5)))
        mode = MODES[config.get("mode", 0)]
        least = {"standard": (most - 1) // 2 + 1, "aggressive": most, "conservative": 1}[mode]
        rungs = list(range(most, least - 1, -1))
    weights = [divisor ** (r - 1) / r for r in rungs]
    brackets = [Bracket(r, max(1, math.floor(w / sum(weights) * trials))) for r, w in zip(rungs, weights)]
    while sum(b.trials for b in brackets) > trials:
        largest = max(brackets, key=lambda b: b.trials)  # the first of equals
        if largest.trials > 1:
            largest.trials -= 1
        else:
            brackets.pop()
    brackets[0].trials += trials - sum(b.trials for b in brackets)
    return brackets


def seat_trials(brackets):
    """The bracket of each trial: seats by the method of Sainte-Lague."""
    given, seats = [0] * len(brackets), []
    for _ in range(sum(b.trials for b in brackets)):
        left = [i for i, b in enumerate(brackets) if given[i] < b.trials]
        best = max(left, key=lambda i: (Fraction(brackets[i].trials, 2 * given[i] + 1), -i))
        given[best] += 1
        seats.append(best)
    return seats


class Search:
    """The search of one experiment as its configuration has it, and what one node's records say of it."""

    def __init__(self, records, experiment, program=None):
        """`program` makes a fresh searcher of the user's, where one decides; without it its answers are not compared."""
        self.program = program
        key = bytes.fromhex(experiment)
        own = [record for record in records if record.key[:8] == key]
        whole = [record for record in own if record.kind in (EXPERIMENT, EXPERIMENT_LARGE) and record.key == key]
        if not whole:
            raise Wrong(f"there is no record of experiment {experiment}")
        self.config = whole[0].value()[4]
        self.trials = self.config["max_trials"]
        if self.config["searcher"] == GRID:
            self.trials = math.prod(parameter[4] for parameter in self.config["hyperparameters"] if parameter[1] in RANGES)
        else:
            self.trials = max([self.trials] + [int(record.key[9:]) for record in own if record.kind == NOTE and record.key[8] == FURTHER_TRIALS])
        self.searcher = self.config["searcher"]
        self.halves = self.searcher in (ASHA, ADAPTIVE)
        self.promotes = self.halves and 0 in self.config.get("bracket_rungs", [])
        self.smaller = self.config["smaller_is_better"]
        if self.halves:
            self.divisor = Fraction(self.config.get("divisor", 4))
            self.brackets = make_brackets(self.config)
            self.seats = seat_trials(self.brackets)
        space = Space(self.config.get("hyperparameters", []))
        is_drawn = self.searcher in (DRAWS, POPULATION, CUSTOM) or (self.halves and space.sampler == TPE)
        self.space = space if is_drawn else None
        self.drawn = 0  # draws computed anew
        self.claims = {record.writer: record.value()[0] for record in own if record.kind == CLAIM}
        self.attempts, self.results, self.stops, self.pauses, self.verdicts, self.retries = {}, {}, {}, {}, {}, {}
        self.reports = {}  # (trial, step) -> the metrics that workers had there, or their checkpoints
        logs = {}
        for record in own:
            if record.kind in (ATTEMPT, ATTEMPT_LARGE):
                trial, number, term = struct.unpack_from(">IIQ", record.key, 8)
                self.attempts[trial, number, term, record.writer] = record.value()[7 if record.kind == ATTEMPT else 8:]
            elif record.kind in (RESULT, VERDICT):
                attempt = (*struct.unpack_from(">IIQ", record.key, 8), record.key[24:40])
                if record.kind == RESULT:
                    self.results.setdefault((*attempt, record.key[40]), []).append((record.writer, *record.value()))
                else:
                    self.verdicts.setdefault(attempt, []).append(record.value())
            elif record.kind in (WORKER, MANIFEST) and self.searcher in (DRAWS, CUSTOM):
                value, trial = record.value(), struct.unpack_from(">I", record.key, 8)[0]
                step = value[5] if record.kind == WORKER else int.from_bytes(record.key[-8:], "big")
                metric = self.metric_in(value[9]) if record.kind == WORKER else value[4]
                self.reports.setdefault((trial, step), []).append(metric)
            elif record.kind == LOG:
                number, = struct.unpack_from(">I", record.key, 16)
                logs.setdefault((record.writer, record.key[8:16]), {})[number] = record.value()
            elif record.kind in (SEARCH_STOP, SEARCH_PAUSE, STOP):
                kept = {SEARCH_STOP: self.stops, SEARCH_PAUSE: self.pauses, STOP: self.retries}[record.kind]
                kept[struct.unpack_from(">I", record.key, 8)[0], record.writer] = record.value()
        self.logs = {name: whole_prefix(numbered) for name, numbered in logs.items() if 0 in numbered}

    def same_as(self, other):
        """Both nodes have the same records of the search."""
        def content(search):
            kept = (search.claims, search.logs, search.attempts, search.results, search.verdicts, search.reports, search.stops, search.pauses)
            return [sorted(map(repr, one.items())) for one in kept]  # as text: a NaN equals no NaN

        return content(self) == content(other)

    def judges(self):
        return self.halves or self.space is not None

    def bracket_of(self, trial):
        return self.seats[trial % self.config["max_trials"]] if self.halves else 0

    def rungs_of(self, trial):
        if self.searcher == CUSTOM:
            return -(-self.config["max_time"] // self.config.get("every", self.config["max_time"]))
        return self.brackets[self.bracket_of(trial)].rungs if self.halves else 1

    def target(self, trial, rung):
        """The length of a rung."""
        whole = self.config.get("max_time", 0)
        if self.searcher == CUSTOM:
            return min(self.config.get("every", whole) * (rung + 1), whole)
        if not self.halves:
            return whole * (trial // self.config["population_size"] + 1 if self.searcher == POPULATION else 1)
        return max(1, math.floor(self.config["max_time"] / self.divisor ** (self.rungs_of(trial) - 1 - rung)))

    def is_better(self, metric, than):
        return metric < than if self.smaller else metric > than

    def draw(self, attempt):
        """What the attempt's record has of its parent and its values, or None."""
        more = self.attempts.get(attempt)
        return more[0] if more else None

    def point(self, attempt):
        """The values that the attempt's record has, or None."""
        draw = self.draw(attempt)
        return draw[1:] if draw else None

    def metric_in(self, packed):
        """The searcher's metric in packed metrics, or None."""
        return unpack(packed)[0].get("validation", {}).get(self.config["metric"]) if packed else None

    def metrics_of(self, trial):
        """All metrics of the trial that are known."""
        verdicts = [verdict for attempt, own in self.verdicts.items() if attempt[0] == trial for verdict in own]
        told = [self.metric_in(verdict[2]) for verdict in verdicts]
        told += [metric for (of, _), metrics in self.reports.items() if of == trial for metric in metrics]
        told += [result[3] for (of, *_), results in self.results.items() if of == trial for result in results]
        return {metric for metric in told if metric is not None}

    def has_ended(self, trial):
        """An attempt of the trial has ended, or a user has stopped it."""
        return any(attempt[0] == trial for attempt in self.verdicts) or any(of == trial for of, _ in self.retries)

    # ---- the fold ----

    def rank(self, name):
        """Of two logs the one with the higher rank counts; None: the log's writer has not claimed its term."""
        writer, text = name
        term, boot = self.logs[name][0][:2]
        return (term, writer, boot, text) if self.claims.get(writer, 0) >= term else None

    def make_state(self):
        return {POPULATION: Generations, CUSTOM: Answers}.get(self.searcher, Ladder if self.promotes else State)(self)

    def read_log(self, name, check=False):
        """What stands in a log, what it has adopted included, and how many decisions of its own were computed anew: (state, count). It
        ends where it adopts what is not here."""
        state, taken, checked = self.make_state(), {name: 0}, 0
        for record in self.logs[name]:
            for writer, text, until in record[2]:
                other = (writer, text)
                have = self.logs.get(other, [])
                for number in range(taken.get(other, 0), until):
                    if number >= len(have):
                        return state, checked
                    state.read(have[number], check=False)
                taken[other] = max(taken.get(other, 0), until)
            checked += state.read(record, check)
        return state, checked

    def is_possible(self, entry):
        return entry.trial < self.trials and entry.rung < self.rungs_of(entry.trial)

    def take(self, state, entry):
        entry.length_due = self.target(entry.trial, entry.rung)
        if self.halves and not self.promotes:
            state.decide(entry)  # for its place
        state.take(entry)

    # ---- the checks ----

    def check_logs(self):
        """Each log by itself: its entries are of results, in order, and each decision of its own follows from what stands before it."""
        checked = 0
        for name in self.logs:
            state, count = self.read_log(name, check=True)
            checked += count
            if self.program is not None:
                state.check_answers()
        return checked

    def check_result(self, entry):
        """The entry has the result of its attempt."""
        told = (entry.step, entry.length, entry.metric)
        results = [result[1:4] for result in self.results.get((*entry.attempt(), entry.rung), [])]
        if self.searcher == DRAWS:
            # What a completed trial has reported last, perhaps before its last attempt, which had nothing left to do.
            for reason, step, metrics, *_ in self.verdicts.get(entry.attempt(), []):
                metric = self.metric_in(metrics)
                known = [metric] if metric is not None else [m for m in self.reports.get((entry.trial, step), []) if m is not None]
                results += [(step, step, metric) for metric in known or [math.nan] if reason == OVER]
        if not any(same(result, told) for result in results):
            raise Wrong(f"{entry} is judged by {told}, and its results are {results}")
        if entry.length < self.target(entry.trial, entry.rung):
            raise Wrong(f"{entry} is judged at the length {entry.length}, and the rung is at {self.target(entry.trial, entry.rung)}")

    def check_entry(self, state, entry):
        if not self.is_possible(entry):
            raise Wrong(f"{entry} is judged, and there is no such trial or rung")
        if not state.follows(entry):
            raise Wrong(f"{entry} {WORDS[entry.decision]}, and rung {state.next_rung(entry.trial)} is its next "
                        f"in that log")
        has_attempt = entry.decision != ENDS or entry.number != 0
        if has_attempt and entry.attempt() not in self.attempts:
            raise Wrong(f"{entry} is judged, and there is no such attempt")
        if entry.decision != ENDS:
            self.check_result(entry)
        if self.space is not None and entry.decision != ENDS:
            point = state.point_of(entry.trial, entry.attempt())
            if point is None or not same(point, self.point(entry.attempt()) or []):
                raise Wrong(f"{entry} is judged with the values {point}, and its attempt has {self.point(entry.attempt())}")
        wanted = state.decide(entry)
        if entry.decision != wanted:
            raise Wrong(f"{entry} ({entry.metric}) {WORDS[entry.decision]} by its log, and {WORDS[wanted]} by the rule")

    def state(self):
        """The state of the highest log, which every node that has the same records shows."""
        ranked = [(self.rank(name), name) for name in self.logs if self.rank(name) is not None]
        return self.read_log(max(ranked)[1])[0] if ranked else self.make_state()

    def named(self, trial, rung, name, at, decisions):
        """Whether record `at` of a log decides that of the trial, or a program's answer there, or that it has said that it
        is done."""
        log = self.logs.get(name, [])
        record = log[at] if at < len(log) else [0, 0, [], []]
        answer = Answer(record[5]) if len(record) > 5 else None
        is_stopped = answer is not None and any(trial == stopped for stopped, _ in answer.stopped)
        return any(e.trial == trial and e.rung == rung and e.decision in decisions for e in map(Entry, record[3])) or (
            CLOSES in decisions and (is_stopped or (at == 0 and self.searcher == CUSTOM and self.is_uncreated(name, trial))))

    def is_uncreated(self, name, trial):
        """By the log the program has said that it creates no further trials, and this one is none of those that it has
        created."""
        state = self.read_log(name)[0]
        return state.finished and trial not in state.values

    def check_stops(self):
        """Each stop and pause names a decision that its log has, and begins nothing anew."""
        for (trial, _), (_, rung, is_top, writer, text, at) in self.stops.items():
            if not self.named(trial, rung, (writer, text), at, (TOPS_OUT,) if is_top else (STOPS, CLOSES)):
                raise Wrong(f"trial {trial} is stopped at rung {rung}, and the log that the stop names does not say so")
        for (trial, _), (_, _, _, rung, writer, text, at) in self.pauses.items():
            if not self.named(trial, rung, (writer, text), at, (PAUSES,)):
                raise Wrong(f"trial {trial} is paused at rung {rung}, and the log that the pause names does not say so")

    def check_end(self):
        """Of a search that is over: all trials have begun, no further ones, and each report at a rung that a trial was to go on to is
        judged, once."""
        state = self.state()
        wanted, begun = state.expected(), {attempt[0] for attempt in self.attempts}
        if begun != wanted:
            raise Wrong(f"there are {len(wanted)} trials, and attempts of {len(begun)}: {sorted(begun ^ wanted)}")
        if self.space is not None:
            lacking = [attempt[:2] for attempt in self.attempts if self.point(attempt) is None]
            if lacking:
                raise Wrong(f"the attempts {lacking} have no values")
        if not self.judges():
            return
        judged = Counter((e.trial, e.rung) for e in state.entries if e.is_result())
        twice = [pair for pair, count in judged.items() if count > 1]
        if twice:
            raise Wrong(f"judged twice: {twice}")
        for trial, number, _, _, rung in self.results:
            if state.awaits(trial, number, rung):
                raise Wrong(f"attempt {number} of trial {trial} has reported at rung {rung}, and nobody has judged that")
        if state.left() is not None:
            raise Wrong(f"the search is over, and {state.left()}")

    def check(self, is_over):
        """Raises Wrong; else returns how many decisions were computed anew."""
        checked = self.check_logs() if self.judges() else 0
        self.check_stops()
        if is_over:
            self.check_end()
        return checked

    def judged(self):
        """As `shoal rungs --json` tells it."""
        return [{"trial": e.trial, "attempt": e.number, "bracket": self.bracket_of(e.trial), "rung": e.rung, "step": e.step, "length": e.length,
                 "metric": e.metric, "decision": WORDS[e.decision], "place": e.place, "of": e.of} for e in self.state().entries]


def whole_prefix(numbered):
    """The records from 0 up to the first that is missing."""
    records = []
    while len(records) in numbered:
        records.append(numbered[len(records)])
    return records


def main():
    parser = argparse.ArgumentParser(prog="tests/e2e/search_replay.py", description=__doc__.splitlines()[0])
    parser.add_argument("directory", metavar="DIR", help="the node's data directory")
    parser.add_argument("experiment", metavar="EXPERIMENT", help="its whole id")
    parser.add_argument("--build", default=str(Path(__file__).resolve().parents[2] / "build/release"), metavar="DIR")
    parser.add_argument("--over", action="store_true", help="the search is over: nothing may be left")
    parser.add_argument("--json", action="store_true", help="the decisions, one a line")
    parser.add_argument("--program", metavar="WORDS",
                        help="of a search in which a program decides: the program's file and its arguments")
    arguments = parser.parse_args()
    program = (lambda: load(*shlex.split(arguments.program))) if arguments.program else None
    try:
        search = Search(read_records(arguments.directory, arguments.build), arguments.experiment, program)
        checked = search.check(arguments.over)
    except Wrong as wrong:
        print(f"search_replay.py: {wrong}.", file=sys.stderr)
        return 1
    if arguments.json:
        for judged in search.judged():
            print(json.dumps(judged))
    else:
        print(f"{search.trials} trials, {len(search.logs)} logs, {checked} decisions and {search.drawn} draws computed anew, "
              f"{len(search.stops)} stops: all follow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
