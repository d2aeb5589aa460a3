"""Searches whose coordinator is killed again and again, at any moment and between the record of a decision and its effect. What is
on the disks at the end is computed anew by search_replay.py. The short forms kill three times, the long ones twenty times."""

import itertools
import math
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import case, expect, over, show, wait_over, wait_until
from search_programs import load
from search_replay import ATTEMPT, LOG, SEARCH_PAUSE, SEARCH_STOP, Search, read_records
from search_states import ENDS, Wrong

# Kinds of records that a coordinator decides by, and where their commit is held: on its own disk, or on another node's once it has sent
# them. None: at a random moment.
HOLDS = [(LOG, "after", "own"), (SEARCH_STOP, "after", "own"), None, (LOG, "before", "own"), (SEARCH_STOP, "before", "own"),
         (SEARCH_STOP, "before", "another"), (SEARCH_STOP, "after", "another"), None]
HOLDS_OF_DRAWS = [(LOG, "after", "own"), (ATTEMPT, "before", "own"), None, (ATTEMPT, "after", "own"), (LOG, "before", "own"), None]
HOLDS_OF_PAUSES = [(LOG, "after", "own"), (SEARCH_PAUSE, "before", "own"), None, (SEARCH_PAUSE, "after", "own"), (SEARCH_STOP, "before", "own"),
                   (SEARCH_PAUSE, "before", "another"), (LOG, "before", "own"), (SEARCH_PAUSE, "after", "another")]
HOLDS_OF_BOTH = [(LOG, "after", "own"), (SEARCH_PAUSE, "before", "own"), (ATTEMPT, "before", "own"), None, (SEARCH_PAUSE, "after", "another"),
                 (LOG, "before", "own"), (ATTEMPT, "after", "own"), (SEARCH_STOP, "before", "own")]
HOLDS_OF_COPIES = [(LOG, "after", "own"), (ATTEMPT, "before", "own"), (SEARCH_STOP, "before", "own"), None,
                   (LOG, "before", "own"), (ATTEMPT, "after", "own"), (SEARCH_STOP, "after", "another"), None]
HOLDS_OF_ATTEMPTS = [(ATTEMPT, "after", "own"), None, (ATTEMPT, "before", "own"), None]


class Storm:
    """Three daemons, of which the coordinator of one experiment is killed."""

    def __init__(self, lab, program=None):
        """`program`: makes a fresh searcher of the user's, where one decides."""
        self.lab, self.program = lab, program
        self.mesh = lab.mesh(3, slots="cpu:2", start=False)
        sanitizer = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        for node in self.mesh.nodes:
            node.wrap = ["env", f"LD_PRELOAD={lab.build}/libhold_write.so", f"HOLD_FILE={self.hold(node)}", f"ASAN_OPTIONS={sanitizer}"]
        self.mesh.start()
        self.ids = {node.name: node.json("status")["node"]["id"] for node in self.mesh.nodes}
        self.kills, self.held = 0, 0
        self.stopped = {}  # trial -> {node's name: attempt}

    def hold(self, node):
        return self.lab.dir / f"hold-{node.name}"

    def look(self):
        """Which trials each node takes for stopped."""
        for node in self.mesh.living():
            for trial in node.json("show", self.identity)["experiment"]["trials"]:
                if trial["state"] == "stopped":
                    self.stopped.setdefault(trial["index"], {}).setdefault(node.name, trial["attempt"])

    def coordinator(self):
        self.look()
        name = show(self.mesh, self.identity)["coordinator_name"]
        return self.mesh.by_name(name) if name else None

    def stands_still_at(self, node, writer, kind, moment):
        """True once the node's daemon stands still at the commit of such a record of the writer; False if it has none for a while."""
        file = self.hold(node)
        Path(f"{file}.held").unlink(missing_ok=True)
        file.with_suffix(".new").write_text(f"{kind} {moment} {self.ids[writer.name]}\n")
        file.with_suffix(".new").rename(file)
        until = time.monotonic() + 12
        while time.monotonic() < until and not Path(f"{file}.held").exists():
            time.sleep(0.02)
        file.unlink()
        if not Path(f"{file}.held").exists():
            return False
        wait_until(lambda: Path(f"/proc/{node.daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", 10,
                   f"{node.name} to stand still")
        return True

    def kill(self, hold, away_s=None):
        """Kills the coordinator and starts its daemon again, after a while that is drawn if it is not given."""
        random = self.lab.random
        node = wait_until(self.coordinator, 30, "a coordinator")
        where = random.choice([n for n in self.mesh.nodes if n is not node]) if hold is not None and hold[2] == "another" else node
        is_held = hold is not None and self.stands_still_at(where, node, *hold[:2])
        if is_held:
            time.sleep(random.choice([0, 0, random.uniform(0, 3)]))
        elif hold is None:
            time.sleep(random.uniform(0, 2))
        node.kill_daemon(signal.SIGKILL)
        if is_held and where is not node:
            where.daemon.send_signal(signal.SIGCONT)
        self.kills += 1
        self.held += is_held
        self.lab.note(f"{node.name} was killed{f' at {hold}' if is_held else ''}")
        time.sleep(random.choice([0, random.uniform(0, 4), random.uniform(0, 12)]) if away_s is None else away_s)
        self.look()
        node.start()
        self.mesh.wait_alive(3)

    def run(self, config, kills, holds, limit_s):
        """Submits the experiment, kills its coordinators, and waits for its end."""
        self.identity = self.lab.submit(self.mesh.nodes[0], config)
        for hold in itertools.islice(itertools.cycle(holds), kills):
            expect(over(show(self.mesh, self.identity)) is None,
                   f"the search was over after {self.kills} kills: it needs more trials")
            self.kill(hold)
        return wait_over(self.mesh, self.identity, limit_s)

    def searches(self):
        """What each node has on its disk, once all have the same."""
        def read():
            self.look()
            found = [Search(read_records(node.dir, self.lab.build), self.identity, self.program) for node in self.mesh.nodes]
            return found if all(search.same_as(found[0]) for search in found) else None

        return wait_until(read, 30, "the disks to have the same records of the search")

    def check(self, final, trials, failing=()):
        """The decisions follow from the results, trials are as many as they should be, and what has been stopped stays so.
        The `failing` trials fail, and no others."""
        search = self.searches()[0]  # as all of them
        try:
            checked = search.check(is_over=True)
        except Wrong as wrong:
            raise AssertionError(str(wrong)) from None
        wanted = search.judged() if search.halves else []
        for node in self.mesh.nodes:
            if search.halves:
                told = node.json("rungs", self.identity)["search"]["judged"]
                expect(len(told) == len(wanted), f"{node.name} tells of {len(told)} decisions, and its records say {len(wanted)}")
                for one, other in zip(told, wanted):
                    one, other = ({**judged, "metric": str(float(judged["metric"]))} for judged in (one, other))
                    expect(one == other, f"{node.name} tells {one}, and its records say {other}")
        numbers = [trial["index"] for trial in final["trials"]]
        expect(numbers == list(range(trials)), f"the trials are {numbers}")
        ends = {trial["index"]: trial["state"] for trial in final["trials"]}
        good = [state in (("failed",) if trial in failing else ("stopped", "completed")) for trial, state in ends.items()]
        expect(all(good), f"trials ended as {ends}")
        attempts = {trial["index"]: trial["attempt"] for trial in final["trials"]}
        for trial, seen in self.stopped.items():
            if len(seen) > 1:  # beyond the one that may have been the only one to know, and was killed
                expect(ends[trial] == "stopped" and attempts[trial] == max(seen.values()),
                       f"trial {trial} was stopped at attempt {seen}, and is {ends[trial]} at attempt {attempts[trial]}")
        logs = len(search.logs)
        draws = f" and {search.drawn} draws" if search.space is not None else ""
        return (f"{self.kills} kills, {self.held} of them held at a decision; {trials} trials, {logs} logs, {checked} decisions{draws} computed "
                f"anew, {sum(len(seen) > 1 for seen in self.stopped.values())} stops watched")


def worker(lab, rest_ms, last=9, goes_on=False):
    """Reports a metric at each step, a number that follows from trial and step; a few trials have none. Leaves when it is told to, and
    then `goes_on` from its checkpoint, or begins anew."""
    past = "past:$i:4 " if goes_on else ""
    return (f"set --; for i in $(seq {last}); do m=0.$(( (SHOAL_TRIAL * 7 + i * 13 + 3) % 83 + 10 )); "
            f"[ $(( SHOAL_TRIAL % 13 )) != 5 ] || m=nan; "
            f"set -- \"$@\" {past}report:validation:accuracy:$i:$m save:$i:1000 flush rest:{rest_ms}; done; exec {lab.build}/scripted_worker \"$@\"")


def config(lab, searcher, rest_ms, last=9):
    return {"name": "killed", "entrypoint": worker(lab, rest_ms, last, goes_on=not searcher.get("stop_once", True)), "seed": 11,
            "hyperparameters": {"x": {"type": "int", "minval": 0, "maxval": 19, "count": 20}, "y": {"type": "int", "minval": 0, "maxval": 9, "count": 10}},
            "searcher": {"metric": "accuracy", "smaller_is_better": False, **searcher}}


def asha(trials):
    return {"name": "asha", "max_trials": trials, "num_rungs": 3, "divisor": 3, "max_length": 9}


def adaptive(trials):
    return {"name": "adaptive_asha", "max_trials": trials, "max_rungs": 3, "divisor": 3, "max_length": 9, "mode": "conservative"}


def promoting(trials):
    return {**asha(trials), "stop_once": False}


def kill_a_search(lab, searcher, kills, rest_ms, holds=HOLDS):
    storm = Storm(lab)
    final = storm.run(config(lab, searcher, rest_ms), kills, holds, 600)
    said = storm.check(final, searcher["max_trials"])
    expect(storm.held >= kills // 4, f"only {said}")
    return said


# Every kind of hyperparameter, and one that a third of the trials lack.
SPACE = {"x": {"type": "double", "minval": 0, "maxval": 1}, "n": {"type": "int", "minval": 1, "maxval": 64, "log": True},
         "k": {"type": "int", "minval": 0, "maxval": 30, "step": 3}, "rate": {"type": "log", "minval": -4, "maxval": -1},
         "c": {"type": "categorical", "vals": ["one", "two", "three"]},
         "m": {"type": "double", "minval": 0, "maxval": 1, "when": {"c": ["one", "three"]}}, "fixed": 3}


def kill_a_search_that_draws(lab, searcher, kills, rest_ms, last, holds=HOLDS_OF_DRAWS):
    """The metric is the hyperparameter x, so each result tells with which values it was made."""
    storm = Storm(lab)
    entrypoint = (f"set --; for i in $(seq {last}); do set -- \"$@\" past:$i:4 report:validation:accuracy:$i:$SHOAL_HP_X save:$i:1000 flush "
                  f"rest:{rest_ms}; done; exec {lab.build}/scripted_worker \"$@\"")
    searcher = {"n_startup_trials": 8, "initial": [{"x": trial / 20} for trial in range(12)], **searcher}
    final = storm.run({**config(lab, searcher, rest_ms), "entrypoint": entrypoint, "hyperparameters": SPACE}, kills, holds, 600)
    said = storm.check(final, searcher["max_trials"])
    search = storm.searches()[0]
    for entry in search.state().entries:
        x = search.point(entry.attempt())[0] if entry.decision != ENDS else None
        expect(entry.metric == x or entry.decision == ENDS, f"{entry} is judged by {entry.metric}, and its program had x = {x}")
    values = [trial["hyperparameters"] for trial in final["trials"]]
    expect([value["x"] for value in values[:12]] == [trial / 20 for trial in range(12)], f"the first trials have {values[:12]}")
    expect(storm.held >= kills // 4, f"only {said}")
    return said


def kill_without_rungs(lab, searcher, kills, rest_ms, trials):
    """All trials of a grid, or as many random ones as asked for, each once and with the values that follow from the seed."""
    storm = Storm(lab)
    final = storm.run(config(lab, searcher, rest_ms, last=2), kills, HOLDS_OF_ATTEMPTS, 600)
    said = storm.check(final, trials)
    values = [(trial["hyperparameters"]["x"], trial["hyperparameters"]["y"]) for trial in final["trials"]]
    if searcher["name"] == "grid":
        expect(sorted(values) == sorted(itertools.product(range(20), range(10))), f"the grid's points are {values}")
    for node in storm.mesh.nodes:
        shown = node.json("show", storm.identity)["experiment"]["trials"]
        expect([trial["hyperparameters"] for trial in shown] == [trial["hyperparameters"] for trial in final["trials"]],
               f"{node.name} shows other hyperparameters")
    expect(all(trial["state"] == "completed" for trial in final["trials"]), "a trial was stopped")
    expect(storm.held >= kills // 4, f"only {said}")
    return said


POPULATION, LENGTH = 6, 4
BEST_X = 0.37  # the metric of a trial of pbt is the distance of its x from here


def kill_a_population(lab, rounds, kills, rest_ms):
    """Some trials report what is no number, and some fail: these are replaced by copies of others."""
    storm = Storm(lab)
    trials = POPULATION * rounds
    odd = range(11, trials, 13)
    failing = range(9, trials, 17)
    entrypoint = (f'[ $(( SHOAL_TRIAL % 17 )) != 9 ] || exit 1; '
                  f"m=$(awk -v x=$SHOAL_HP_X 'BEGIN {{ d = x - {BEST_X}; printf \"%.9g\", d < 0 ? -d : d }}'); "
                  f'[ $(( SHOAL_TRIAL % 13 )) != 11 ] || m=nan; set --; '
                  f'for i in $(seq $(( (SHOAL_TRIAL / {POPULATION} + 1) * {LENGTH} + 2 ))); do '
                  f'set -- "$@" past:$i:4 report:validation:accuracy:$i:$m save:$i:1000 flush rest:{rest_ms}; done; '
                  f'exec {lab.build}/scripted_worker "$@"')
    searcher = {"name": "pbt", "population_size": POPULATION, "num_rounds": rounds, "length_per_round": LENGTH,
                "truncate_fraction": 0.34, "smaller_is_better": True}
    more = {"entrypoint": entrypoint, "hyperparameters": SPACE, "max_restarts": 0}
    final = storm.run({**config(lab, searcher, rest_ms), **more}, kills, HOLDS_OF_COPIES, 600)
    said = storm.check(final, trials, failing)
    search = storm.searches()[0]
    for entry in search.state().entries:
        x = search.point(entry.attempt())[0]
        is_due = (entry.decision == ENDS if entry.trial in failing else
                  math.isnan(entry.metric) if entry.trial in odd else abs(entry.metric - abs(x - BEST_X)) < 1e-8)
        expect(is_due, f"{entry} is judged by {entry.metric}, and its program had x = {x}")
    parents = {attempt[0]: search.draw(attempt)[0] - 1 for attempt in search.attempts}
    for node in storm.mesh.nodes:
        told = node.json("show", storm.identity)["experiment"]["trials"]
        shown = {trial["index"]: trial.get("parent", -1) for trial in told}
        expect(shown == parents, f"{node.name} shows the parents {shown}, and its records say {parents}")
    copies = sum(parent >= 0 and parent != trial - POPULATION for trial, parent in parents.items())
    expect(copies >= 2 * (rounds - 1), f"{copies} trials are copies of others")
    expect(storm.held >= max(1, kills // 4), f"only {said}")
    return f"{said}, {copies} copies of others"


def kill_a_search_of_ones_own(lab, trials, kills, rest_ms):
    """A program decides. Each of its lives is told of the events of the log, in their order."""
    path, events = Path(__file__).parent / "programs/custom_kills.py", lab.dir / "events"
    events.mkdir()
    storm = Storm(lab, program=lambda: load(path, "", str(trials)))
    entrypoint = (f'set --; for i in $(seq 6); do set -- "$@" past:$i:4 report:validation:accuracy:$i:$SHOAL_HP_X '
                  f'save:$i:1000 flush rest:{rest_ms}; done; exec {lab.build}/scripted_worker "$@"')
    searcher = {"name": "custom", "entrypoint": f"python3 {path} {events} {trials}", "max_trials": trials, "max_length": 6,
                "every": 2}
    more = {"entrypoint": entrypoint, "hyperparameters": SPACE}
    final = storm.run({**config(lab, searcher, rest_ms), **more}, kills, HOLDS_OF_COPIES, 600)
    wait_until(lambda: storm.searches()[0].state().left() is None, 60, "the program to hear of the last end")
    said = storm.check(final, trials)
    search = storm.searches()[0]
    told = search.state().check_answers().told
    lives = [file.read_text().splitlines() for file in events.iterdir()]
    unknown = 0
    for life in lives:
        same = next((at for at, (one, other) in enumerate(zip(life, told)) if one != other), min(len(life), len(told)))
        unknown += len(life) - same
        expect(len(set(life)) == len(life), f"a life was told of an event twice: {life}")
    expect(told in lives, f"no life was told of all {len(told)} events of the log")
    expect(storm.held >= max(1, kills // 4), f"only {said}")
    return f"{said}, {len(lives)} lives of the program, {len(told)} events, {unknown} that no log kept"


@case(limit_s=180)
def a_search_of_several_brackets_outlives_coordinators_held_at_their_decisions(lab):
    return kill_a_search(lab, adaptive(60), 3, 600)


@case(limit_s=240)
def trials_that_are_drawn_paused_and_promoted_outlive_coordinators_held_at_their_decisions(lab):
    return kill_a_search_that_draws(lab, {**promoting(48), "sampler": "tpe"}, 3, 600, last=9, holds=HOLDS_OF_BOTH)


@case(limit_s=240)
def a_population_outlives_coordinators_held_at_their_decisions(lab):
    return kill_a_population(lab, 7, 2, 250)


@case(limit_s=240)
def a_search_of_ones_own_outlives_coordinators_held_at_its_answers(lab):
    return kill_a_search_of_ones_own(lab, 40, 2, 250)


@case(limit_s=180)
def results_that_come_one_at_a_time_are_judged_as_if_no_coordinator_had_died(lab):
    """Each result is let go once the one before it is judged, so what is decided follows from the metrics alone."""
    storm = Storm(lab)
    node = storm.mesh.nodes[0]
    searcher = {"name": "asha", "metric": "accuracy", "smaller_is_better": False, "max_trials": 6, "num_rungs": 3, "divisor": 2, "max_length": 4}
    metrics = [0.5, 0.7, 0.4, 0.9, 0.6, 0.8]
    entrypoint = (f"m=$(echo {' '.join(map(str, metrics))} | cut -d' ' -f$(( SHOAL_TRIAL + 1 ))); set --; for i in 1 2 4; do "
                  f"set -- \"$@\" await:{lab.dir}/go-$SHOAL_TRIAL-$i report:validation:accuracy:$i:$m flush; done; "
                  f"exec {lab.build}/scripted_worker \"$@\"")
    storm.identity = lab.submit(node, {"name": "released", "entrypoint": entrypoint, "searcher": searcher, "preemption_timeout": 1})

    def judged():
        told = [living.json("rungs", storm.identity)["search"]["judged"] for living in storm.mesh.living()]
        return [(item["trial"], item["rung"], item["decision"]) for item in max(told, key=len)]

    wanted = []
    kills = {2: (LOG, "after", "own"), 5: (LOG, "before", "own"), 11: (SEARCH_STOP, "after", "own")}
    killer = ThreadPoolExecutor(1)
    for rung, step in enumerate((1, 2, 4)):
        reached = [trial for trial in range(6) if rung == 0 or (trial, rung - 1, "goes on") in wanted]
        for trial in reached:
            before = [other for other, at, _ in wanted if at == rung]
            better = sum(metrics[other] > metrics[trial] for other in before)
            goes_on = better < max(1, (len(before) + 1) // 2)
            wanted.append((trial, rung, "top" if rung == 2 else "goes on" if goes_on else "stops"))
            hold = kills.pop(len(wanted), None)
            if hold is not None:
                killing = killer.submit(storm.kill, hold, away_s=1)
                wait_until(lambda: killing.done() or any(storm.hold(n).exists() for n in storm.mesh.nodes), 40, "the hold to be armed")
            (lab.dir / f"go-{trial}-{step}").touch()
            if hold is not None:
                killing.result()
            wait_until(lambda: len(judged()) >= len(wanted), 60, f"the result of trial {trial} at rung {rung} to be judged")
            expect(judged() == wanted, f"{judged()} was decided, and without a death that is {wanted}")
    said = storm.check(wait_over(storm.mesh, storm.identity, 60), 6)
    expect(storm.held == 3, f"only {said}")
    return said


@case(limit_s=1500, whole=True)
def an_asha_search_outlives_twenty_coordinators(lab):
    return kill_a_search(lab, asha(320), 20, 1500)


@case(limit_s=1500, whole=True)
def a_search_that_promotes_outlives_twenty_coordinators(lab):
    return kill_a_search(lab, promoting(260), 20, 1200, HOLDS_OF_PAUSES)


@case(limit_s=1500, whole=True)
def a_tpe_search_outlives_twenty_coordinators(lab):
    return kill_a_search_that_draws(lab, {"name": "tpe", "max_trials": 200}, 20, 2500, last=2)


@case(limit_s=1500, whole=True)
def tpe_over_asha_outlives_twenty_coordinators(lab):
    return kill_a_search_that_draws(lab, {**asha(260), "sampler": "tpe"}, 20, 1200, last=9)


@case(limit_s=1500, whole=True)
def tpe_with_promotion_outlives_twenty_coordinators(lab):
    return kill_a_search_that_draws(lab, {**promoting(220), "sampler": "tpe"}, 20, 1200, last=9, holds=HOLDS_OF_BOTH)


@case(limit_s=1500, whole=True)
def an_adaptive_search_outlives_twenty_coordinators(lab):
    return kill_a_search(lab, adaptive(260), 20, 1200)


@case(limit_s=1500, whole=True)
def a_random_search_outlives_twenty_coordinators(lab):
    return kill_without_rungs(lab, {"name": "random", "max_trials": 200}, 20, 2500, 200)


@case(limit_s=1500, whole=True)
def a_grid_outlives_twenty_coordinators(lab):
    return kill_without_rungs(lab, {"name": "grid"}, 20, 2500, 200)


@case(limit_s=1500, whole=True)
def a_population_outlives_twenty_coordinators(lab):
    return kill_a_population(lab, 50, 20, 500)


@case(limit_s=1500, whole=True)
def a_search_of_ones_own_outlives_twenty_coordinators(lab):
    return kill_a_search_of_ones_own(lab, 260, 20, 700)
