"""Computes anew what a search that stops trials early has decided, from the records on a node's disk. Shares no code with Shoal: it
reads the envelopes and MessagePack bodies by docs/wire.md, folds the logs by docs/design.md 14, and applies the rule of asynchronous
successive halving to the metrics in their order.

usage: search_replay.py DIR EXPERIMENT [--build DIR]   checks one node's records; prints what it found, exit status 1 if anything is wrong"""

import argparse
import json
import math
import struct
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

EXPERIMENT, CLAIM, ATTEMPT, VERDICT, EXPERIMENT_LARGE, ATTEMPT_LARGE, STOP, RESULT, LOG, SEARCH_STOP = 5, 7, 8, 10, 25, 26, 28, 30, 31, 32
GOES_ON, STOPS, TOPS_OUT = 0, 1, 2
WORDS = ("goes on", "stops", "top")
GRID, ASHA, ADAPTIVE = 1, 3, 4
RANGES = (2, 3, 4)  # kinds of hyperparameters with a count
MODES = ("standard", "aggressive", "conservative")


class Wrong(Exception):
    """What the records say does not follow from the rule."""


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
    rungs = sorted(config.get("bracket_rungs", []), reverse=True)
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

    def __init__(self, records, experiment):
        key = bytes.fromhex(experiment)
        own = [record for record in records if record.key[:8] == key]
        whole = [record for record in own if record.kind in (EXPERIMENT, EXPERIMENT_LARGE) and record.key == key]
        if not whole:
            raise Wrong(f"there is no record of experiment {experiment}")
        self.config = whole[0].value()[4]
        self.trials = self.config["max_trials"]
        if self.config["searcher"] == GRID:
            self.trials = math.prod(parameter[4] for parameter in self.config["hyperparameters"] if parameter[1] in RANGES)
        self.halves = self.config["searcher"] in (ASHA, ADAPTIVE)
        if self.halves:
            self.divisor = Fraction(self.config.get("divisor", 4))
            self.smaller = self.config["smaller_is_better"]
            self.brackets = make_brackets(self.config)
            self.bracket_of = seat_trials(self.brackets)
        self.claims = {record.writer: record.value()[0] for record in own if record.kind == CLAIM}
        self.attempts, self.results, self.stops, self.retries = {}, {}, {}, {}
        logs = {}
        for record in own:
            if record.kind in (ATTEMPT, ATTEMPT_LARGE):
                trial, number, term = struct.unpack_from(">IIQ", record.key, 8)
                self.attempts[trial, number, term, record.writer] = record.value()
            elif record.kind == RESULT:
                trial, number, term = struct.unpack_from(">IIQ", record.key, 8)
                self.results.setdefault((trial, number, term, record.key[24:40], record.key[40]), []).append((record.writer, *record.value()))
            elif record.kind == LOG:
                number, = struct.unpack_from(">I", record.key, 16)
                logs.setdefault((record.writer, record.key[8:16]), {})[number] = record.value()
            elif record.kind == SEARCH_STOP:
                self.stops[struct.unpack_from(">I", record.key, 8)[0], record.writer] = record.value()
            elif record.kind == STOP:
                self.retries[struct.unpack_from(">I", record.key, 8)[0], record.writer] = record.value()
        self.logs = {name: whole_prefix(numbered) for name, numbered in logs.items() if 0 in numbered}

    def same_as(self, other):
        """Both nodes have the same records of the search."""
        return (self.claims, self.logs.keys(), self.attempts.keys(), self.results.keys(), self.stops) == (
            other.claims, other.logs.keys(), other.attempts.keys(), other.results.keys(), other.stops) and all(
            len(log) == len(other.logs[name]) for name, log in self.logs.items())

    def target(self, bracket, rung):
        share = self.divisor ** (self.brackets[bracket].rungs - 1 - rung)
        return max(1, math.floor(self.config["max_time"] / share))

    # ---- the fold ----

    def rank(self, name):
        """Of two logs the one with the higher rank counts; None: the log's writer has not claimed its term."""
        writer, text = name
        term, boot = self.logs[name][0][:2]
        return (term, writer, boot, text) if self.claims.get(writer, 0) >= term else None

    def story(self, name):
        """What stands in a log, what it has adopted included: (entries, own, missing). `own` are the numbers of the entries that the log
        itself has decided; `missing` is true where it has adopted what is not here."""
        entries, own, taken, rungs = [], [], {name: 0}, Counter()

        def take(judged, is_own):
            trial, rung = judged[0], judged[4]
            if rung == rungs[trial]:
                rungs[trial] += 1
                entries.append(judged)
            elif is_own:
                raise Wrong(f"trial {trial} is judged at rung {rung}, and rung {rungs[trial]} is its next in that log")

        for record in self.logs[name]:
            for writer, text, until in record[2]:
                other = (writer, text)
                have = self.logs.get(other, [])
                for number in range(taken.get(other, 0), until):
                    if number >= len(have):
                        return entries, own, True
                    for judged in have[number][3]:
                        take(judged, False)
                taken[other] = max(taken.get(other, 0), until)
            for judged in record[3]:
                take(judged, True)
                own.append(len(entries) - 1)
        return entries, own, False

    def decide(self, entries, at):
        """What the rule says of entry `at`, and the place of its metric among those before it in its bracket at its rung."""
        trial, rung, metric = entries[at][0], entries[at][4], entries[at][8]
        bracket = self.bracket_of[trial]
        before = [e[8] for e in entries[:at] if e[4] == rung and self.bracket_of[e[0]] == bracket]
        better = sum(other < metric if self.smaller else other > metric for other in before)
        of = len(before) + 1
        if math.isnan(metric):
            return STOPS, better + 1, of
        if rung == self.brackets[bracket].rungs - 1:
            return TOPS_OUT, better + 1, of
        return (GOES_ON if better < max(1, math.floor(of / self.divisor)) else STOPS), better + 1, of

    # ---- the checks ----

    def check_logs(self):
        """Each log by itself: its entries are of results, in order, and each decision of its own follows from what stands before it."""
        checked = 0
        for name in self.logs:
            entries, own, _ = self.story(name)
            for at in own:
                self.check_entry(entries, at)
            checked += len(own)
        return checked

    def check_entry(self, entries, at):
        trial, number, term, coordinator, rung, decision, step, length, metric = entries[at]
        where = f"trial {trial} attempt {number} at rung {rung}"
        if trial >= self.trials or rung >= self.brackets[self.bracket_of[trial]].rungs:
            raise Wrong(f"{where} is judged, and there is no such trial or rung")
        if (trial, number, term, coordinator) not in self.attempts:
            raise Wrong(f"{where} is judged, and there is no such attempt")
        results = self.results.get((trial, number, term, coordinator, rung), [])
        if not any(same(result[1:], (step, length, metric)) for result in results):
            raise Wrong(f"{where} is judged by {step, length, metric}, and its results are {results}")
        if length < self.target(self.bracket_of[trial], rung):
            raise Wrong(f"{where} is judged at the length {length}, and the rung is at {self.target(self.bracket_of[trial], rung)}")
        wanted, _, of = self.decide(entries, at)
        if decision != wanted:
            raise Wrong(f"{where} ({metric}, one of {of}) {WORDS[decision]} by its log, and {WORDS[wanted]} by the rule")

    def state(self):
        """The entries of the highest log, which every node that has the same records shows."""
        ranked = [(self.rank(name), name) for name in self.logs if self.rank(name) is not None]
        return self.story(max(ranked)[1])[0] if ranked else []

    def check_stops(self):
        """Each stop names a decision that its log has, and begins nothing anew."""
        for (trial, _), (number, rung, is_top, writer, text, at) in self.stops.items():
            log = self.logs.get((writer, text), [])
            judged = log[at][3] if at < len(log) else []
            if not any(j[0] == trial and j[4] == rung and j[5] == (TOPS_OUT if is_top else STOPS) for j in judged):
                raise Wrong(f"trial {trial} is stopped at rung {rung}, and the log that the stop names does not say so")

    def check_end(self):
        """Of a search that is over: all trials have begun, no further ones, and each report at a rung that a trial was to go on to is
        judged, once."""
        begun = {attempt[0] for attempt in self.attempts}
        if begun != set(range(self.trials)):
            raise Wrong(f"there are {self.trials} trials, and attempts of {len(begun)}: {sorted(begun ^ set(range(self.trials)))}")
        if not self.halves:
            return
        entries = self.state()
        pairs = Counter((e[0], e[4]) for e in entries)
        twice = [pair for pair, count in pairs.items() if count > 1]
        if twice:
            raise Wrong(f"judged twice: {twice}")
        last = {e[0]: e for e in entries}
        for trial, number, _, _, rung in self.results:
            reached = last.get(trial)
            is_due = (rung == 0 and reached is None) or (reached is not None and reached[5] == GOES_ON and rung == reached[4] + 1)
            if is_due:
                raise Wrong(f"attempt {number} of trial {trial} has reported at rung {rung}, and nobody has judged that")

    def check(self, is_over):
        """Raises Wrong; else returns how many decisions were computed anew."""
        checked = self.check_logs() if self.halves else 0
        self.check_stops()
        if is_over:
            self.check_end()
        return checked

    def judged(self):
        """As `shoal rungs --json` tells it."""
        entries = self.state()
        told = []
        for at, (trial, number, _, _, rung, decision, step, length, metric) in enumerate(entries):
            _, place, of = self.decide(entries, at)
            told.append({"trial": trial, "attempt": number, "bracket": self.bracket_of[trial], "rung": rung, "step": step, "length": length,
                         "metric": metric, "decision": WORDS[decision], "place": place, "of": of})
        return told


def whole_prefix(numbered):
    """The records from 0 up to the first that is missing."""
    records = []
    while len(records) in numbered:
        records.append(numbered[len(records)])
    return records


def same(a, b):
    return all(x == y or (x != x and y != y) for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser(prog="tests/e2e/search_replay.py", description=__doc__.splitlines()[0])
    parser.add_argument("directory", metavar="DIR", help="the node's data directory")
    parser.add_argument("experiment", metavar="EXPERIMENT", help="its whole id")
    parser.add_argument("--build", default=str(Path(__file__).resolve().parents[2] / "build/release"), metavar="DIR")
    parser.add_argument("--over", action="store_true", help="the search is over: nothing may be left")
    parser.add_argument("--json", action="store_true", help="the decisions, one a line")
    arguments = parser.parse_args()
    try:
        search = Search(read_records(arguments.directory, arguments.build), arguments.experiment)
        checked = search.check(arguments.over)
    except Wrong as wrong:
        print(f"search_replay.py: {wrong}.", file=sys.stderr)
        return 1
    if arguments.json:
        for judged in search.judged():
            print(json.dumps(judged))
    else:
        print(f"{search.trials} trials, {len(search.logs)} logs, {checked} decisions computed anew, {len(search.stops)} stops: all follow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
