"""An experiment that is deleted is gone: from all nodes, from those that were away, and for ever."""

import signal

from lab import case, expect, wait_until
from look import refusal


def listed(node):
    return [experiment["id"] for experiment in node.json("ls")["experiments"]]


def leased(node):
    return [slot for slot in node.json("slots")["slots"] if slot["state"] != "free"]


@case(limit_s=90)
def a_deleted_experiment_does_not_come_back(lab):
    """birch is away when a running experiment is deleted; it comes back with its disk and with its worker still alive."""
    mesh = lab.mesh(["alder", "birch", "cedar"])
    alder, birch, cedar = mesh.nodes
    identity = lab.submit(alder, {"name": "gone", "entrypoint": "sleep 1000",
                                  "searcher": {"name": "random", "metric": "accuracy", "max_trials": 9},
                                  "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}}})
    wait_until(lambda: all(identity in listed(node) for node in mesh.nodes), 10, "every node to know it")
    wait_until(lambda: len(leased(alder)) == len(alder.json("slots")["slots"]), 30, "a worker in every slot")
    birch.kill_daemon(signal.SIGKILL)
    wait_until(lambda: cedar.json("status")["nodes_alive"] == 2, 20, "birch to be missed")
    said = cedar.run("delete", identity, "--yes")
    expect(said == f"{identity} deleted, stored on 2 nodes\n", f"delete says: {said}")
    wait_until(lambda: identity not in listed(alder), 10, "alder to forget it")
    other, unknown = lab.submit(alder, {"name": "stays", "entrypoint": "sleep 1000",
                                        "searcher": {"name": "single", "metric": "accuracy"}}), "f" * 16
    said = refusal(alder, "delete", other, unknown, code=4)
    expect(unknown in said and other in listed(alder), f"it is gone, or the sentence names nothing: {said}")
    alder.run("delete", other)
    said = alder.run("delete", identity)
    expect(said.startswith(f"{identity} had been deleted already"), f"delete says: {said}")
    birch.start()
    wait_until(lambda: identity not in listed(birch) and not leased(birch), 20, "birch to forget it too")
    for node in (alder, cedar):
        node.kill_daemon(signal.SIGKILL)
        node.start()
    for node in mesh.nodes:
        wait_until(lambda: identity not in listed(node) and not leased(node), 20, f"{node.name} without it")
    wait_until(lambda: len({node.json("status")["records"] for node in mesh.nodes}) == 1, 10, "the same records everywhere")
