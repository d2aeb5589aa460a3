"""What search_replay.py computes: known answers, and what is wrong in a log is found."""

import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from search_replay import (ADAPTIVE, ASHA, ATTEMPT, CLAIM, EXPERIMENT, GOES_ON, LOG, RESULT, SEARCH_STOP, STOPS, TOPS_OUT, Search, Wrong,
                           make_brackets, seat_trials, unpack)

ID = bytes(range(8))
NODES = [bytes([n]) * 16 for n in (1, 2, 3)]
NAN = float("nan")


class Told:
    """A record, made without its bytes."""

    def __init__(self, kind, writer, key, value):
        self.kind, self.writer, self.key, self.told = kind, writer, key, value

    def value(self):
        return self.told


def config(**more):
    return {"searcher": ASHA, "max_trials": 4, "num_rungs": 2, "divisor": 3.0, "max_time": 9, "smaller_is_better": True, **more}


def metric_of(trial, rung):
    return 0.5 - 0.1 * trial + 0.01 * rung


def result(trial, rung, metric=None):
    key = ID + struct.pack(">IIQ", trial, 1, 1) + NODES[0] + bytes([rung])
    length = 3 if rung == 0 else 9
    return Told(RESULT, NODES[2], key, [length, length, metric_of(trial, rung) if metric is None else metric])


def judged(trial, rung, decision, metric=None):
    length = 3 if rung == 0 else 9
    return [trial, 1, 1, NODES[0], rung, decision, length, length, metric_of(trial, rung) if metric is None else metric]


def log(writer, name, number, term, adopted, entries):
    return Told(LOG, writer, ID + name + struct.pack(">I", number), [term, 7, adopted, entries])


def base(trials=4, **more):
    return [Told(EXPERIMENT, NODES[0], ID, [0, b"", 0, b"", config(max_trials=trials, **more)]),
            Told(CLAIM, NODES[0], ID, [1, False]), Told(CLAIM, NODES[1], ID, [2, False]),
            *(Told(ATTEMPT, NODES[0], ID + struct.pack(">IIQ", trial, 1, 1), []) for trial in range(trials)),
            *(result(trial, rung) for trial in range(trials) for rung in range(2))]


# Each is better than those before it, so all go on: the first log judges two at the first rung, the second log the rest.
FIRST, SECOND = b"log one.", b"log two."
TWO_LOGS = [log(NODES[0], FIRST, 0, 1, [], [judged(0, 0, GOES_ON), judged(1, 0, GOES_ON)]),
            log(NODES[1], SECOND, 0, 2, [[NODES[0], FIRST, 1]], []),
            log(NODES[1], SECOND, 1, 2, [], [judged(2, 0, GOES_ON), judged(3, 0, GOES_ON)]),
            log(NODES[1], SECOND, 2, 2, [], [judged(trial, 1, TOPS_OUT) for trial in range(4)])]


def search(records):
    return Search(records, ID.hex())


class Brackets(unittest.TestCase):
    def check(self, rungs, trials, **more):
        brackets = make_brackets(config(searcher=ADAPTIVE, max_trials=sum(trials), **{"divisor": 4.0, "max_time": 1000, "max_rungs": 5, **more}))
        self.assertEqual([b.rungs for b in brackets], rungs)
        self.assertEqual([b.trials for b in brackets], trials)

    def test_known_brackets(self):
        self.check([3, 2], [12, 4], max_time=900)
        self.check([4, 3, 2], [45, 14, 5])
        self.check([4], [64], mode=1)
        self.check([4, 3, 2, 1], [43, 14, 5, 2], mode=2)
        self.check([5, 4, 3, 2, 1], [680, 211, 70, 26, 13], mode=2)
        self.check([3, 2], [6, 3], divisor=3.0, max_time=90)
        self.check([3, 2, 1], [12, 5, 3], divisor=3.0, bracket_rungs=[1, 3, 2])

    def test_powers_are_exact(self):
        brackets = make_brackets(config(searcher=ADAPTIVE, divisor=3.0, max_trials=243, max_time=243, max_rungs=9, mode=1))
        self.assertEqual(brackets[0].rungs, 6)

    def test_brackets_take_turns(self):
        brackets = make_brackets(config(searcher=ADAPTIVE, divisor=3.0, max_trials=9, max_time=90, max_rungs=5))
        self.assertEqual(seat_trials(brackets), [0, 1, 0, 0, 1, 0, 0, 1, 0])


class Logs(unittest.TestCase):
    def test_two_logs_make_one_story(self):
        whole = search(base() + TWO_LOGS)
        self.assertEqual(whole.check(is_over=True), 8)
        self.assertEqual([item["trial"] for item in whole.judged()], [0, 1, 2, 3, 0, 1, 2, 3])
        self.assertEqual([item["place"] for item in whole.judged()], [1] * 8)

    def refused(self, records, text, is_over=False):
        with self.assertRaisesRegex(Wrong, text):
            search(records).check(is_over)

    def test_a_wrong_decision_is_found(self):
        logs = TWO_LOGS[:2] + [log(NODES[1], SECOND, 1, 2, [], [judged(2, 0, STOPS)])]
        self.refused(base() + logs, "trial 2 attempt 1 at rung 0 .* stops by its log, and goes on by the rule")

    def test_the_adopted_ones_count(self):
        """Without them trial 2 would be compared with nobody."""
        worse = [result(2, 0, 0.9), *(r for r in base() if r.kind != RESULT or r.key != result(2, 0).key)]
        logs = TWO_LOGS[:2] + [log(NODES[1], SECOND, 1, 2, [], [judged(2, 0, GOES_ON, 0.9)])]
        self.refused(worse + logs, "goes on by its log, and stops by the rule")

    def test_a_result_that_counts_twice_is_found(self):
        logs = TWO_LOGS[:2] + [log(NODES[1], SECOND, 1, 2, [], [judged(1, 0, GOES_ON)])]
        self.refused(base() + logs, "trial 1 is judged at rung 0, and rung 1 is its next")

    def test_a_made_up_result_is_found(self):
        logs = [log(NODES[0], FIRST, 0, 1, [], [judged(0, 0, GOES_ON, 0.3)])]
        self.refused(base() + logs, "is judged by .* and its results are")

    def test_not_a_number_stops(self):
        nan = [result(0, 0, NAN), *(r for r in base() if r.kind != RESULT or r.key != result(0, 0).key)]
        self.assertEqual(search(nan + [log(NODES[0], FIRST, 0, 1, [], [judged(0, 0, STOPS, NAN)])]).check(False), 1)
        self.refused(nan + [log(NODES[0], FIRST, 0, 1, [], [judged(0, 0, GOES_ON, NAN)])], "goes on by its log, and stops by the rule")

    def test_a_log_ends_before_the_first_that_is_missing(self):
        self.assertEqual(len(search(base() + TWO_LOGS[:2] + TWO_LOGS[3:]).judged()), 2)

    def test_a_log_without_a_claim_is_no_state(self):
        unclaimed = [record for record in base() + TWO_LOGS if record.kind != CLAIM or record.writer != NODES[1]]
        self.assertEqual(len(search(unclaimed).judged()), 2)

    def test_what_was_not_judged_is_found(self):
        self.refused(base() + TWO_LOGS[:3], "has reported at rung 1, and nobody has judged that", is_over=True)

    def test_a_trial_too_few_and_one_too_many(self):
        short = [record for record in base() + TWO_LOGS if record.kind != ATTEMPT or record.key[8:12] != bytes([0, 0, 0, 3])]
        self.refused(short, "trial 3 attempt 1 at rung 0 is judged, and there is no such attempt")
        more = base() + TWO_LOGS + [Told(ATTEMPT, NODES[0], ID + struct.pack(">IIQ", 4, 1, 1), [])]
        self.refused(more, "there are 4 trials, and attempts of 5: .4.", is_over=True)

    def test_a_stop_names_its_decision(self):
        top = Told(SEARCH_STOP, NODES[1], ID + struct.pack(">I", 2), [1, 1, True, NODES[1], SECOND, 2])
        self.assertEqual(search(base() + TWO_LOGS + [top]).check(True), 8)
        made_up = Told(SEARCH_STOP, NODES[1], ID + struct.pack(">I", 2), [1, 0, False, NODES[1], SECOND, 1])
        self.refused(base() + TWO_LOGS + [made_up], "trial 2 is stopped at rung 0, and the log that the stop names does not say so")


class Bytes(unittest.TestCase):
    def test_messagepack(self):
        for data, value in (("07", 7), ("ff", -1), ("d1fed4", -300), ("cb3ff8000000000000", 1.5), ("a2686f", "ho"), ("c4020102", b"\1\2"),
                            ("93c0c2c3", [None, False, True]), ("81a16107", {"a": 7}), ("dc000101", [1]), ("d90168", "h"), ("cd0100", 256)):
            self.assertEqual(unpack(bytes.fromhex(data)), (value, len(data) // 2))


if __name__ == "__main__":
    unittest.main()
