"""What happened on a node: as sentences and as kinds and subjects, from any node, over restarts."""

import json
import signal
import subprocess

from lab import case, expect, wait_over, wait_until
from look import refusal

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
