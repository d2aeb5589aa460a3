"""Searches that pause trials and promote them later, on real daemons: what was decided is computed anew from what `shoal rungs` tells."""

import math
import signal

from lab import case, expect, show, wait_over, wait_until
from look import refusal

RUNGS = [1, 3, 9]
DIVISOR = 3


class Climb:
    """A trial, as the decisions so far tell."""

    def __init__(self):
        self.results, self.state = [], "goes on"


def among_best(climbs, order, trial, rung):
    """Whether the trial's result is among the best third of the rung; `order`: the rung's trials in the order of their reports."""
    metric = climbs[trial].results[rung]
    before = sum(climbs[other].results[rung] > metric or (climbs[other].results[rung] == metric and order.index(other) < order.index(trial))
                 for other in order if other != trial)
    return before < len(order) // DIVISOR


def replay(judged, trials):
    """Each decision follows from those before it: shares no code with the daemon."""
    climbs, orders = {t: Climb() for t in range(trials)}, {}

    def due():
        return [t for t, climb in climbs.items() if climb.state == "pauses" and
                among_best(climbs, orders[len(climb.results) - 1], t, len(climb.results) - 1)]

    for item in judged:
        climb, rung, trial, decision = climbs[item["trial"]], item["rung"], item["trial"], item["decision"]
        if decision in ("goes on", "pauses", "stops", "top"):
            expect(due() == [], f"{due()} were to be promoted before {item}")
            if climb.state == "ends" and climb.results[rung:] == [-math.inf]:  # its result came later than its end: it takes that place
                climb.results.pop()
                orders[rung].remove(trial)
            expect(rung == len(climb.results) and climb.state in ("goes on", "promotes", "ends"), f"{item} is judged, and the trial {climb.state}")
            climb.results.append(float(item["metric"]))
            order = orders.setdefault(rung, [])
            order.append(trial)
            best = among_best(climbs, order, trial, rung)
            wanted = ("stops" if math.isnan(climb.results[-1]) else "top" if rung == len(RUNGS) - 1 else "goes on" if best else "pauses")
            expect(decision == wanted, f"{item} was decided, and it should be {wanted}")
            expect(item["of"] == len(order), f"{item} is one of {len(order)}")
        elif decision == "promotes":
            expect(trial in due(), f"{item} was promoted, and others are better")
        elif decision == "ends":  # over without another result: it trained on to its end while nobody coordinated
            was_paused = climb.state == "pauses"
            expect(climb.state in ("goes on", "promotes", "pauses") and rung == len(climb.results) - was_paused, f"{item} ends, and the trial {climb.state}")
            if not was_paused:  # the worst of the rung that it never reported at
                climb.results.append(-math.inf)
                orders.setdefault(rung, []).append(trial)
        else:
            late = [t for t, other in climbs.items() if other.state in ("goes on", "promotes", "pauses") and len(other.results) <= rung]
            expect(decision == "closes" and climb.state == "pauses" and late == [], f"{item}: {late} may still report at that rung")
        climb.state = decision
    expect(due() == [], f"{due()} are not promoted")
    return climbs


def worker(lab, steps=9, ms=150):
    """Reports the steps that it has not made yet, and saves each. The metric of a trial is a number of its own, the same at every step."""
    return (f"m=$(( (SHOAL_TRIAL * 7 + 3) % 31 + 10 )); set -- started; for i in $(seq {steps}); do "
            f'set -- "$@" past:$i:4 report:validation:accuracy:$i:0.$m save:$i:1000 flush rest:{ms}; done; exec {lab.build}/scripted_worker "$@"')


def search(lab, trials, **more):
    searcher = {"name": "asha", "metric": "accuracy", "smaller_is_better": False, "max_trials": trials, "num_rungs": 3, "divisor": DIVISOR,
                "max_length": 9, "stop_once": False, **more}
    return {"name": "climb", "entrypoint": worker(lab), "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": searcher}


def decisions(node, identity):
    return node.json("rungs", identity)["search"]["judged"]


def expect_ended(final, climbs, trials, runs_alone=False):
    """All are over, as was decided. `runs_alone`: a trial may have trained to its end while there was no coordinator to pause it."""
    ends = {t["index"]: t["state"] for t in final["trials"]}
    expect(final["state"] == "completed" and len(ends) == trials, f"it ended as {final['state']} with {ends}")
    for t, climb in climbs.items():
        wanted = ("completed", "stopped") if runs_alone or climb.state == "top" else ("stopped",)
        expect(ends[t] in wanted, f"trial {t} {climb.state}, and is {ends[t]}")


@case(limit_s=300)
def paused_trials_are_promoted_and_go_on_from_their_checkpoints(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    first, second = mesh.nodes
    identity = lab.submit(first, search(lab, 12))
    wait_until(lambda: any(i["decision"] == "pauses" for i in decisions(first, identity)), 60, "a paused trial")
    final = wait_over(mesh, identity, 240)
    judged = decisions(first, identity)
    climbs = replay(judged, 12)
    expect(decisions(second, identity) == judged, "two nodes tell of different decisions")
    expect_ended(final, climbs, 12)
    reached = [sum(len(climb.results) > rung for climb in climbs.values()) for rung in range(3)]
    expect(reached[0] == 12 and reached[1] >= 4 and reached[2] >= 1, f"the rungs were reached by {reached}")
    promoted = [i for i in judged if i["decision"] == "promotes"]
    expect(promoted, f"no trial was promoted: {judged}")
    for item in promoted:
        trial = next(t for t in final["trials"] if t["index"] == item["trial"])
        expect(len(trial["attempts"]) > 1, f"a promoted trial has one attempt only: {trial}")
        text = second.run("logs", f"{identity}/{item['trial']}")
        starts = [int(line.rsplit(" ", 1)[1]) for line in text.splitlines() if "begins from step" in line]
        expect(starts and starts[-1] >= RUNGS[item["rung"]], f"the last attempt of trial {item['trial']} began from {starts}")
    closed = next(i for i in judged if i["decision"] == "closes")
    why = second.run("why", f"{identity}/{closed['trial']}")
    expect(f"paused for good at rung {closed['rung']} (step {closed['step']}): " in why, f"why says {why}")
    table = second.run("rungs", identity)
    expect("PAUSED" in table.splitlines()[0] and "12 of 12" in table, f"the table is {table}")


@case(limit_s=240)
def a_paused_trial_says_so_and_a_user_can_let_it_go_on(lab):
    """With a divisor that no rung can fill, all trials stay paused until the last one has reported."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    config = search(lab, 3, divisor=100, max_concurrent_trials=1)
    config["entrypoint"] = f"test $SHOAL_TRIAL -lt 2 || exec {lab.build}/scripted_worker stops; " + worker(lab)
    identity = lab.submit(node, config)

    def state_of(trial):
        return next((t["state"] for t in show(mesh, identity)["trials"] if t["index"] == trial), None)

    wait_until(lambda: state_of(0) == "paused" and state_of(1) == "paused" and state_of(2) == "running", 90, "two paused trials")
    counts = node.json("ls")["experiments"][0]["trials"]
    expect(counts["paused"] == 2 and counts["queued"] == 0, f"the counts are {counts}")
    why = node.run("why", f"{identity}/0")
    expect("paused at rung 0 (step 1): 0.13, 2nd of 2, 0 go on" in why, f"why says {why}")
    expect(why.count("rung 0") == 1, f"why says it twice: {why}")
    text = refusal(node, "retry", f"{identity}/0", code=1)
    expect("Trial 0 is paused by its search" in text, text)
    node.run("stop", f"{identity}/0")
    wait_until(lambda: state_of(0) == "stopped", 30, "the stop")
    node.run("retry", f"{identity}/0")
    node.run("stop", f"{identity}/2")
    final = wait_over(mesh, identity, 120)
    ends = {t["index"]: t["state"] for t in final["trials"]}
    judged = decisions(node, identity)
    expect(ends[0] in ("completed", "stopped") and ends[1] == "stopped" and ends[2] == "stopped", f"trials ended as {ends}")
    expect(any(i["trial"] == 0 and i["rung"] == 1 for i in judged), f"the retried trial was not judged again: {judged}")
    expect(any(i["trial"] == 2 and i["decision"] == "ends" for i in judged), f"the stopped trial has not ended: {judged}")


@case(limit_s=300)
def promotions_stand_when_the_coordinator_dies(lab):
    mesh = lab.mesh(3, slots="cpu:2")
    identity = lab.submit(mesh.nodes[0], search(lab, 18))
    for kill in range(2):
        wait_until(lambda kill=kill: len(decisions(mesh.nodes[0], identity)) >= 8 * (kill + 1), 60, "further decisions")
        name = show(mesh, identity)["coordinator_name"]
        coordinator = mesh.by_name(name) if name else mesh.nodes[0]
        coordinator.kill_daemon(signal.SIGKILL)
        coordinator.start()
        mesh.wait_alive(3)
    final = wait_over(mesh, identity, 240)
    judged = decisions(mesh.nodes[0], identity)
    climbs = replay(judged, 18)
    expect(all(decisions(node, identity) == judged for node in mesh.nodes), "nodes tell of different decisions")
    expect_ended(final, climbs, 18, runs_alone=True)
