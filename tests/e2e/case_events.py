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
