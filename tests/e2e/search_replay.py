"""Computes anew what a search has decided and drawn, from the records on a node's disk. Shares no code with Shoal: it reads the
envelopes and MessagePack bodies by docs/wire.md, folds the logs by docs/design.md 14, and applies the rules of asynchronous successive
halving, with stops or with promotions, and of the tree-structured Parzen estimator (search_draws.py) to the metrics in their order.

usage: search_replay.py DIR EXPERIMENT [--build DIR]   checks one node's records; prints what it found, exit status 1 if anything is wrong"""

import argparse
import bisect
import json
import math
import struct
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

from search_draws import COMPLETED, RUNNING, STOPPED, TPE, Observation, Space, draw

EXPERIMENT, CLAIM, ATTEMPT, WORKER, VERDICT, MANIFEST, EXPERIMENT_LARGE, ATTEMPT_LARGE, STOP, NOTE = 5, 7, 8, 9, 10, 11, 25, 26, 28, 29
RESULT, LOG, SEARCH_STOP, SEARCH_PAUSE = 30, 31, 32, 35
GOES_ON, STOPS, TOPS_OUT, PAUSES, PROMOTES, CLOSES, ENDS = range(7)
WORDS = ("goes on", "stops", "top", "pauses", "promotes", "closes", "ends")
GRID, ASHA, ADAPTIVE, DRAWS = 1, 3, 4, 5  # searchers; DRAWS: tpe
RANGES = (2, 3, 4)  # kinds of hyperparameters with a count
MODES = ("standard", "aggressive", "conservative")
FURTHER_TRIALS = 5  # the subject of a note
OVER = 0  # the reason of a verdict: completed


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


class Entry:
    """A decision of a log, and what its result was worth then."""

    def __init__(self, told):
        self.trial, self.number, self.term, self.coordinator, self.rung, self.decision, self.step, self.length, self.metric = told
        self.place, self.of = 0, 0

    def attempt(self):
        return self.trial, self.number, self.term, self.coordinator

    def __str__(self):
        return f"trial {self.trial} attempt {self.number} at rung {self.rung}"


class Created:
    """The values with which an attempt is about to begin."""

    def __init__(self, told):
        key, self.is_drawn, values = told
        self.attempt = (*struct.unpack_from(">IIQ", key, 8), bytes(key[24:40]))
        self.trial, self.point = self.attempt[0], values[1:]


class State:
    """What a log says up to an entry, by the rule of trials that are stopped."""

    def __init__(self, search):
        self.search = search
        self.entries, self.rungs = [], Counter()
        self.created, self.values = [], {}  # in their order; trial -> its own

    def next_rung(self, trial):
        return self.rungs[trial]

    def follows(self, entry):
        return entry.rung == self.rungs[entry.trial]

    def reports(self, entry):
        """The metrics of the entry's bracket at its rung so far."""
        bracket = self.search.bracket_of(entry.trial)
        return [e.metric for e in self.entries if e.rung == entry.rung and self.search.bracket_of(e.trial) == bracket]

    def decide(self, entry):
        """What the rule says of the result; notes its place among those before it in its bracket at its rung."""
        before = self.reports(entry)
        better = sum(self.search.is_better(other, entry.metric) for other in before)
        entry.place, entry.of = better + 1, len(before) + 1
        if not self.search.halves:
            return TOPS_OUT
        if math.isnan(entry.metric):
            return STOPS
        if entry.rung == self.search.rungs_of(entry.trial) - 1:
            return TOPS_OUT
        return GOES_ON if better < max(1, math.floor(entry.of / self.search.divisor)) else STOPS

    def take(self, entry):
        self.entries.append(entry)
        self.rungs[entry.trial] += 1

    def create(self, created):
        own = self.values.setdefault(created.trial, [])
        if all(other.attempt != created.attempt for other in own):
            self.created.append(created)
            own.append(created)

    def left(self):
        """What is to be decided without a further result, as text; None: nothing."""

    def awaits(self, trial, rung):
        """A result of the trial at that rung is to be judged."""
        last = next((e for e in reversed(self.entries) if e.trial == trial), None)
        return rung == self.rungs[trial] and (last is None or last.decision == GOES_ON)

    # ---- draws ----

    def point_of(self, trial, attempt=None):
        """The values of the attempt, or the newest of the trial."""
        return next((c.point for c in reversed(self.values.get(trial, [])) if attempt in (None, c.attempt)), None)

    def observe(self, index):
        """The observations before the draw of trial `index`, and how many of them are too few to learn from."""
        search = self.search
        startup = search.config.get("n_startup_trials", 10)
        seen = [e for e in self.entries if e.decision in (GOES_ON, STOPS, TOPS_OUT, PAUSES)]
        if search.halves:
            startup = max(startup, search.space.searched + 1)
            lengths = Counter(e.length_due for e in seen)
            length = max((length for length, count in lengths.items() if count >= startup), default=None)
            startup = math.inf if length is None else startup
        observations, results, last_of = [], {}, {entry.trial: entry for entry in self.entries}
        for entry in seen:
            results.setdefault(entry.trial, []).append(entry)
        for trial in self.values.keys() - {index}:
            own = results.get(trial, [])
            at = [e for e in own if not search.halves or e.length_due == length]
            last = (at or own or [None])[-1]
            is_on_the_way = trial not in last_of or last_of[trial].decision in (GOES_ON, PROMOTES, ENDS)
            state = COMPLETED if at else RUNNING if is_on_the_way else STOPPED
            point = self.point_of(trial, last.attempt() if state != RUNNING else None)
            if point is not None:
                observations.append(Observation(trial, state, point, last.metric if last else None, last.length_due if last else 0))
        return observations, startup

    def check_created(self, created):
        search, where = self.search, f"trial {created.trial} attempt {created.attempt[1]}"
        if search.space is None or created.trial >= search.trials:
            raise Wrong(f"{where} is drawn, and that is no trial of a search that draws")
        if search.attempts.get(created.attempt) is not None and not same(search.point(created.attempt), created.point):
            raise Wrong(f"{where} has the values {search.point(created.attempt)}, and its log says {created.point}")
        before = self.point_of(created.trial)
        if not created.is_drawn:
            known = [search.point(attempt) for attempt in search.attempts if attempt[0] == created.trial] + [before]
            if not any(point is not None and same(point, created.point) for point in known):
                raise Wrong(f"{where} takes over {created.point}, which were never drawn")
            return
        if before is not None:
            raise Wrong(f"{where} is drawn again in one log")
        observations, startup = self.observe(created.trial)
        wanted = draw(search.space, observations, search.smaller, startup, search.config["seed"], created.trial)
        if not search.space.same(wanted, created.point):
            raise Wrong(f"{where} has drawn {created.point}, and {len(observations)} trials before it say {wanted}")
        search.drawn += 1


class Climber:
    """A trial of a search that promotes."""

    def __init__(self):
        self.metrics, self.place = [], "climbs"  # or "paused", "done", "ended"; a trial that has ended reports again if a user retries it


class Ladder(State):
    """What a log says up to an entry, by the rule of trials that are paused and promoted."""

    def __init__(self, search):
        super().__init__(search)
        self.climbers = {trial: Climber() for trial in range(search.trials)}
        self.rankings = {}  # (bracket, rung) -> (key, trial) of the trials that have an entry there, the best first
        self.ages = Counter()

    def next_rung(self, trial):
        return len(self.climbers[trial].metrics)

    def follows(self, entry):
        climber, reached = self.climbers[entry.trial], self.next_rung(entry.trial)
        if entry.decision == ENDS:
            return (climber.place, entry.rung) in (("climbs", reached), ("paused", reached - 1))
        if entry.decision in (PROMOTES, CLOSES):
            return climber.place == "paused" and entry.rung == reached - 1
        return climber.place in ("climbs", "ended") and entry.rung == reached

    def ranking(self, trial, rung):
        return self.rankings.setdefault((self.search.bracket_of(trial), rung), [])

    def key(self, metric, age):
        """Sorts entries of a rung: the best first, of equal ones the older one, and behind them those without a number."""
        return (1, 0, age) if math.isnan(metric) else (0, metric if self.search.smaller else -metric, age)

    def enter(self, trial, rung, metric):
        """The trial's entry at the rung; it takes the place of the one that says that the trial has ended."""
        self.ages[rung] += 1
        ranking = self.ranking(trial, rung)
        ranking[:] = [item for item in ranking if item[1] != trial]
        bisect.insort(ranking, (self.key(metric, self.ages[rung]), trial))

    def due(self):
        """The paused trials that are to be promoted, of the highest rung that has any."""
        found = {}
        for (_, rung), ranking in self.rankings.items():
            best = [trial for _, trial in ranking[:math.floor(len(ranking) / self.search.divisor)]]
            due = [t for t in best if self.climbers[t].place == "paused" and len(self.climbers[t].metrics) == rung + 1]
            found.setdefault(rung, []).extend(due)
        return next((sorted(found[rung]) for rung in sorted(found, reverse=True) if found[rung]), [])

    def closable(self):
        """The paused trials at whose rung no trial of their bracket can report any more."""
        lowest = {}
        for trial, climber in self.climbers.items():
            if climber.place in ("climbs", "paused"):
                bracket = self.search.bracket_of(trial)
                lowest[bracket] = min(lowest.get(bracket, math.inf), len(climber.metrics))
        return [trial for trial, climber in self.climbers.items()
                if climber.place == "paused" and len(climber.metrics) == lowest[self.search.bracket_of(trial)]]

    def left(self):
        due = self.due()
        if due:
            return f"trials {due} are to be promoted"
        closable = self.closable()
        return f"trials {closable} are to be closed" if closable else None

    def decide(self, entry):
        rung = entry.rung
        if entry.decision == PROMOTES:
            due = self.due()
            if entry.trial not in due:
                raise Wrong(f"{entry} is promoted, and trials {due} are to be")
            return PROMOTES
        if self.due():
            raise Wrong(f"{entry} {WORDS[entry.decision]}, and trials {self.due()} are to be promoted first")
        if entry.decision == CLOSES:
            if entry.trial not in self.closable():
                raise Wrong(f"{entry} is closed, and trials {self.closable()} are to be")
            return CLOSES
        if self.closable():
            raise Wrong(f"{entry} {WORDS[entry.decision]}, and trials {self.closable()} are to be closed first")
        if entry.decision == ENDS:
            if not math.isnan(entry.metric) or not self.search.has_ended(entry.trial):
                raise Wrong(f"{entry} ends by its log, and it has no verdict and was not stopped")
            return ENDS
        if math.isnan(entry.metric):
            return STOPS
        if rung == self.search.rungs_of(entry.trial) - 1:
            return TOPS_OUT
        others = [item for item in self.ranking(entry.trial, rung) if item[1] != entry.trial]
        better = sum(key < self.key(entry.metric, math.inf) for key, _ in others)
        return GOES_ON if better < math.floor((len(others) + 1) / self.search.divisor) else PAUSES

    def note_place(self, entry):
        trials = [trial for _, trial in self.ranking(entry.trial, entry.rung)]
        entry.of = len(trials)
        entry.place = 1 if math.isnan(entry.metric) else trials.index(entry.trial) + 1

    def take(self, entry):
        self.entries.append(entry)
        climber = self.climbers[entry.trial]
        if entry.decision == PROMOTES:
            climber.place = "climbs"
        elif entry.decision == CLOSES:
            climber.place = "done"
        elif entry.decision == ENDS:
            if climber.place == "climbs":
                self.enter(entry.trial, entry.rung, math.nan)
            climber.place = "ended"
        else:
            self.enter(entry.trial, entry.rung, entry.metric)
            climber.metrics.append(entry.metric)
            climber.place = {GOES_ON: "climbs", PAUSES: "paused"}.get(entry.decision, "done")
        self.note_place(entry)

    def awaits(self, trial, rung):
        return self.climbers[trial].place == "climbs" and rung == self.next_rung(trial)


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
        else:
            self.trials = max([self.trials] + [int(record.key[9:]) for record in own if record.kind == NOTE and record.key[8] == FURTHER_TRIALS])
        self.halves = self.config["searcher"] in (ASHA, ADAPTIVE)
        self.promotes = self.halves and 0 in self.config.get("bracket_rungs", [])
        self.smaller = self.config["smaller_is_better"]
        if self.halves:
            self.divisor = Fraction(self.config.get("divisor", 4))
            self.brackets = make_brackets(self.config)
            self.seats = seat_trials(self.brackets)
        space = Space(self.config.get("hyperparameters", []))
        self.space = space if self.config["searcher"] == DRAWS or (self.halves and space.sampler == TPE) else None
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
            elif record.kind in (WORKER, MANIFEST) and self.config["searcher"] == DRAWS:
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

    def bracket_of(self, trial):
        return self.seats[trial % self.config["max_trials"]] if self.halves else 0

    def rungs_of(self, trial):
        return self.brackets[self.bracket_of(trial)].rungs if self.halves else 1

    def target(self, trial, rung):
        """The length of a rung."""
        if not self.halves:
            return self.config.get("max_time", 0)
        return max(1, math.floor(self.config["max_time"] / self.divisor ** (self.rungs_of(trial) - 1 - rung)))

    def is_better(self, metric, than):
        return metric < than if self.smaller else metric > than

    def point(self, attempt):
        """The values that the attempt's record has, or None."""
        more = self.attempts.get(attempt)
        return more[0][1:] if more else None

    def metric_in(self, packed):
        """The searcher's metric in packed metrics, or None."""
        return unpack(packed)[0].get("validation", {}).get(self.config["metric"]) if packed else None

    def has_ended(self, trial):
        """An attempt of the trial has ended, or a user has stopped it."""
        return any(attempt[0] == trial for attempt in self.verdicts) or any(of == trial for of, _ in self.retries)

    # ---- the fold ----

    def rank(self, name):
        """Of two logs the one with the higher rank counts; None: the log's writer has not claimed its term."""
        writer, text = name
        term, boot = self.logs[name][0][:2]
        return (term, writer, boot, text) if self.claims.get(writer, 0) >= term else None

    def read_log(self, name, check=False):
        """What stands in a log, what it has adopted included, and how many decisions of its own were computed anew: (state, count). It
        ends where it adopts what is not here."""
        state, taken, checked = (Ladder if self.promotes else State)(self), {name: 0}, 0
        for record in self.logs[name]:
            for writer, text, until in record[2]:
                other = (writer, text)
                have = self.logs.get(other, [])
                for number in range(taken.get(other, 0), until):
                    if number >= len(have):
                        return state, checked
                    for created in have[number][4:5]:
                        state.create(Created(created))
                    for entry in map(Entry, have[number][3]):
                        if self.is_possible(entry) and state.follows(entry):
                            self.take(state, entry)
                taken[other] = max(taken.get(other, 0), until)
            for created in map(Created, record[4:5]):
                if check:
                    state.check_created(created)
                state.create(created)
            for entry in map(Entry, record[3]):
                if check:
                    self.check_entry(state, entry)
                self.take(state, entry)
                checked += 1
        return state, checked

    def is_possible(self, entry):
        return entry.trial < self.trials and entry.rung < self.rungs_of(entry.trial)

    def take(self, state, entry):
        entry.length_due = self.target(entry.trial, entry.rung)
        if not self.promotes:
            state.decide(entry)  # for its place
        state.take(entry)

    # ---- the checks ----

    def check_logs(self):
        """Each log by itself: its entries are of results, in order, and each decision of its own follows from what stands before it."""
        return sum(self.read_log(name, check=True)[1] for name in self.logs)

    def check_result(self, entry):
        """The entry has the result of its attempt."""
        told = (entry.step, entry.length, entry.metric)
        results = [result[1:] for result in self.results.get((*entry.attempt(), entry.rung), [])]
        if not self.halves:  # what a completed trial has reported last, perhaps before its last attempt, which had nothing left to do
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
            if point is None or not same(point, self.point(entry.attempt())):
                raise Wrong(f"{entry} is judged with the values {point}, and its attempt has {self.point(entry.attempt())}")
        wanted = state.decide(entry)
        if entry.decision != wanted:
            raise Wrong(f"{entry} ({entry.metric}) {WORDS[entry.decision]} by its log, and {WORDS[wanted]} by the rule")

    def state(self):
        """The state of the highest log, which every node that has the same records shows."""
        ranked = [(self.rank(name), name) for name in self.logs if self.rank(name) is not None]
        return self.read_log(max(ranked)[1])[0] if ranked else (Ladder if self.promotes else State)(self)

    def named(self, trial, rung, name, at, decisions):
        """Whether record `at` of a log decides that of the trial."""
        log = self.logs.get(name, [])
        return any(e.trial == trial and e.rung == rung and e.decision in decisions for e in map(Entry, log[at][3] if at < len(log) else []))

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
        begun = {attempt[0] for attempt in self.attempts}
        if begun != set(range(self.trials)):
            raise Wrong(f"there are {self.trials} trials, and attempts of {len(begun)}: {sorted(begun ^ set(range(self.trials)))}")
        if self.space is not None:
            lacking = [attempt[:2] for attempt in self.attempts if self.point(attempt) is None]
            if lacking:
                raise Wrong(f"the attempts {lacking} have no values")
        if not self.halves and self.space is None:
            return
        state = self.state()
        twice = [pair for pair, count in Counter((e.trial, e.rung) for e in state.entries if e.decision <= PAUSES).items() if count > 1]
        if twice:
            raise Wrong(f"judged twice: {twice}")
        for trial, number, _, _, rung in self.results:
            if state.awaits(trial, rung):
                raise Wrong(f"attempt {number} of trial {trial} has reported at rung {rung}, and nobody has judged that")
        if state.left() is not None:
            raise Wrong(f"the search is over, and {state.left()}")

    def check(self, is_over):
        """Raises Wrong; else returns how many decisions were computed anew."""
        checked = self.check_logs() if self.halves or self.space is not None else 0
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
        print(f"{search.trials} trials, {len(search.logs)} logs, {checked} decisions and {search.drawn} draws computed anew, "
              f"{len(search.stops)} stops: all follow")
    return 0


if __name__ == "__main__":
    sys.exit(main())
