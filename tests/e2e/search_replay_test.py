"""What search_replay.py computes: known answers, and what is wrong in a log is found."""

import math
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from search_draws import COMPLETED, RUNNING, STOPPED, Dimension, Observation, Parameter, Parzen, Space, draw, rank
from search_programs import Create, Finish, Searcher, Stop
from search_replay import (ADAPTIVE, ASHA, ATTEMPT, CLAIM, CUSTOM, DRAWS, EXPERIMENT, LOG, NOTE, POPULATION, RESULT,
                           SEARCH_PAUSE, SEARCH_STOP, VERDICT, Search, make_brackets, seat_trials, unpack)
from search_states import CLOSES, ENDS, GOES_ON, PAUSES, PROMOTES, STOPS, TOPS_OUT, Created, Entry, Ladder, Wrong

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
        self.refused(base() + logs, "trial 1 attempt 1 at rung 0 goes on, and rung 1 is its next")

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


class FurtherTrials(unittest.TestCase):
    def test_the_greatest_number_counts(self):
        notes = [Told(NOTE, NODES[0], ID + bytes([5]) + text, [1, True, ""]) for text in (b"6", b"10", b"3")]
        extended = search(base(trials=4) + notes)
        self.assertEqual(extended.trials, 10)
        self.assertEqual(extended.bracket_of(9), extended.bracket_of(1))
        with self.assertRaisesRegex(Wrong, "there are 10 trials, and attempts of 4"):
            search(base(trials=4) + TWO_LOGS + notes).check(is_over=True)

    def test_what_the_key_says_is_no_other_note(self):
        self.assertEqual(search(base() + [Told(NOTE, NODES[0], ID + bytes([0]) + b"9", [1, True, "x"])]).trials, 4)


# Six trials at two rungs, a third is promoted; smaller is better.
METRICS = [0.5, 0.3, 0.4, 0.2, 0.45, 0.1]


def climb(trial, rung, decision, metric=None, number=1):
    return [trial, number, 1, NODES[0], rung, decision, 3 if rung == 0 else 9, 3 if rung == 0 else 9, METRICS[trial] if metric is None else metric]


def ladder(steps, results=(), more=()):
    """The search whose one log has these steps, one a record."""
    records = [record for record in base(trials=6, bracket_rungs=[0]) if record.kind != RESULT]
    records += [result(trial, rung, metric) for trial, metric in enumerate(METRICS) for rung in range(2)]
    kept = {record.key: record for record in [*records, *more, *results] if record.kind in (RESULT, ATTEMPT, VERDICT)}
    records = [record for record in [*records, *more] if record.key not in kept] + list(kept.values())
    return search(records + [log(NODES[0], FIRST, at, 1, [], [step]) for at, step in enumerate(steps)])


FIRST_TWO = [climb(0, 0, PAUSES), climb(1, 0, PAUSES)]
# The third of a rung lets one go on: the best of the three, which is paused.
FIRST_THREE = [*FIRST_TWO, climb(2, 0, PAUSES), climb(1, 0, PROMOTES)]
ALL = [*FIRST_THREE, climb(3, 0, GOES_ON), climb(4, 0, PAUSES), climb(5, 0, GOES_ON), climb(1, 1, TOPS_OUT), climb(3, 1, TOPS_OUT),
       climb(5, 1, TOPS_OUT)]
CLOSED = [climb(0, 0, CLOSES), climb(2, 0, CLOSES), climb(4, 0, CLOSES)]


class Promotion(unittest.TestCase):
    def refused(self, text, *ladder_arguments, is_over=False, **more):
        with self.assertRaisesRegex(Wrong, text):
            ladder(*ladder_arguments, **more).check(is_over)

    def test_a_whole_search(self):
        steps = [*ALL[:7], *CLOSED, *ALL[7:]]
        told = ladder(steps)
        self.assertEqual(told.check(True), 13)
        self.assertEqual([e.decision for e in told.state().entries][2:5], [PAUSES, PROMOTES, GOES_ON])

    def test_a_promotion_that_is_due_comes_first(self):
        self.refused("goes on, and trials .1. are to be promoted first", [*FIRST_TWO, climb(2, 0, PAUSES), climb(3, 0, GOES_ON)])

    def test_the_wrong_one_is_promoted(self):
        self.refused("trial 2 attempt 1 at rung 0 is promoted, and trials .1. are to be", [*FIRST_TWO, climb(2, 0, PAUSES), climb(2, 0, PROMOTES)])

    def test_none_is_promoted_twice(self):
        self.refused("trial 1 attempt 1 at rung 0 promotes, and rung 1 is its next", [*FIRST_THREE, climb(1, 0, PROMOTES)])

    def test_a_rung_of_few_lets_nobody_go_on(self):
        self.refused("trial 0 .* goes on by its log, and pauses by the rule", [climb(0, 0, GOES_ON)])

    def test_one_of_the_best_is_not_paused(self):
        self.refused("trial 5 .* pauses by its log, and goes on by the rule", [*ALL[:6], climb(5, 0, PAUSES)])

    def test_of_equal_ones_the_older_goes_on(self):
        equal = [result(2, 0, 0.3)]
        told = [*FIRST_TWO, climb(2, 0, PAUSES, 0.3), climb(1, 0, PROMOTES)]
        self.assertEqual(ladder(told, equal).check(False), 4)
        self.refused("trial 2 .* is promoted, and trials .1. are to be", [*told[:3], climb(2, 0, PROMOTES, 0.3)], equal)

    def test_a_trial_is_closed_only_once_no_other_can_report_there(self):
        self.refused("trial 0 attempt 1 at rung 0 is closed, and trials .. are to be", [*FIRST_THREE, climb(0, 0, CLOSES)])
        self.refused("trials .0, 2, 4. are to be closed first", ALL[:8])

    def test_a_trial_ends_only_if_it_is_over(self):
        end = [3, 1, 1, NODES[0], 0, ENDS, 0, 0, NAN]
        verdict = Told(VERDICT, NODES[0], ID + struct.pack(">IIQ", 3, 1, 1) + NODES[0], [1, 0, b"\x80", 0])
        self.assertEqual(ladder([*FIRST_THREE, end], more=[verdict]).check(False), 5)
        self.refused("trial 3 .* ends by its log, and it has no verdict", [*FIRST_THREE, end])

    def test_a_trial_that_has_ended_is_the_worst_of_its_rung(self):
        end = [2, 1, 1, NODES[0], 0, ENDS, 0, 0, NAN]
        verdict = Told(VERDICT, NODES[0], ID + struct.pack(">IIQ", 2, 1, 1) + NODES[0], [1, 0, b"\x80", 0])
        self.assertEqual(ladder([*FIRST_TWO, end, climb(1, 0, PROMOTES)], more=[verdict]).check(False), 4)
        self.refused("trial 0 .* is promoted, and trials .1. are to be", [*FIRST_TWO, end, climb(0, 0, PROMOTES)], more=[verdict])

    def test_a_result_after_a_retry_takes_the_place_of_the_end(self):
        end = [2, 1, 1, NODES[0], 0, ENDS, 0, 0, NAN]
        verdict = Told(VERDICT, NODES[0], ID + struct.pack(">IIQ", 2, 1, 1) + NODES[0], [1, 0, b"\x80", 0])
        told = ladder([*FIRST_TWO, end, climb(1, 0, PROMOTES), climb(2, 0, PAUSES)], more=[verdict])
        self.assertEqual((told.check(False), told.state().entries[-1].of), (5, 3))

    def test_what_is_due_at_the_end_is_found(self):
        steps = [*ALL[:7], *CLOSED, *ALL[7:]]
        self.refused("attempt 1 of trial 5 has reported at rung 1, and nobody has judged that", steps[:-1], is_over=True)
        self.assertEqual(ladder(steps[:9]).state().left(), "trials [4] are to be closed")
        self.assertIsNone(ladder(steps).state().left())

    def test_a_pause_names_its_decision(self):
        pause = Told(SEARCH_PAUSE, NODES[0], ID + struct.pack(">I", 0), [1, 1, NODES[0], 0, NODES[0], FIRST, 0])
        self.assertEqual(ladder(FIRST_TWO, more=[pause]).check(False), 2)
        made_up = Told(SEARCH_PAUSE, NODES[0], ID + struct.pack(">I", 1), [1, 1, NODES[0], 0, NODES[0], FIRST, 0])
        self.refused("trial 1 is paused at rung 0, and the log that the pause names does not say so", FIRST_TWO, more=[made_up])

    def test_what_an_adopted_log_says_twice_is_passed_over(self):
        """Both logs promote trial 1: the second one counts once, and its decisions stand behind those adopted."""
        first = [log(NODES[0], FIRST, at, 1, [], [step]) for at, step in enumerate(FIRST_THREE)]
        second = [log(NODES[1], SECOND, 0, 2, [[NODES[0], FIRST, 3]], []), log(NODES[1], SECOND, 1, 2, [], [climb(1, 0, PROMOTES)])]
        third = [log(NODES[0], b"log 3...", 0, 1, [[NODES[1], SECOND, 2], [NODES[0], FIRST, 4]], [climb(3, 0, GOES_ON)])]
        told = search([r for r in base(trials=6, bracket_rungs=[0]) if r.kind != RESULT] + [result(t, 0, m) for t, m in enumerate(METRICS)]
                      + first + second + third)
        self.assertEqual(told.check(False), 6)


SPACE = [["x", 3, 0.0, 1.0, 0], ["c", 1, ["a", "b", "c"]], ["n", 2, 1, 64, 0, {"log": True}], ["m", 3, 0.0, 1.0, 0, {"when": [[1, [0, 2]]]}]]


def drawn_search(points, changed=None, **more):
    """A search of tpe whose one log draws each trial, then judges it: the metric is x + m."""
    space = Space(SPACE)
    records = [Told(EXPERIMENT, NODES[0], ID, [0, b"", 0, b"", config(searcher=DRAWS, max_trials=points, seed=7, n_startup_trials=4,
                                                                      hyperparameters=SPACE, **more)]), Told(CLAIM, NODES[0], ID, [1, False])]
    seen, entries = [], []
    for trial in range(points):
        point = draw(space, seen, True, 4, 7, trial)
        point = [recorded(p, value) for p, value in zip(space.parameters, point)]
        if changed is not None and changed[0] == trial:
            point[changed[1]] += changed[2]
        metric = point[0] + (0 if math.isnan(point[3]) else point[3])
        seen.append(Observation(trial, COMPLETED, point, metric))
        key = ID + struct.pack(">IIQ", trial, 1, 1)
        records += [Told(ATTEMPT, NODES[0], key, [[], 0, b"", 0, "", [], 0, [0, *point]]),
                    Told(RESULT, NODES[0], key + NODES[0] + bytes(1), [9, 9, metric])]
        entries += [(None, [key + NODES[0], True, [0, *point]]), ([trial, 1, 1, NODES[0], 0, TOPS_OUT, 9, 9, metric], None)]
    return records + [Told(LOG, NODES[0], ID + FIRST + struct.pack(">I", at), [1, 7, [], [j] if j else [], *([c] if c else [])])
                      for at, (j, c) in enumerate(entries)]


def recorded(parameter, value):
    """As a record has it: numbers with nine digits."""
    return float(f"{value:.9g}") if parameter.kind == 3 else value


class Draws(unittest.TestCase):
    def test_each_draw_is_computed_anew(self):
        told = search(drawn_search(30))
        self.assertEqual(told.check(True), 30)
        self.assertEqual(told.drawn, 30)
        self.assertTrue(any(math.isnan(told.point(attempt)[3]) for attempt in told.attempts))

    def refused(self, records, text):
        with self.assertRaisesRegex(Wrong, text):
            search(records).check(False)

    def test_a_wrong_draw_is_found(self):
        for changed in ((2, 0, 1e-8), (11, 0, 2e-9), (11, 2, 1), (29, 0, -1e-8)):
            self.refused(drawn_search(30, changed), f"trial {changed[0]} attempt 1 has drawn")

    def test_an_observation_that_was_left_out_is_found(self):
        """Of eleven results two are good. Here the log has the last of them behind the draw of trial 11, so one is good."""
        records = drawn_search(12)
        last = [record for record in records if record.kind == LOG][-4:]
        last[1].key, last[2].key = last[2].key, last[1].key
        self.refused(records, "trial 11 attempt 1 has drawn .* and 11 trials before it say")

    def test_an_attempt_with_other_values_than_its_log(self):
        records = drawn_search(6)
        next(r for r in records if r.kind == ATTEMPT and r.key[8:12] == bytes([0, 0, 0, 3])).told[7][1] = 0.25
        self.refused(records, "trial 3 attempt 1 has the values .* and its log says")

    def test_a_trial_is_drawn_once_in_a_log(self):
        records = drawn_search(6)
        again = next(r for r in records if r.kind == LOG and len(r.told) > 4 and r.told[4][0][8:12] == bytes([0, 0, 0, 3])).told[4]
        key = ID + struct.pack(">IIQ", 3, 2, 1) + NODES[0]
        self.refused([*records, Told(LOG, NODES[0], ID + FIRST + struct.pack(">I", 12), [1, 7, [], [], [key, True, again[2]]])],
                     "trial 3 attempt 2 is drawn again in one log")
        taken = [key, False, [0, *again[2][1:-1], 0.77]]
        self.refused([*records, Told(LOG, NODES[0], ID + FIRST + struct.pack(">I", 12), [1, 7, [], [], taken])],
                     "trial 3 attempt 2 takes over .* which were never drawn")

    def test_what_a_draw_sees_of_paused_and_promoted_trials(self):
        """Results at the longest rung with enough of them; a paused trial was stopped there; a promoted one and one that has ended run."""
        space = [{"sampler": 2}, ["x", 3, 0.0, 1.0, 0]]
        steps = [climb(t, 0, GOES_ON) for t in (4, 5)] + [climb(0, 0, PAUSES), climb(1, 0, PAUSES), climb(2, 0, PAUSES), climb(1, 0, PROMOTES),
                                                         [2, 1, 1, NODES[0], 0, ENDS, 0, 0, NAN], climb(4, 1, TOPS_OUT), climb(5, 1, TOPS_OUT)]
        told = search(base(trials=7, bracket_rungs=[0], hyperparameters=space, n_startup_trials=2, seed=1))
        ladder = Ladder(told)
        for trial in range(6):
            ladder.create(Created([ID + struct.pack(">IIQ", trial, 1, 1) + NODES[0], True, [0, trial / 10]]))
        for step in steps:
            self.assertTrue(ladder.follows(Entry(step)), step)
            told.take(ladder, Entry(step))
        observations, startup = ladder.observe(6)
        self.assertEqual(startup, 2)
        self.assertEqual({o.trial: (o.state, o.step) for o in observations if o.state != RUNNING},
                         {4: (COMPLETED, 9), 5: (COMPLETED, 9), 0: (STOPPED, 3)})
        self.assertEqual({o.trial: o.point for o in observations}, {trial: [trial / 10] for trial in range(6)})
        told.take(ladder, Entry(climb(0, 0, CLOSES)))
        self.assertEqual({o.trial for o in ladder.observe(6)[0] if o.state == STOPPED}, {0})

    def test_promotions_are_no_results(self):
        """Two results at the longest rung are too few if three are wanted, however often one of them is named."""
        space = [{"sampler": 2}, ["x", 3, 0.0, 1.0, 0]]
        told = search(base(trials=7, bracket_rungs=[0], hyperparameters=space, n_startup_trials=4, seed=1))
        ladder = Ladder(told)
        for step in (climb(0, 0, PAUSES), climb(1, 0, PAUSES), climb(2, 0, PAUSES), climb(1, 0, PROMOTES)):
            told.take(ladder, Entry(step))
        self.assertEqual(ladder.observe(6)[1], math.inf)

    def test_known_densities(self):
        """The answers of Optuna's rules for four points, and for three of a categorical."""
        line, choice = Dimension(Parameter(["x", 3, 0.0, 1.0, 0])), Dimension(Parameter(["c", 1, [1, 2, 3]]))
        good, bad = Parzen([line], [[0.2], [0.3], [0.9]]), Parzen([line], [[0.1], [0.6], [0.7], [0.8]])
        for x, l, g in ((0, 0.954885, 0.587250), (0.25, 1.302773, 0.683609), (0.5, 0.995397, 1.002800), (0.75, 0.808791, 1.546677),
                        (1, 0.706042, 0.775762)):
            self.assertAlmostEqual(math.exp(good.log_density([x])), l, places=6)
            self.assertAlmostEqual(math.exp(bad.log_density([x])), g, places=6)
        counted = Parzen([choice], [[0], [0], [2]])
        for value, wanted in enumerate((0.476190, 0.190476, 0.333333)):
            self.assertAlmostEqual(math.exp(counted.log_density([value])), wanted, places=6)
        weights = Parzen([line], [[0.5]] * 30).weights
        for weight, wanted in zip(weights, (1 / 30, 0.275, 0.516667, 0.758333, 1, 1)):
            self.assertAlmostEqual(weight / weights[-1], wanted, places=6)

    def test_the_order_of_trials_that_are_over(self):
        """Completed ones first, then stopped ones that got further; a NaN is worse than all numbers, and nothing is worse still."""
        best_first = [(COMPLETED, 0.1, 0), (COMPLETED, 0.5, 0), (COMPLETED, NAN, 0), (STOPPED, 0.9, 9), (STOPPED, 0.1, 3), (STOPPED, 0.2, 3),
                      (STOPPED, NAN, 3), (STOPPED, None, 0)]
        observations = [Observation(9 - t, state, [], metric, step) for t, (state, metric, step) in enumerate(best_first)]
        found = sorted(observations[::2] + observations[1::2], key=lambda o: rank(o, True))
        self.assertEqual(found, observations)


COPIED = [["lr", 4, -4.0, -1.0, 0, 10.0], ["layers", 2, 1, 8, 0], ["drop", 3, 0.0, 0.5, 0, {"step": 0.1}],
          ["net", 1, [1, 2, 3]], ["width", 2, 16, 64, 0, {"step": 16.0, "when": [[3, [1]]]}], ["name", 0, 1]]
# Three rounds of four trials, of which two are replaced each time; smaller is better. None: a trial that fails.
REACHED = [0.5, 0.9, 0.1, 0.7, NAN, 0.3, 0.2, None, 0.4, 0.4, 0.4, 0.4]
PARENTS = [-1, -1, -1, -1, 0, 2, 2, 0, 5, 5, 6, 6]  # the worst first: 1 from 2, 3 from 0; then 7 from 6, 4 from 5


def attempt_of(trial, number=1):
    return ID + struct.pack(">IIQ", trial, number, 1) + NODES[0]


def entry_of(trial, metric, length):
    decision = ENDS if metric is None else STOPS if math.isnan(metric) else TOPS_OUT
    told = (0, 0, NAN) if metric is None else (length, length, metric)
    return [trial, 1, 1, NODES[0], 0, decision, *told]


def population(parents=(), values=(), order=None):
    """A search of pbt whose one log draws each trial, then judges it. `parents` and `values`: those that are wrong, by
    trial."""
    space, drawn = Space(COPIED), []
    more = {"population_size": 4, "truncate_fraction": 0.5, "resample_probability": 0.5, "seed": 7, "max_time": 5}
    own = config(searcher=POPULATION, max_trials=12, hyperparameters=COPIED, **more)
    records = [Told(EXPERIMENT, NODES[0], ID, [0, b"", 0, b"", own]),
               Told(CLAIM, NODES[0], ID, [1, False])]
    steps = []
    for trial, metric in enumerate(REACHED):
        parent = dict(parents).get(trial, PARENTS[trial])
        drawn.append(space.by_chance(7, trial) if parent < 0 else drawn[parent] if parent == trial - 4 else
                     space.of_copy(drawn[parent], 0.5, 0.2, 7, trial))
        drawn[trial] = [float(f"{v:.9g}") if p.kind == 4 else v for p, v in zip(space.parameters, drawn[trial])]
        point = [v + dict(values).get((trial, at), 0) for at, v in enumerate(drawn[trial])]
        length = trial // 4 * 5 + 5
        key, draw_told = ID + struct.pack(">IIQ", trial, 1, 1), [parent + 1, *point]
        records.append(Told(ATTEMPT, NODES[0], key, [[], 0, b"", 0, "", [], 0, draw_told]))
        records.append(Told(VERDICT, NODES[0], attempt_of(trial), [1, 0, b"", 0]) if metric is None else
                       Told(RESULT, NODES[0], attempt_of(trial) + bytes(1), [length, length, metric]))
        steps += [([], [attempt_of(trial), True, draw_told]), ([entry_of(trial, metric, length)], None)]
    in_order = [steps[step] for step in order or range(len(steps))]
    lines = [[1, 7, [], entries, *([created] if created else [])] for entries, created in in_order]
    return records + [Told(LOG, NODES[0], ID + FIRST + struct.pack(">I", at), line) for at, line in enumerate(lines)]


class Populations(unittest.TestCase):
    def refused(self, text, is_over=False, **more):
        with self.assertRaisesRegex(Wrong, text):
            search(population(**more)).check(is_over)

    def test_a_whole_search(self):
        told = search(population())
        self.assertEqual((told.check(True), told.drawn), (12, 12))

    def test_known_copies(self):
        """As tests/unit/pbt_test.c has them."""
        space = Space(COPIED)
        known = [[0.012, 6, 0.4, 1, 48, 0], [0.008, 6, 0.2, 1, 48, 0], [0.008, 4, 0.1, 1, 64, 0],
                 [0.022442817, 2, 0.2, 0, NAN, 0], [0.00658436954, 5, 0.2, 2, NAN, 0], [0.00499626778, 6, 0.4, 1, 48, 0]]
        for trial, point in enumerate(known):
            self.assertTrue(space.same(space.of_copy([0.01, 5, 0.3, 1, 32, 0], 0.5, 0.2, 7, trial), point))

    def test_another_parent_is_found(self):
        for trial, parent in ((5, 0), (7, 2), (8, 4), (8, 6), (11, 7)):
            self.refused(f"trial {trial} attempt 1 has drawn .* trial {PARENTS[trial]} ", parents=[(trial, parent)])

    def test_a_member_that_goes_on_without_need_of_a_copy(self):
        self.refused("trial 6 attempt 1 has drawn .* goes on from trial 2 with", parents=[(6, 0)])

    def test_other_values_are_found(self):
        for trial, at, change in ((5, 0, 1e-11), (6, 0, 1e-11), (8, 1, 1), (11, 3, 1), (1, 0, 1e-11)):
            self.refused(f"trial {trial} attempt 1 has drawn", values=[((trial, at), change)])

    def test_a_draw_before_the_generation_is_judged_is_found(self):
        order = [*range(7), 8, 7, *range(9, 24)]
        self.refused("trial 4 attempt 1 is drawn, and trials .3. of the generation before it are not judged", order=order)

    def test_a_trial_that_is_not_judged_is_found(self):
        text = "attempt 1 of trial 11 has reported at rung 0, and nobody has judged that"
        self.refused(text, is_over=True, order=range(23))

    def test_a_trial_ends_only_if_it_is_over(self):
        records = [record for record in population() if record.kind != VERDICT]
        with self.assertRaisesRegex(Wrong, "trial 7 attempt 1 at rung 0 ends by its log, and it has no verdict"):
            search(records).check(False)

    def test_a_round_has_its_length(self):
        records = population()
        next(r for r in records if r.kind == RESULT and r.key[8:12] == bytes([0, 0, 0, 5])).told[:2] = [9, 9]
        next(r for r in records if r.kind == LOG and r.told[3] and r.told[3][0][0] == 5).told[3][0][6:8] = [9, 9]
        with self.assertRaisesRegex(Wrong, "trial 5 .* is judged at the length 9, and the rung is at 10"):
            search(records).check(False)


class Doubling(Searcher):
    """Creates two trials, stops the worse of two that have reported, and creates one more when a trial is over; then it is
    done."""

    def __init__(self, wrong=None):
        super().__init__()
        self.seen, self.wrong = {}, wrong

    def on_start(self):
        return [Create({"x": 0.25}), Create({"c": "b", "n": 4})]

    def on_report(self, trial, step, metric):
        self.seen[trial] = metric
        worst = max(self.seen, key=self.seen.get)
        return [Stop(worst)] if len(self.seen) == 2 else []

    def on_end(self, trial, how, metric):
        return [Create({})] if len(self.trials) < 3 else [Finish()]


OWN = [["x", 3, 0.0, 1.0, 0], ["c", 1, ["a", "b"]], ["n", 2, 1, 64, 0]]
STARTED = [[0.25, None, None], [None, 1, 4], [None, None, None]]


def own_point(trial):
    space = Space(OWN)
    chance = space.by_chance(7, trial)
    return [float(f"{c:.9g}") if given is None and p.kind == 3 else c if given is None else given
            for p, c, given in zip(space.parameters, chance, STARTED[trial])]


def answered(flags, created=(), stopped=()):
    return [flags, [[trial, [0, *own_point(trial)]] for trial in created], [list(stop) for stop in stopped]]


def report(trial, rung, metric, decision):
    return [trial, 1, 1, NODES[0], rung, decision, 2 * rung + 2, 2 * rung + 2, metric]


def end(trial, step, how, metric):
    return [trial, 1, 1, NODES[0], 0, ENDS, step, how, metric]


# Trial 1 is the worse one; trial 0 completes, and so does trial 2, which the end of trial 1 created; then all is done.
TOLD = [(None, answered(1, created=(0, 1))), (report(0, 0, 0.3, GOES_ON), answered(0)),
        (report(1, 0, 0.5, STOPS), answered(0, stopped=[(1, 1)])), (end(1, 2, 2, 0.5), answered(0, created=(2,))),
        (report(0, 1, 0.2, TOPS_OUT), answered(0, stopped=[(1, 1)])),
        (end(0, 4, 0, 0.2), answered(4)), (report(2, 0, 0.1, GOES_ON), answered(0)),
        (report(2, 1, 0.1, TOPS_OUT), answered(0)), (end(2, 4, 0, 0.1), answered(4))]


def dialogue(events=None, program=Doubling, more=()):
    own = config(searcher=CUSTOM, max_trials=3, max_time=4, every=2, seed=7, metric="loss", hyperparameters=OWN)
    records = [Told(EXPERIMENT, NODES[0], ID, [0, b"", 0, b"", own]), Told(CLAIM, NODES[0], ID, [1, False])]
    for trial, (steps, reason) in enumerate(((4, 0), (2, 1), (4, 0))):
        metric = {0: 0.2, 1: 0.5, 2: 0.1}[trial]
        packed = b"\x81\xaavalidation\x81\xa4loss\xcb" + struct.pack(">d", metric)
        begun = [[], 0, b"", 0, "", [], 0, [0, *own_point(trial)]]
        records += [Told(ATTEMPT, NODES[0], ID + struct.pack(">IIQ", trial, 1, 1), begun),
                    Told(VERDICT, NODES[0], attempt_of(trial), [reason, steps, packed, 0])]
    reports = [entry for entry, _ in TOLD if entry is not None and entry[5] != ENDS]
    records += [Told(RESULT, NODES[2], attempt_of(entry[0]) + bytes([entry[4]]), entry[6:9]) for entry in reports]
    records.append(Told(SEARCH_STOP, NODES[0], ID + struct.pack(">I", 1), [1, 0, False, NODES[0], FIRST, 4]))
    lines = []
    for at, (entry, answer) in enumerate(TOLD if events is None else events):
        lines.append([1, 7, [], [entry] if entry else [], None, answer])
        begun = [0, 1] if at == 0 else [2] if at == 3 else []
        lines += [[1, 7, [], [], [attempt_of(trial), False, [0, *own_point(trial)]]] for trial in begun]
    records += [Told(LOG, NODES[0], ID + FIRST + struct.pack(">I", at), line) for at, line in enumerate(lines)]
    return Search([*records, *more], ID.hex(), program)


class Programs(unittest.TestCase):
    def refused(self, text, *changes, is_over=False, program=Doubling, until=None):
        """`changes`: (number of the event, what stands there instead)."""
        events = list(TOLD)
        for at, event in changes:
            events[at] = event
        with self.assertRaisesRegex(Wrong, text):
            dialogue(events[:until], program).check(is_over)

    def test_a_whole_search(self):
        told = dialogue()
        self.assertEqual((told.check(True), told.drawn), (8, 3))
        life = told.state().check_answers().told
        self.assertEqual(len(life), len(TOLD))
        self.assertEqual(life[3], 'end 1 stopped 0.5 {"c": "b", "n": 4, "x": %r} 2' % own_point(1)[0])

    def test_an_answer_that_the_program_does_not_give_is_found(self):
        self.refused("the report of trial 0 is answered with stops, end, more .*1.*, and the program says",
                     (1, (TOLD[1][0], answered(0, stopped=[(1, 1)]))), until=2)
        self.refused("the report of trial 1 is answered with stops", (2, (report(1, 0, 0.5, GOES_ON), answered(0))))
        self.refused("the end of trial 1 is answered with stops, end, more", (3, (TOLD[3][0], answered(4, created=(2,)))))

    def test_a_trial_with_other_values_is_found(self):
        answer = answered(1, created=(0, 1))
        answer[1][0][1][1] = 0.26
        self.refused("trial 0 attempt 1 takes over", (0, (None, answer)))
        answer = answered(0, created=(2,))
        answer[1][0][1][3] += 1
        self.refused("trial 2 attempt 1 takes over", (3, (TOLD[3][0], answer)))

    def test_a_creation_that_the_program_has_not_asked_for_is_found(self):
        self.refused("the report of trial 0 creates trials .2., and the program says ..$",
                     (1, (TOLD[1][0], answered(0, created=(2,)))))

    def test_values_that_the_program_has_not_given_are_found(self):
        class Other(Doubling):
            def on_start(self):
                return [Create({"x": 0.2500001}), Create({"c": "b", "n": 4})]

        self.refused("the start creates trial 0 with .0.25, .* the program says .0.2500001", program=Other)

    def test_a_report_is_told_once(self):
        self.refused("trial 0 attempt 1 at rung 0 goes on, and rung 1 is its next",
                     (2, (report(0, 0, 0.3, GOES_ON), answered(0))))

    def test_what_a_stopped_trial_reports_is_not_told(self):
        self.refused("trial 1 .* and rung 1 is its next", (3, (report(1, 1, 0.5, GOES_ON), answered(0))))

    def test_a_decision_against_the_answer_is_found(self):
        self.refused("trial 1 .* goes on by its log, and stops by the rule", (2, (report(1, 0, 0.5, GOES_ON), TOLD[2][1])))

    def test_a_wrong_end_is_found(self):
        self.refused("trial 1 .* is completed by its log, and not by its verdicts", (3, (end(1, 2, 0, 0.5), TOLD[3][1])))
        self.refused("trial 1 .* ends at step 3, and its verdicts are", (3, (end(1, 3, 2, 0.5), TOLD[3][1])))
        self.refused("trial 1 .* ends at step 0, and the program was told of its steps .2.",
                     (3, (end(1, 0, 2, 0.5), TOLD[3][1])))
        self.refused("trial 1 .* ends with 0.4, it has reported .0.5.", (3, (end(1, 2, 2, 0.4), TOLD[3][1])))
        self.refused("trial 1 .* ends with nan, it has reported .0.5., and the program was told .0.5.",
                     (3, (end(1, 2, 2, NAN), TOLD[3][1])))

    def test_events_come_after_the_begin_and_what_is_left_to_say(self):
        self.refused("trial 0 .* is told, and the program was not told of the begin",
                     (0, (report(0, 0, 0.3, GOES_ON), answered(0))))
        self.refused("trial 0 .* is told, and the program has more to say", (0, (None, answered(3, created=(0, 1)))))

    def test_a_search_is_closed_only_if_all_is_over(self):
        self.refused("the search is closed, and trials .0, 1. are not over", (1, (None, answered(4))))
        self.refused("an answer to no event, with 1 creations", (1, (None, answered(4, created=(2,)))))

    def test_what_was_not_told_is_found(self):
        self.refused("attempt 1 of trial 2 has reported at rung 0, and nobody has judged that", is_over=True, until=6)
        self.refused("the program was not told of the ends of trials .2.", is_over=True, until=8)

    def test_an_answer_of_another_log_is_heard(self):
        """A second log has answered the first report, too: its creation stands, the program is told of nothing but that."""
        second = [[1, 7, [], [], None, answered(1, created=(0, 1))],
                  [1, 7, [], [], [attempt_of(0), False, [0, *own_point(0)]]],
                  [1, 7, [], [report(0, 0, 0.3, GOES_ON)], None, answered(0)]]
        adopting = Told(LOG, NODES[0], ID + FIRST + struct.pack(">I", len(TOLD) + 3), [1, 7, [[NODES[0], SECOND, 3]], []])
        other = [Told(LOG, NODES[0], ID + SECOND + struct.pack(">I", at), line) for at, line in enumerate(second)]
        told = dialogue(more=[*other, adopting])
        told.check(False)
        self.assertEqual([event.kind for event in told.read_log((NODES[0], FIRST))[0].events][-2:], ["other", "other"])

    def test_a_stop_names_the_answer(self):
        made_up = Told(SEARCH_STOP, NODES[1], ID + struct.pack(">I", 2), [1, 0, False, NODES[0], FIRST, 5])
        with self.assertRaisesRegex(Wrong, "trial 2 is stopped at rung 0, and the log that the stop names does not say so"):
            dialogue(more=[made_up]).check(False)


class Bytes(unittest.TestCase):
    def test_messagepack(self):
        for data, value in (("07", 7), ("ff", -1), ("d1fed4", -300), ("cb3ff8000000000000", 1.5), ("a2686f", "ho"), ("c4020102", b"\1\2"),
                            ("93c0c2c3", [None, False, True]), ("81a16107", {"a": 7}), ("dc000101", [1]), ("d90168", "h"), ("cd0100", 256)):
            self.assertEqual(unpack(bytes.fromhex(data)), (value, len(data) // 2))


if __name__ == "__main__":
    unittest.main()
