"""Searchers that draw a trial's values from what other trials have reached, on real daemons."""

import signal
import statistics

from case_search import decisions, replay
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
    waiting = first.json("show", identity)["experiment"]["trials"][59]
    expect(waiting["hyperparameters"] is None, f"a trial that has not begun has values already: {waiting}")
    expect("queued" in first.run("show", identity), "show tells of no trial that waits")
    final = wait_over(mesh, identity, 200)
    ends = [t["state"] for t in final["trials"]]
    expect(ends == ["completed"] * 60, f"trials ended as {ends}")
    found = losses(final)
    # A uniform draw has a loss of 0.26 in the mean, and the best of 60 one of 0.005.
    expect(statistics.median(found[40:]) < 0.06, f"the last trials were drawn no better than at random: {found}")
    expect(min(found) < 0.005, f"the best of 60 trials has a loss of {min(found)}")
    seen = {node: [t["hyperparameters"] for t in node.json("show", identity)["experiment"]["trials"]] for node in (first, second)}
    expect(seen[first] == seen[second], f"two nodes tell of different values: {seen}")
    why = second.run("why", f"{identity}/20")
    expect("its result for the search: " in why and " by then" in why, f"why says {why}")
    text = refusal(first, "rungs", identity, code=1)
    expect(text == "shoal: drawn has no rungs: only the searchers asha, adaptive_asha and pbt compare trials on their way.", text)


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


STEPS = ("import os, time; x, y = float(os.environ['SHOAL_HP_X']), float(os.environ['SHOAL_HP_OPT__Y'])\n"
         "for step in range(1, 10):\n"
         "    print(f'::shoal metric validation loss={(x - 0.3) ** 2 + (y - 0.8) ** 2 + 1 / step:.12g} step={step}', flush=True)\n"
         "    time.sleep(0.05)\n")


@case(limit_s=300)
def trials_that_are_stopped_early_are_drawn_where_others_did_well(lab):
    """asha with the sampler tpe. The coordinator dies midway."""
    mesh = lab.mesh(3, slots="cpu:2")
    config = search(60, name="asha", sampler="tpe", num_rungs=3, divisor=3, max_length=9, n_startup_trials=6)
    identity = lab.submit(mesh.nodes[0], {**config, "entrypoint": ["python3", "-c", STEPS]})
    wait_until(lambda: len(decisions(mesh.nodes[0], identity)) >= 20, 90, "decisions")
    name = show(mesh, identity)["coordinator_name"]
    coordinator = mesh.by_name(name) if name else mesh.nodes[0]
    coordinator.kill_daemon(signal.SIGKILL)
    coordinator.start()
    mesh.wait_alive(3)
    final = wait_over(mesh, identity, 200)
    judged = decisions(mesh.nodes[0], identity)
    replay(judged, smaller=True)
    values = [t["hyperparameters"] for t in final["trials"]]
    losses_of_all = [(v["x"] - 0.3) ** 2 + (v["opt"]["y"] - 0.8) ** 2 for v in values]
    for item in judged:
        wanted = losses_of_all[item["trial"]] + 1 / item["step"]
        expect(abs(float(item["metric"]) - wanted) < 1e-9, f"trial {item['trial']} was judged with other values than {values[item['trial']]}")
    expect(any(i["decision"] == "stops" for i in judged), "no trial was stopped early")
    expect(statistics.median(losses_of_all[40:]) < 0.08, f"the last trials were drawn no better than at random: {losses_of_all}")
