"""Searches that stop trials early, on real daemons: what was decided is computed anew from what `shoal rungs` tells."""

import math
import signal

from lab import case, expect, show, wait_over, wait_until
from look import refusal

RUNGS = [1, 3, 9]


def replay(judged, rungs=len(RUNGS), divisor=3, smaller=False):
    """Each decision follows from those before it: shares no code with the daemon."""
    told = {}
    for item in judged:
        own = told.setdefault((item["bracket"], item["rung"]), [])
        metric = float(item["metric"])
        better = sum(other < metric if smaller else other > metric for other in own)
        own.append(metric)
        goes_on = not math.isnan(metric) and better < max(len(own) // divisor, 1)
        wanted = "stops" if math.isnan(metric) else "top" if item["rung"] == rungs - 1 else "goes on" if goes_on else "stops"
        expect(item["decision"] == wanted, f"{item} was decided, and it should be {wanted}")
        expect((item["place"], item["of"]) == (better + 1, len(own)), f"{item} stands at {better + 1} of {len(own)}")
    pairs = [(item["trial"], item["rung"]) for item in judged]
    expect(len(pairs) == len(set(pairs)), f"a rung of a trial is judged twice: {judged}")


def worker(lab):
    """Reports step 1 to 9; the metric of a trial is a number of its own, the same at every step. Leaves when it is told to."""
    return (f"m=$(( (SHOAL_TRIAL * 7 + 3) % 31 + 10 )); set --; for i in $(seq 9); do "
            f"set -- \"$@\" report:validation:accuracy:$i:0.$m save:$i:1000 flush rest:150; done; exec {lab.build}/scripted_worker \"$@\"")


def search(lab, trials, **more):
    searcher = {"name": "asha", "metric": "accuracy", "smaller_is_better": False, "max_trials": trials, "num_rungs": 3, "divisor": 3,
                "max_length": 9, **more}
    return {"name": "early", "entrypoint": worker(lab), "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": searcher}


def decisions(node, identity):
    return node.json("rungs", identity)["search"]["judged"]


@case(limit_s=240)
def a_search_stops_trials_early_and_each_stop_follows_from_its_log(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    first, second = mesh.nodes
    identity = lab.submit(first, search(lab, 12))
    final = wait_over(mesh, identity, 180)
    judged = decisions(first, identity)
    replay(judged)
    expect(decisions(second, identity) == judged, "two nodes tell of different decisions")
    ends = {t["index"]: t["state"] for t in final["trials"]}
    stopped = {item["trial"] for item in judged if item["decision"] == "stops"}
    expect(final["state"] == "completed" and len(ends) == 12, f"it ended as {final['state']} with {ends}")
    expect(all(ends[t] in ("stopped", "completed") for t in ends), f"trials ended as {ends}")
    whole = {item["trial"] for item in judged if item["decision"] == "top"}
    expect(whole and all(ends[t] == "completed" for t in whole), f"trials {whole} have their whole length, and ended as {ends}")
    expect(stopped and all(any(i["rung"] == rung for i in judged) for rung in range(3)), f"no trial was stopped, or none got on: {judged}")
    steps = sum(t["step"] for t in final["trials"])
    expect(steps < 12 * 9, f"the trials made all of their {steps} steps")
    early = next(item for item in judged if item["decision"] == "stops")
    why = second.run("why", f"{identity}/{early['trial']}")
    expect(f"stopped at rung {early['rung']} (step {early['step']}): {early['metric']:.4g}, " in why and " of " in why, f"why says {why}")
    table = second.run("rungs", identity)
    expect(table.splitlines()[0].split()[:2] == ["BRACKET", "RUNG"] and "12 of 12" in table, f"the table is {table}")
    other = lab.submit(first, {"name": "single", "entrypoint": "true", "searcher": {"name": "single", "metric": "loss"}})
    text = refusal(first, "rungs", other, code=1)
    expect(text == "shoal: single has no rungs: only the searchers asha, adaptive_asha and pbt compare trials on their way.", text)


@case(limit_s=300)
def a_search_goes_on_exactly_whatever_coordinator_dies(lab):
    """The coordinator's daemon is killed again and again; what earlier ones have decided stands."""
    mesh = lab.mesh(3, slots="cpu:2")
    identity = lab.submit(mesh.nodes[0], search(lab, 30))
    for kill in range(5):
        def grown():
            return len(decisions(mesh.nodes[0], identity)) >= 6 * (kill + 1)
        wait_until(grown, 60, "further decisions")
        name = show(mesh, identity)["coordinator_name"]
        coordinator = mesh.by_name(name) if name else mesh.nodes[0]
        coordinator.kill_daemon(signal.SIGKILL)
        coordinator.start()
        mesh.wait_alive(3)
    final = wait_over(mesh, identity, 180)
    judged = decisions(mesh.nodes[0], identity)
    replay(judged)
    expect(all(decisions(node, identity) == judged for node in mesh.nodes), "nodes tell of different decisions")
    ends = {t["index"]: t["state"] for t in final["trials"]}
    expect(len(ends) == 30 and all(state in ("stopped", "completed") for state in ends.values()), f"trials ended as {ends}")
