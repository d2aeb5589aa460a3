"""Searchers that draw a trial's values from what other trials have reached, on real daemons."""

import signal
import statistics

from lab import case, expect, show, wait_over, wait_until
from look import refusal

PROGRAM = ("import os; x, y = float(os.environ['SHOAL_HP_X']), float(os.environ['SHOAL_HP_OPT__Y'])\n"
           "print(f'::shoal metric validation loss={(x - 0.3) ** 2 + (y - 0.8) ** 2:.12g} step=1', flush=True)\n")


def search(trials, **more):
    return {"name": "drawn", "entrypoint": ["python3", "-c", PROGRAM], "metrics_from_output": True,
            "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1},
                                "opt": {"y": {"type": "double", "minval": 0, "maxval": 1}}},
            "searcher": {"name": "tpe", "metric": "loss", "max_trials": trials, **more}}


def losses(final):
    """Of each trial, by its number: the loss of the values that are shown, which is the one that the program has reported."""
    found = []
    for trial in final["trials"]:
        values, reported = trial["hyperparameters"], trial["metrics"]["validation"]["loss"]
        loss = (values["x"] - 0.3) ** 2 + (values["opt"]["y"] - 0.8) ** 2
        expect(abs(loss - reported) < 1e-9, f"trial {trial['index']} ran with other values than {values}: it reports {reported}")
        found.append(loss)
    return found


@case(limit_s=240)
def tpe_draws_where_earlier_trials_did_well(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    first, second = mesh.nodes
    identity = lab.submit(first, search(60, max_concurrent_trials=4))
    final = wait_over(mesh, identity, 200)
    ends = [t["state"] for t in final["trials"]]
    expect(ends == ["completed"] * 60, f"trials ended as {ends}")
    found = losses(final)
    # A uniform draw has a loss of 0.26 in the mean, and the best of 60 one of 0.005.
    expect(statistics.median(found[40:]) < 0.06, f"the last trials were drawn no better than at random: {found}")
    expect(min(found) < 0.005, f"the best of 60 trials has a loss of {min(found)}")
    seen = {node: [t["hyperparameters"] for t in node.json("show", identity)["experiment"]["trials"]] for node in (first, second)}
    expect(seen[first] == seen[second], f"two nodes tell of different values: {seen}")
    text = refusal(first, "rungs", identity, code=1)
    expect(text == "shoal: drawn has no rungs: only the searchers asha and adaptive_asha stop trials early.", text)


@case(limit_s=300)
def tpe_goes_on_exactly_whatever_coordinator_dies(lab):
    """The coordinator's daemon is killed again and again: each trial runs with the values that were drawn for it, and no draw is lost."""
    mesh = lab.mesh(3, slots="cpu:2")
    identity = lab.submit(mesh.nodes[0], search(60, n_startup_trials=5))
    for kill in range(4):
        def grown():
            return sum(t["state"] == "completed" for t in show(mesh, identity)["trials"]) >= 12 * (kill + 1)
        wait_until(grown, 60, "further trials")
        before = {t["index"]: t["hyperparameters"] for t in show(mesh, identity)["trials"] if t["state"] == "completed"}
        name = show(mesh, identity)["coordinator_name"]
        coordinator = mesh.by_name(name) if name else mesh.nodes[0]
        coordinator.kill_daemon(signal.SIGKILL)
        coordinator.start()
        mesh.wait_alive(3)
        after = {t["index"]: t["hyperparameters"] for t in show(mesh, identity)["trials"]}
        expect(all(after[t] == before[t] for t in before), "completed trials have other values than before")
    final = wait_over(mesh, identity, 180)
    ends = [t["state"] for t in final["trials"]]
    expect(ends == ["completed"] * 60, f"trials ended as {ends}")
    found = losses(final)
    expect(statistics.median(found[40:]) < 0.06, f"the last trials were drawn no better than at random: {found}")
