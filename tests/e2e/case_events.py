"""What happened on a node: as sentences and as kinds and subjects, from any node, over restarts."""

import json
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

from door import DOOR, Door
from lab import case, expect, show, wait_over, wait_until
from look import refusal

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "train/python"))
from shoal._msgpack import pack, unpack

ONE = {"name": "one", "entrypoint": "true", "searcher": {"name": "single", "metric": "a"}}


def kinds(events):
    return {event["kind"] for event in events}


@case(limit_s=120)
def another_node_tells_its_events(lab):
    """The events of any node from any node, with their kinds and subjects; one that follows goes on, and hears of a restart's."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = lab.submit(birch, ONE)
    wait_over(mesh, identity, 60)
    own = birch.json_lines("events")
    told = alder.json_lines("events", "--node", "birch")
    expect(told[:len(own)] == own, f"birch tells {own}, and alder of birch {told}")
    expect({"node.started", "experiment.submitted", "node.alive"} <= kinds(told), f"kinds: {kinds(told)}")
    submitted = next(event for event in told if event["kind"] == "experiment.submitted")
    expect(submitted["experiment"] == identity and submitted["text"] == "one is submitted", f"{submitted}")
    begun = [event for node in ("alder", "birch") for event in
             alder.json_lines("events", "--node", node, "--kind", "trial", "--experiment", identity)]
    expect({"trial.started", "trial.completed"} <= kinds(begun), f"of the trial: {begun}")
    expect(all(event["trial"] == 0 and event["experiment"] == identity for event in begun), f"{begun}")
    after = alder.json_lines("events", "--node", "birch", "--from", str(told[3]["seq"]))
    expect(after[:len(told) - 3] == told[3:], "--from of another node gives other events")
    expect("is no kind" in refusal(alder, "events", "--kind", "nonsense", code=2), "a wrong kind is taken")
    expect(refusal(alder, "events", "--node", "0" * 32, code=4), "a node that is none is taken")

    follower = subprocess.Popen([f"{lab.build}/shoal", "--dir", alder.dir, "events", "--node", "birch", "--kind", "slot", "--follow",
                                 "--json"], stdout=subprocess.PIPE, text=True)
    lab.at_end.append(follower.kill)
    birch.run("withhold", "0")
    expect(json.loads(follower.stdout.readline())["kind"] == "slot.withheld", "the first event is not that of the slot")
    birch.run("withhold", "--return")
    expect(json.loads(follower.stdout.readline())["kind"] == "slot.returned", "the second event is not that of the slot")
    follower.kill()

    last = told[-1]["seq"]
    birch.kill_daemon(signal.SIGKILL)
    wait_until(lambda: "not alive" in refusal(alder, "events", "--node", "birch", code=1), 30, "birch to be known dead")
    birch.start()
    later = wait_until(lambda: alder.json_lines("events", "--node", "birch", "--from", str(last + 1), check=False), 30, "birch's events")
    numbers = [event["seq"] for event in later]
    expect(min(numbers) > last and "node.started" in kinds(later) and numbers == sorted(set(numbers)), f"after {last}: {later}")


def state_of(viewer, name, slot=0):
    return next(row["state"] for row in viewer.json("slots")["slots"] if row["node_name"] == name and row["index"] == slot)


@case(limit_s=90)
def slots_of_another_node_are_withheld(lab):
    """As if its owner had asked there; what that node refuses is refused, and a node that is not there is told of."""
    mesh = lab.mesh(2, slots="cpu:2")
    alder, birch = mesh.nodes
    said = alder.json("withhold", "1", "--node", "birch", "--for", "1h")
    expect(said["slots"] == [1] and said["stored_on"] == 2 and said["node"] == birch.json("status")["node"]["id"], f"{said}")
    expect(state_of(birch, "birch", 1) == "withheld" and state_of(birch, "birch") == "free", "birch does not withhold its slot 1")
    expect(state_of(birch, "alder", 1) == "free", "alder withholds a slot of its own")
    wait_until(lambda: state_of(alder, "birch", 1) == "withheld", 20, "alder to know")
    expect("slot 1 of node" in alder.run("withhold", "1", "--node", "birch", "--return"), "the sentence has no node")
    expect(state_of(birch, "birch", 1) == "free", "birch still withholds its slot")
    expect("birch: This node has no such slot" in refusal(alder, "withhold", "7", "--node", "birch", code=4), "slot 7")
    told = alder.json_lines("events", "--node", "birch", "--kind", "slot")
    expect([event["kind"] for event in told] == ["slot.withheld", "slot.returned"] and told[0]["slot"] == 1, f"{told}")
    birch.kill_daemon(signal.SIGKILL)
    wait_until(lambda: "not alive" in refusal(alder, "withhold", "--node", "birch", code=1), 30, "birch to be known dead")


REPORTS = """for i in $(seq 1 12); do echo "::shoal metric validation loss=$i step=$i"; sleep 0.3; done"""


@case(limit_s=120)
def metrics_are_followed_from_another_node(lab):
    """Each point once, as it comes, also of a trial that began later, until the experiment is over."""
    mesh = lab.mesh(2, slots="cpu:1")
    identity = lab.submit(mesh.nodes[0], {
        "name": "reports", "entrypoint": "bash report.sh", "metrics_from_output": True,
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 4}}, files={"report.sh": REPORTS})
    followers = [subprocess.Popen([f"{lab.build}/shoal", "--dir", node.dir, "metrics", what, "--follow", "--json"], stdout=subprocess.PIPE,
                                  text=True) for node in mesh.nodes for what in (identity, f"{identity}/0")]
    lab.at_end += [follower.kill for follower in followers]
    first = json.loads(followers[1].stdout.readline())
    expect(first["trial"] == 0 and first["step"] == 1, f"the first point is {first}")
    state = mesh.nodes[0].json("show", identity)["experiment"]["state"]
    expect(state == "running", f"the first point came when the experiment was {state}")
    wait_over(mesh, identity, 60)
    told = [[json.loads(line) for line in follower.stdout] for follower in followers]
    expect([follower.wait(20) for follower in followers] == [0] * 4, "a follower failed")
    told[1].insert(0, first)

    def keys(points):
        return sorted((point["trial"], point["step"]) for point in points)

    for number, points in enumerate(told):
        trials = range(1 if number % 2 else 4)
        expect(keys(points) == [(trial, step) for trial in trials for step in range(1, 13)], f"follower {number} was told {keys(points)}")
    late = mesh.nodes[1].json_lines("metrics", identity, "--follow")
    expect(keys(late) == keys(told[0]), "one that comes late gets other points")
    expect("goes with neither" in refusal(mesh.nodes[0], "metrics", identity, "--follow", "--csv", code=2), "--csv is taken")


@case(limit_s=90)
def the_door_streams_points_and_events_of_other_nodes(lab):
    """As the local socket does: new points of a trial, and events of another node with that node's numbers to go on from."""
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    alder, birch = mesh.nodes
    door = Door(alder)
    identity = lab.submit(birch, {
        "name": "reports", "entrypoint": "bash report.sh", "metrics_from_output": True,
        "searcher": {"name": "single", "metric": "loss"}}, files={"report.sh": REPORTS})
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "the trial to run")
    steps = []
    for _, event, data in door.stream(f"/experiments/{identity}/trials/0/metrics?follow=true"):
        steps += [point["step"] for point in data.get("points", [])]
        if event == "end":
            break
    expect(steps == list(range(1, 13)), f"the stream has the steps {steps}")
    whole = door.document(f"/experiments/{identity}/metrics")["points"]
    late = door.document(f"/experiments/{identity}/metrics?since_ms={whole[6]['wall_ms']}")["points"]
    expect(0 < len(late) < 12 and late == [point for point in whole if point["wall_ms"] >= whole[6]["wall_ms"]], f"since the 7th: {late}")
    node = birch.json("status")["node"]["id"]
    told = door.document(f"/events?node={node}")["events"]
    middle = told[1]["seq"]
    stream = door.stream(f"/events?node={node}&follow=true&kind=node", Last_Event_ID=str(middle))
    rest = next(data["events"] for _, _, data in stream if data.get("events"))
    expect(rest == [event for event in told if event["seq"] > middle and event["kind"].startswith("node.")], f"from {middle}: {rest}")
    stream.close()
    said = door.post(f"/api/v1/nodes/{node}/withhold", {"slots": [0]}).json()
    expect(said["node"] == node and state_of(birch, "birch") in ("withheld", "releasing"), f"{said}")


def frames(node, op, **arguments):
    """The documents of a request of the local socket, each joined from its parts."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(node.dir / "shoald.sock"))
    body = pack({"v": 1, "id": 1, "op": op, **arguments})
    connection.sendall(struct.pack(">I", len(body)) + body)
    whole, end = {}, False
    while not end:
        count = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))[0]
        reply = unpack(connection.recv(count, socket.MSG_WAITALL))[0]
        expect(reply["ok"], f"{op} is refused: {reply}")
        trials = whole.get("experiment", {}).get("trials", []) + reply.get("experiment", {}).get("trials", [])
        whole = reply | whole | {"experiment": reply.get("experiment", {}) | whole.get("experiment", {}) | {"trials": trials}}
        end = reply["end"]
        if not reply.get("more"):
            yield whole
            whole = {}
    connection.close()


@case(limit_s=120)
def deltas_of_a_watched_experiment_add_up(lab):
    """Of many trials those that have changed: fewer rows than there are trials, and in the end what show has."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    trials = 300
    identity = lab.submit(node, {"name": "many", "entrypoint": "sleep 0.3",
                                 "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
                                 "searcher": {"name": "random", "metric": "loss", "max_trials": trials}})
    table, deltas, rows = {}, 0, 0
    for document in frames(node, "watch", experiment=identity, deltas=True):
        shown = document["experiment"]["trials"]
        expect(document.get("delta") or len(shown) == trials, f"a whole document has {len(shown)} trials")
        deltas += document.get("delta", False)
        rows += len(shown) if document.get("delta") else 0
        table |= {trial["index"]: trial for trial in shown}
        if deltas == 5:
            node.run("cancel", identity)
    expect(deltas >= 5 and rows < deltas * trials / 2, f"{deltas} deltas had {rows} rows of {trials} trials")
    whole = next(frames(node, "show", experiment=identity))["experiment"]["trials"]
    expect([table[index]["state"] for index in range(trials)] == [trial["state"] for trial in whole], "the sum differs from show")
    return f"{deltas} deltas of {rows} rows"
