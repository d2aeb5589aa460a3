"""Deaths under a running experiment: of machines, daemons and workers. What must hold each time: it completes, with the trials
of the undisturbed run, and no more steps are run again than one checkpoint interval and what was run until the death was noticed."""

import functools
import os
import signal
import statistics
import time

from lab import (Lab, Refused, Skip, case, command, expect, over, processes_naming, read_steps, show, trial_states, wait_over,
                 wait_until)

STEPS = 275            # of one trial: 5 epochs of 55,000 images in batches of 1,000
CHECKPOINT_EVERY = 25  # steps, some 0.2 s
REPLICATE_MS = 400     # how long a checkpoint is on its way to its second disk: until then it does not count
TRIALS = 3


def config(log, slots=2, **changes):
    """A random search of small trials that write every step into `log`."""
    made = {
        "name": "survival",
        "entrypoint": f"env SHOAL_STEP_LOG={log} SHOAL_FINAL_HASH={log}.hash shoal-train mlp",
        "hyperparameters": {
            "hidden": 32,
            "learning_rate": {"type": "log", "base": 10, "minval": -2.5, "maxval": -1},
            "batch_size": 1000,
            "epochs": 5,
            "checkpoint_every": CHECKPOINT_EVERY,
        },
        "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": TRIALS},
        "resources": {"slots_per_trial": slots, "min_slots": min(slots, 2)},
        "seed": 7,
    }
    for key, value in changes.items():
        if isinstance(value, dict):
            made[key] = {**made[key], **value}
        else:
            made[key] = value
    return made


def single(log, **hyperparameters):
    """One trial, long enough that something can happen to it."""
    return config(log, searcher={"name": "single"}, hyperparameters={"learning_rate": 0.03, **hyperparameters})


def hyperparameters_of(experiment):
    return {trial["index"]: trial["hyperparameters"] for trial in experiment["trials"]}


@functools.cache
def undisturbed(build, names, slots):
    """(seconds from submit to the end, the trials' hyperparameters) of a run to which nothing happens."""
    room = Lab("undisturbed", build, 0)
    try:
        mesh = room.mesh(list(names))
        log = room.dir / "steps"
        began = time.monotonic()
        identity = room.submit(mesh.nodes[0], config(log, slots))
        final = wait_over(mesh, identity, 60)
        seconds = time.monotonic() - began
        steps = read_steps(log, identity)
        expect(len(steps) == TRIALS * STEPS, f"an undisturbed run has {TRIALS * STEPS} steps, this one {len(steps)}")
        return seconds, hyperparameters_of(final)
    finally:
        room.end()
        room.remove()


class Run:
    """One experiment on a mesh whose nodes are killed, and the judgement over it."""

    def __init__(self, lab, names, slots=2):
        self.lab = lab
        self.slots = slots
        self.duration, self.expected = undisturbed(lab.build, tuple(names), slots)
        self.mesh = lab.mesh(list(names))
        self.log = lab.dir / "steps"
        self.submitter = lab.random.choice(self.mesh.nodes)
        self.identity = lab.submit(self.submitter, config(self.log, slots))
        self.began = time.monotonic()
        self.silenced_ms = []  # when a node stopped being heard
        self.spared = {}       # trial -> attempt, of trials that no death so far had anything to do with
        lab.note(f"seed {lab.seed}: {len(names)} nodes, submitted from {self.submitter.name}, undisturbed {self.duration:.1f} s")

    def wait_for(self, moment):
        time.sleep(max(0, self.began + moment - time.monotonic()))

    def see(self, without=None):
        """The experiment now, as a living node (but not `without`) shows it."""
        viewer = next(node for node in self.mesh.living() if node is not without)
        return viewer.json("show", self.identity)["experiment"]

    def coordinator(self):
        """Waits until there is one: in the first moments of an experiment there is none yet."""
        name = wait_until(lambda: self.see()["coordinator_name"], 20, "a coordinator")
        return self.mesh.by_name(name)

    def host(self):
        """A node with a worker, or any living node if no trial runs at the moment."""
        names = {slot["node_name"] for trial in self.see()["trials"] if trial["state"] == "running" for slot in trial["slots"]}
        living = [node for node in self.mesh.living() if node.name in names] or self.mesh.living()
        return self.lab.random.choice(living)

    def lose(self, node, how):
        """Notes which trials `node` has nothing to do with, then ends it by `how`."""
        before = self.see()
        for trial in before["trials"]:
            concerned = any(slot["node_name"] == node.name for slot in trial["slots"])
            if concerned:
                self.spared.pop(trial["index"], None)
            elif not self.silenced_ms and trial["state"] in ("running", "completed") and (trial["step"] or 0) > 0:
                self.spared[trial["index"]] = trial["attempt"]
        how()
        self.silenced_ms.append(time.time_ns() // 1_000_000)
        self.lab.note(f"{time.monotonic() - self.began:.2f} s: lost {node.name} (coordinator: {before['coordinator_name']}); "
                      f"{trial_states(before)}")

    def kill(self, node):
        self.lose(node, node.kill_machine)

    def judge(self, timeout=60):
        final = wait_over(self.mesh, self.identity, timeout)
        seconds = time.monotonic() - self.began
        expect(hyperparameters_of(final) == self.expected,
               f"the trials are {hyperparameters_of(final)}, undisturbed they are {self.expected}")
        again = 0
        for trial in final["trials"]:
            again += self.judge_trial(trial)
        return f"seed {self.lab.seed}: {seconds:.1f} s, undisturbed {self.duration:.1f} s; {again} steps run again"

    def judge_trial(self, trial):
        index, lost = trial["index"], len(self.silenced_ms)
        expect(trial["state"] == "completed" and trial["step"] == STEPS, f"trial {index} is {trial['state']} at {trial['step']}")
        if index in self.spared:
            expect(trial["attempt"] == self.spared[index], f"no worker of trial {index} died, but its attempt "
                   f"{self.spared[index]} was followed by {trial['attempt']}")
        steps = [s for s in read_steps(self.log, self.identity) if s.trial == index]
        attempts = {}
        for step in steps:
            attempts.setdefault(step.attempt, []).append(step)
        allowed = 0
        for number, rows in sorted(attempts.items()):
            numbers = [row.step for row in rows]
            expect(numbers == list(range(numbers[0], numbers[0] + len(numbers))),
                   f"trial {index} attempt {number} has a gap or a repetition in its steps")
            if number != max(attempts):
                unnoticed = [row for row in rows
                             if any(row.ms >= silenced - REPLICATE_MS for silenced in self.silenced_ms)]
                allowed += CHECKPOINT_EVERY + len(unnoticed)
        again = len(steps) - STEPS
        self.lab.note(f"trial {index}: attempts " + ", ".join(
            f"{number}: {rows[0].step}-{rows[-1].step}" for number, rows in sorted(attempts.items())) + f"; {again} of {allowed}")
        expect({s.step for s in steps} == set(range(1, STEPS + 1)), f"trial {index} did not run each of its steps")
        expect(again <= allowed, f"trial {index} ran {again} steps again; {allowed} are allowed")
        expect(trial["attempt"] <= 1 + 2 * lost, f"trial {index} needed {trial['attempt']} attempts for {lost} deaths")
        return again


THREE = ("alder", "birch", "cedar")
FIVE = (*THREE, "dogwood", "elm")


@case(limit_s=120, soak=True)
def kill_the_coordinator_of_three(lab):
    run = Run(lab, THREE)
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(run.coordinator())
    return run.judge()


@case(limit_s=120, soak=True)
def kill_a_worker_node_of_three(lab):
    run = Run(lab, THREE, slots=3)  # a group over two nodes: the survivor must notice
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(run.host())
    return run.judge()


@case(limit_s=120, soak=True)
def kill_the_submitter_of_three(lab):
    run = Run(lab, THREE)
    run.wait_for(lab.random.uniform(0, run.duration))
    run.kill(run.submitter)
    return run.judge()


@case(limit_s=120, soak=True)
def kill_one_of_five(lab):
    run = Run(lab, FIVE)
    moment = lab.random.uniform(0, run.duration)
    choose = lab.random.choice([run.coordinator, run.host, lambda: run.submitter])
    run.wait_for(moment)
    run.kill(choose())
    return run.judge()


@case(limit_s=150, soak=True)
def kill_all_but_one(lab):
    run = Run(lab, THREE)
    for moment in sorted(lab.random.uniform(0, run.duration) for _ in range(2)):
        run.wait_for(moment)
        run.kill(lab.random.choice(run.mesh.living()))
    return run.judge(timeout=90)
