"""Cancels, pauses and deletions that meet a trial while it starts."""

import time

from case_owners import slots_of
from lab import case, expect, show, wait_until
from look import workers_of

POLITE = "exec sleep 600"
STUBBORN = "trap '' TERM; while :; do sleep 0.2; done"


def wishes(node, identity, way):
    if way == "delete":
        node.run("delete", identity, "--yes")
        return
    for wish in {"cancel": ["cancel"], "pause": ["pause", "cancel"], "resume": ["pause", "resume", "cancel"]}[way]:
        node.run(wish, identity)


def rounds_of_cancels(lab, rounds):
    mesh = lab.mesh(2, slots="cpu:1")
    node = mesh.nodes[0]
    for number in range(rounds):
        way = ["cancel", "pause", "resume", "delete"][number % 4]
        is_stubborn = number // 4 % 2 == 1  # each way meets both kinds of programs
        identity = lab.submit(node, {
            "name": f"round{number}", "entrypoint": STUBBORN if is_stubborn else POLITE, "preemption_timeout": 3600,
            "resources": {"slots_per_trial": 2}, "searcher": {"name": "single", "metric": "accuracy"}})
        time.sleep(lab.random.uniform(0, 0.6))  # where in its start it is met is the seed's
        wishes(node, identity, way)
        wait_until(lambda: not workers_of(identity), 15, f"the workers of round {number} ({way}) to be ended")
        wait_until(lambda: all(set(slots_of(node, n.name).values()) == {"free"} for n in mesh.nodes), 15,
                   f"the slots of round {number} ({way}) to be free")
        if way != "delete":
            state = show(mesh, identity)["state"]
            expect(state == "cancelled", f"round {number} ({way}) is {state}")


@case(limit_s=300)
def a_cancel_meets_a_trial_anywhere_in_its_start(lab):
    rounds_of_cancels(lab, 16)


@case(limit_s=120)
def a_cancel_does_not_wait_for_code_on_its_way(lab):
    """At 200 kB/s the code takes minutes to come."""
    mesh = lab.mesh(["alder", "birch"], start=False, slots="cpu:1")
    alder, birch = mesh.nodes
    alder.slots = "none"
    alder.options = ["--bandwidth", "200000"]
    mesh.start()
    files = {"data.txt": lab.random.randbytes(30_000_000).hex()}
    identity = lab.submit(alder, {"name": "large", "entrypoint": POLITE, "searcher": {"name": "single", "metric": "accuracy"}}, files)
    wait_until(lambda: set(slots_of(birch, "birch").values()) == {"leased"}, 30, "birch to prepare the trial")
    alder.run("cancel", identity)
    wait_until(lambda: set(slots_of(birch, "birch").values()) == {"free"}, 30, "the slot to be free while the code is on its way")
    expect(not workers_of(identity), "the trial has begun")


@case(limit_s=900, whole=True)
def sixty_cancels_meet_trials_anywhere_in_their_start(lab):
    rounds_of_cancels(lab, 60)
