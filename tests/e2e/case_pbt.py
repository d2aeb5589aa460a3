"""Population-based training on real daemons: each trial of a later round goes on from a checkpoint of the round before."""

from lab import case, expect, wait_over, wait_until
from look import refusal

POPULATION, ROUNDS, LENGTH = 4, 3, 4
TRIALS = POPULATION * ROUNDS
BOUNDS = (0.1, 10.0)


def worker(lab, steps=40, ms=100):
    """Reports and saves each step that is not behind its checkpoint, until it is asked to leave. Lower x is better; no two are equal."""
    return (f"m=$(printf '%s' \"$SHOAL_HP_X\" | tr -dc 0-9 | cut -c1-6); set -- started; for i in $(seq {steps}); do "
            f'set -- "$@" past:$i:4 report:validation:loss:$i:0.$m save:$i:1000 flush rest:{ms}; done; exec {lab.build}/scripted_worker "$@"')


def population(lab, **more):
    return {"name": "flock", "entrypoint": worker(lab),
            "hyperparameters": {"x": {"type": "double", "minval": BOUNDS[0], "maxval": BOUNDS[1]}, "kind": {"type": "categorical", "vals": ["a", "b"]}},
            "searcher": {"name": "pbt", "metric": "loss", "population_size": POPULATION, "num_rounds": ROUNDS, "length_per_round": LENGTH, **more}}


def first_step(node, identity, trial):
    """The step from which the trial's first attempt began, by its log."""
    text = node.run("logs", f"{identity}/{trial}", "--attempt", "1")
    return int(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if "begins from step" in line))


def expect_lineages(node, identity, final):
    """Each trial goes on from one of the round before: the worst from the best, with other values, all others from themselves."""
    trials = {t["index"]: t for t in final["trials"]}
    expect(sorted(trials) == list(range(TRIALS)), f"the trials are {sorted(trials)}")
    for index, trial in sorted(trials.items()):
        expect(trial["state"] == "completed", f"trial {index} is {trial['state']}")
        expect(trial["checkpoint"]["step"] >= LENGTH * (index // POPULATION + 1), f"trial {index} ended at {trial['checkpoint']}")
        if index < POPULATION:
            expect("parent" not in trial, f"trial {index} of the first round has a parent")
            continue
        before = [trials[index - index % POPULATION - POPULATION + m] for m in range(POPULATION)]
        order = sorted(before, key=lambda t: (t["metrics"]["validation"]["loss"], t["index"]))
        own = before[index % POPULATION]
        parent = order[0] if own is order[-1] else own
        expect(trial["parent"] == parent["index"], f"trial {index} goes on from {trial['parent']}, and not from {parent['index']}: {order}")
        mine, theirs = trial["hyperparameters"], parent["hyperparameters"]
        if parent is own:
            expect(mine == theirs, f"trial {index} has {mine}, and trial {parent['index']} before it {theirs}")
        else:
            factors = [0.8 * theirs["x"], 1.2 * theirs["x"]]
            is_near = any(abs(mine["x"] - min(max(f, BOUNDS[0]), BOUNDS[1])) < 1e-6 for f in factors)
            expect(is_near and mine["kind"] == theirs["kind"], f"trial {index} has {mine}, a copy of {theirs}")
        if not trial.get("attempts"):
            began = first_step(node, identity, index)
            expect(began >= LENGTH * (index // POPULATION), f"trial {index} began from step {began}, and its parent reached more")


@case(limit_s=200)
def the_worst_member_goes_on_as_a_copy_of_the_best(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    first, second = mesh.nodes
    identity = lab.submit(first, population(lab, resample_probability=0))
    final = wait_over(mesh, identity, 150)
    expect(final["state"] == "completed", f"it ended as {final['state']}")
    expect_lineages(second, identity, final)
    copies = [t for t in final["trials"] if "parent" in t and t["parent"] % POPULATION != t["index"] % POPULATION]
    expect(len(copies) == ROUNDS - 1, f"the copies are {copies}")
    why = second.run("why", f"{identity}/{copies[0]['index']}")
    expect(f"a copy of trial {copies[0]['parent']}" in why and "round 2 ended with" in why, f"why says {why}")
    expect("no further trials" in refusal(first, "extend", identity, "--max-trials", "40", code=1), "it was extended")


@case(limit_s=300)
def a_population_outlives_its_coordinators(lab):
    mesh = lab.mesh(3, slots="cpu:2")
    identity = lab.submit(mesh.nodes[0], population(lab, resample_probability=0))
    for done in (3, 7):
        def enough(done=done):
            experiment = mesh.living()[0].json("show", identity)["experiment"]
            return sum(t["state"] == "completed" for t in experiment["trials"]) >= done and experiment["coordinator_name"] and experiment
        experiment = wait_until(enough, 120, f"{done} trials over")
        victim = mesh.by_name(experiment["coordinator_name"])
        victim.kill_machine()
        wait_until(lambda: len(mesh.living()) == 2, 60, "the death")
        victim.start()
        mesh.wait_alive(3)
    final = wait_over(mesh, identity, 200)
    expect(final["state"] == "completed", f"it ended as {final['state']}")
    expect_lineages(mesh.living()[0], identity, final)
