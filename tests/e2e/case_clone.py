"""A data directory that was copied: two daemons with one key."""

import json
import shutil

from lab import case, expect, wait_until
from look import events_of, workers_of

TWICE = "KEY IS IN USE TWICE"


def rows(node):
    return {row["id"]: row for row in node.json("nodes")["nodes"]}


def running(node, identity):
    return [trial for trial in node.json("show", identity)["experiment"]["trials"] if trial["state"] == "running"]


@case(limit_s=120)
def a_copied_directory_becomes_another_node(lab):
    mesh = lab.mesh(["alder", "birch", "cedar"], slots="cpu:1")
    alder, birch, _ = mesh.nodes
    identity = lab.submit(alder, {"name": "cloned", "entrypoint": "exec sleep 600", "hyperparameters": {"x": {"type": "int", "minval": 1, "maxval": 9}},
                                  "searcher": {"name": "random", "metric": "accuracy", "max_trials": 3}})
    wait_until(lambda: len(running(alder, identity)) == 3, 30, "three trials to run")
    key = birch.json("status")["node"]["id"]
    spare = lab.mesh(["spare"], start=False).nodes[0]
    birch.kill_daemon()
    shutil.rmtree(spare.dir, ignore_errors=True)
    shutil.copytree(birch.dir, spare.dir, ignore=shutil.ignore_patterns("*.sock"))
    birch.start()
    spare.start()
    pair = [birch, spare]
    wait_until(lambda: [node for node in pair if node.json("status")["was"] is not None], 60, "one of the two to become another node")
    other = next(node for node in pair if node.json("status")["was"] is not None)
    keeper = next(node for node in pair if node is not other)
    expect(keeper.json("status")["node"]["id"] == key and keeper.json("status")["was"] is None, "the other one has changed, too")
    expect(other.json("status")["was"]["id"] == key and other.json("status")["node"]["id"] != key, other.run("status"))
    for node in pair:
        expect(any(TWICE in text for text in events_of(node)), f"{node.name} says nothing: {events_of(node)}")
    expect("whose key another daemon has" in other.run("status"), other.run("status"))
    for node in [*mesh.nodes, spare]:
        wait_until(lambda: node.json("status")["nodes_alive"] == 4, 30, f"{node.name} to see four nodes")
    theirs = rows(alder)
    expect(theirs[key]["address"] == keeper.json("status")["address"], f"{theirs}")
    expect(theirs[other.json("status")["node"]["id"]]["voucher"] == key, f"{theirs}")
    wait_until(lambda: len(running(alder, identity)) == 3 and len(workers_of(identity)) == 3, 60, "three trials to run again")

    # It is what it has become.
    other.kill_daemon()
    other.start()
    wait_until(lambda: other.json("status")["nodes_alive"] == 4, 30, "it to come back")
    expect(json.loads(other.run("status", "--json"))["was"]["id"] == key, "it has forgotten what it was")
    wait_until(lambda: keeper.json("status")["twin"] is None, 20, "the other one to forget it")
