"""Keys that are shut out: their work goes on elsewhere, and they do not come back."""

import json

from lab import case, expect, wait_until
from look import events_of, refusal, workers_of


def states(node):
    return {row["name"]: row["state"] for row in node.json("nodes")["nodes"]}


def place(mesh, identity, viewer=None):
    """The node that the trial's worker is on, as `viewer` sees it (an evicted one hears nothing any more), or None."""
    trial = (viewer or mesh.nodes[0]).json("show", identity)["experiment"]["trials"][0]
    return mesh.by_name(trial["slots"][0]["node_name"]) if trial["state"] == "running" and trial["slots"] else None


@case(limit_s=120)
def evict_a_node_with_a_worker(lab):
    mesh = lab.mesh(["alder", "birch", "cedar"], slots="cpu:1")
    alder, birch, cedar = mesh.nodes
    identity = lab.submit(alder, {"name": "evicted", "entrypoint": "exec sleep 600",
                                  "searcher": {"name": "single", "metric": "accuracy"}})
    victim = wait_until(lambda: place(mesh, identity), 20, "the trial to run")
    evicted = {pid for pid, _ in wait_until(lambda: workers_of(identity), 20, "its worker")}
    others = [node for node in mesh.nodes if node is not victim]
    wait_until(lambda: not others[0].json("status")["syncing"], 20, f"{others[0].name} to be in step")
    theirs = next(word for word in victim.run("invite").split() if word.startswith("shoal1-"))

    refusal(others[0], "evict", "nobody", code=4)
    refusal(others[0], "evict", others[0].name, code=2)
    done = json.loads(others[0].run("evict", victim.name, "--yes", "--json"))
    expect(done["name"] == victim.name and done["stored_on"] == 2, f"{done}")
    for node in others:
        wait_until(lambda: states(node)[victim.name] == "evicted", 5, f"{node.name} to show it evicted")
    wait_until(lambda: place(mesh, identity, others[0]) in others, 20, "the trial to go on elsewhere")
    wait_until(lambda: (left := {pid for pid, _ in workers_of(identity)}) and not left & evicted, 20, "the evicted node to end its worker")
    wait_until(lambda: any("OUT OF THE MESH" in text for text in events_of(victim)), 10, "the evicted node to say so")
    expect(states(victim)[victim.name] == "evicted", f"it shows itself as {states(victim)}")
    said = refusal(victim, "invite", code=1)
    expect("evicted" in said, said)
    shown = {row["node_name"] for row in others[0].json("slots")["slots"]}
    expect(victim.name not in shown, "its slot is still listed")

    # What it invited is void, and so is its key: neither opens a door, not even after a restart of everybody.
    stranger = lab.mesh(["dogwood"], start=False).nodes[0]
    expect(refusal(stranger, "join", theirs, code=None) != "", "the invite of an evicted node let somebody in")
    for node in mesh.nodes:
        node.kill_daemon()
    for node in mesh.nodes:
        node.start()
    for node in others:
        wait_until(lambda: node.json("status")["nodes_alive"] == 2, 30, "the others to find each other")
    expect(states(victim)[victim.name] == "evicted" and victim.json("status")["nodes_alive"] == 0, "it came back")
    for node in others:
        expect(states(node)[victim.name] == "evicted", f"{node.name} has forgotten the eviction")
    running = wait_until(lambda: place(mesh, identity, others[0]), 30, "the trial to run on")
    expect(running in others, f"it runs on {running.name}")

    # The machine comes back with a new key.
    victim.kill_machine()
    fresh = lab.mesh([victim.name], start=False).nodes[0]
    fresh.run("join", others[0].run("invite").split()[-1], "--name", victim.name)
    fresh.start()
    wait_until(lambda: fresh.json("status")["nodes_alive"] == 3, 20, "the same machine to be back with a new key")


@case(limit_s=60)
def revoke_an_invite(lab):
    alder = lab.mesh(["alder"]).nodes[0]
    token = alder.run("invite").split()[-1]
    rows = alder.json("invite", "--list")["invites"]
    expect(len(rows) == 1 and rows[0]["state"] == "good", f"{rows}")
    refusal(alder, "invite", "--revoke", "0000", code=4)
    done = alder.json("invite", "--revoke", rows[0]["id"][:6])
    expect(done["invite"] == rows[0]["id"], f"{done}")
    stranger = lab.mesh(["birch"], start=False).nodes[0]
    expect(refusal(stranger, "join", token, code=None) != "", "a revoked invite let somebody in")
    expect([row["state"] for row in alder.json("invite", "--list")["invites"]] == ["revoked"], "it is not shown as revoked")
    other = alder.run("invite").split()[-1]
    alder.run("invite", "--revoke", other)
    expect({row["state"] for row in alder.json("invite", "--list")["invites"]} == {"revoked"}, "nor is the other one")


@case(limit_s=60)
def an_absent_node_learns_that_it_was_evicted(lab):
    mesh = lab.mesh(["alder", "birch", "cedar"], slots="cpu:1")
    alder, birch, cedar = mesh.nodes
    wait_until(lambda: not birch.json("status")["syncing"], 20, "birch to be in step")
    cedar.kill_daemon()
    birch.run("evict", "cedar", "--yes")
    wait_until(lambda: states(alder)["cedar"] == "evicted", 10, "everybody to know")
    for node in (alder, birch):  # who has never seen it alive in this life tells it, too
        node.kill_daemon()
        node.start()
    cedar.start()
    wait_until(lambda: states(cedar)["cedar"] == "evicted", 30, "the evicted node to hear of it")
    expect("cedar" not in alder.run("slots"), "its slot is listed")
    said = refusal(cedar, "evict", "alder", "--yes", code=1)
    expect("evicted" in said and "join" in said, said)
    expect(alder.json("status")["nodes_alive"] == 2, "it counts as alive")
    cedar.run("leave")  # ends the daemon, as everywhere
