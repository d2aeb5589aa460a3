"""Owners take their slots back, and nodes are emptied, under running trials: work moves, and nothing is run again."""

import getpass
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from case_survival import expect_each_once, single, wait_step
from lab import Skip, case, expect, read_steps, show, trial_states, wait_over, wait_until
from look import events_of, refusal

LENGTH = {"hidden": 64, "epochs": 24}
STEPS = 24 * 55
LONG = 4  # so many times that: a drained coordinator gives away only what goes on until others have been up for five seconds


def slots_of(viewer, name):
    return {slot["index"]: slot["state"] for slot in viewer.json("slots")["slots"] if slot["node_name"] == name}


def node_row(viewer, name):
    return next(node for node in viewer.json("nodes")["nodes"] if node["name"] == name)


def hosts(mesh, identity):
    return {slot["node_name"] for slot in show(mesh, identity)["trials"][0]["slots"]}


def expect_moved(mesh, log, identity, ranks, steps=STEPS):
    """Completed by a second attempt that began where the first one had saved, and no failure was counted."""
    trial = wait_over(mesh, identity, 120 * steps / STEPS)["trials"][0]
    expect(trial["attempt"] == 2 and trial["restarts"] == 0, f"not completed by the second attempt: {trial}")
    expect_each_once(log, identity, ranks, steps)


@case(limit_s=150)
def withhold_a_slot_under_a_group(lab):
    """One rank's slot is taken back: the group saves and goes on elsewhere; the slot stays withheld over a daemon's restart."""
    mesh = lab.mesh(3, slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], single(log, **LENGTH) | {"resources": {"slots_per_trial": 2}})
    wait_step(log, identity, 60)
    owner = mesh.by_name(sorted(hosts(mesh, identity))[-1])
    viewer = next(node for node in mesh.nodes if node is not owner)
    began = time.monotonic()
    said = owner.json("withhold", "0")
    expect(said["slots"] == [0] and said["stored_on"] == 2, f"the answer to withhold is {said}")
    expect(slots_of(owner, owner.name)[0] in ("releasing", "withheld"), "the slot is still counted as the mesh's")
    wait_until(lambda: slots_of(viewer, owner.name) == {0: "withheld"}, 20, "the slot to be withheld")
    seconds = time.monotonic() - began
    wait_step(log, identity, 70, attempt=2)
    expect(owner.name not in hosts(mesh, identity), "the second attempt runs on the slot that was taken back")
    owner.kill_daemon(signal.SIGTERM)
    owner.start()
    expect(slots_of(owner, owner.name) == {0: "withheld"}, "after a restart the slot is not withheld any more")
    expect_moved(mesh, log, identity, 2)
    owner.run("withhold", "--return")
    wait_until(lambda: slots_of(viewer, owner.name) == {0: "free"}, 20, "the slot to be free again")
    owner.run("withhold", "--for", "2s")
    wait_until(lambda: slots_of(viewer, owner.name) == {0: "withheld"}, 20, "the slot to be withheld for two seconds")
    wait_until(lambda: slots_of(viewer, owner.name) == {0: "free"}, 20, "the slot to return by itself")
    refusal(owner, "withhold", "1", code=4)
    return f"the slot was its owner's after {seconds:.1f} s"


@case(limit_s=600)
def drain_a_node_under_a_trial(lab):
    """From another node: what runs there saves and moves, or finishes there; nothing new comes until it is undrained."""
    mesh = lab.mesh(3, slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], single(log, **LENGTH | {"epochs": LONG * LENGTH["epochs"]}) | {"resources": {"slots_per_trial": 1}})
    wait_step(log, identity, 60)
    host = mesh.by_name(hosts(mesh, identity).pop())
    other = next(node for node in mesh.nodes if node is not host)
    other.run("drain", host.name)
    refusal(other, "drain", host.name, "--wait", "--timeout", "1", code=5)
    row = node_row(other, host.name)
    expect(row["drained"] and not row["emptied"] and row["state"] in ("alive", "suspect"), f"a node that is being drained is shown as {row}")
    reached = read_steps(log, identity)[-1].step
    wait_step(log, identity, min(reached + 30, STEPS), attempt=1)  # it goes on there
    began = time.monotonic()
    other.run("drain", host.name, "--now", "--wait", "--timeout", "60")
    seconds = time.monotonic() - began
    expect(node_row(host, host.name)["emptied"], "the drained node does not say itself that it is empty")
    expect(slots_of(other, host.name) == {0: "free"}, "something still runs on the drained node")
    expect(other.json("status")["nodes_drained"] == 1, "status does not tell of the drained node")
    expect("drained: no worker runs here any more" in events_of(host), "the drained node says nothing in its events")
    wait_until(lambda: show(mesh, identity)["coordinator_name"] not in (host.name, None), 20, "another coordinator")
    third = lab.submit(host, single(lab.dir / "third", epochs=400) | {"resources": {"slots_per_trial": 3}})
    expect_moved(mesh, log, identity, 1, LONG * STEPS)
    trial = show(mesh, third)["trials"][0]
    expect(trial["state"] == "queued", f"a trial of three slots runs beside a drained node: {trial_states(show(mesh, third))}")
    host.run("undrain")
    wait_until(lambda: host.name in hosts(mesh, third), 20, "work on the node that was undrained")
    return f"empty after {seconds:.1f} s"


@case(limit_s=60)
def what_runs_on_a_machine_is_told(lab):
    """From another node: whose trial, since when, and until when a slot is withheld; also once the node is dead."""
    alder, birch = lab.mesh(["alder", "birch"], start=False).nodes
    alder.slots, birch.slots = "none", "cpu:2"
    lab.meshes[0].start()
    began = int(time.time())
    identity = lab.submit(alder, {"name": "guest", "entrypoint": "sleep 600", "searcher": {"name": "single"}})
    wait_until(lambda: "leased" in slots_of(alder, "birch").values(), 30, "the trial to have a slot")

    def told(viewer, *node):
        return {slot["state"]: slot for slot in viewer.json("owner", *node)["slots"]}

    slot = told(alder, "birch")["leased"]
    expect((slot["experiment"], slot["name"], slot["trial"], slot["submitter"]) == (identity, "guest", 0, "alder"), f"told: {slot}")
    expect(began - 1 <= slot["since_s"] <= time.time() + 1 and slot["until_s"] is None, f"at {began} leased since {slot['since_s']}")
    expect(told(birch) == told(alder, "birch"), "birch tells something else of itself than alder does")
    other = told(alder, "birch")["free"]["index"]
    birch.run("withhold", str(other), "--for", "1h")
    held = wait_until(lambda: told(alder, "birch").get("withheld"), 20, "the slot to be withheld")
    expect(held["until_s"] - held["since_s"] == 3600 and held["since_s"] >= began - 1, f"withheld: {held}")
    birch.run("withhold", str(other), "--for", "2h")
    again = wait_until(lambda: told(alder, "birch")["withheld"]["until_s"] - held["since_s"] >= 7200, 20, "the longer time")
    expect(again, "the time of the second request does not count")
    line = next(line for line in alder.run("owner", "birch").splitlines() if "trial" in line)
    expect(f"leased, trial 0 of guest ({identity[:8]}) by {getpass.getuser()} from alder since " in line, f"the line is: {line}")
    birch.kill_machine()
    wait_until(lambda: "birch is dead: this is what was known last" in alder.run("owner", "birch"), 30, "birch to be known dead")


BUSY = "while True: pass"


@case(limit_s=150)
def a_policy_takes_the_slot_back_while_others_compute(lab):
    """Other processes compute: the trial goes on elsewhere, no step lost; without the policy the slot is the mesh's again."""
    mesh = lab.mesh(2, slots="cpu:1")
    log = lab.dir / "steps"
    identity = lab.submit(mesh.nodes[0], single(log, **LENGTH | {"epochs": LONG * LENGTH["epochs"]}) | {"resources": {"slots_per_trial": 1}})
    wait_step(log, identity, 60)
    host = mesh.by_name(hosts(mesh, identity).pop())
    other = next(node for node in mesh.nodes if node is not host)
    expect("has no policy" in host.run("owner", "policy"), "a node has a policy from the beginning")
    others = [subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(os.cpu_count())]
    lab.at_end += [process.kill for process in others]
    host.run("owner", "policy", "--load", "1%", "--back-after", "1h")
    wait_until(lambda: slots_of(other, host.name) == {0: "withheld"}, 60, "the slot to be its owner's")
    for process in others:  # an hour has to pass now
        process.kill()
    policy = host.json("owner")["policy"]
    expect((policy["why"], policy["load_percent"], policy["back_after_s"]) == ("load", 1, 3600), f"the policy is {policy}")
    expect(policy == other.json("owner", host.name)["policy"] == node_row(other, host.name)["policy"], "the nodes tell other policies")
    for words in (["nodes"], ["owner", host.name], ["owner", "policy"]):
        viewer = host if words[-1] == "policy" else other
        expect("its owner's since" in viewer.run(*words), f"shoal {' '.join(words)} tells no reason: {viewer.run(*words)}")
    expect("withheld: load" in other.run("slots"), f"shoal slots tells no reason: {other.run('slots')}")
    wait_step(log, identity, 70, attempt=2)
    expect(hosts(mesh, identity) == {other.name}, "the second attempt runs where the owner is")
    host.kill_daemon(signal.SIGTERM)
    host.start()
    is_kept = slots_of(host, host.name) == {0: "withheld"} and host.json("owner")["policy"]["why"] == "load"
    expect(is_kept, "after a restart the slot is the mesh's")
    steps = [step.step for step in read_steps(log, identity)]
    expect(steps == list(range(steps[0], steps[0] + len(steps))), f"steps are lost or run again: {steps}")
    other.run("cancel", identity)
    wait_until(lambda: not host.json("status")["syncing"], 60, "the node to be in step again")
    host.run("owner", "policy", "--off")
    wait_until(lambda: slots_of(other, host.name) == {0: "free"}, 20, "the slot to be the mesh's again")
    expect(host.json("owner")["policy"] is None, "a policy that was ended is shown")


@case(limit_s=90)
def what_a_person_wants_counts_before_the_policy(lab):
    """Hours that never end: a slot returned by hand stays the mesh's, and one withheld by hand stays withheld beyond the policy."""
    node = lab.mesh(1, slots="cpu:3").nodes[0]
    node.run("withhold", "2")
    node.run("owner", "policy", "--hours", "0-24")
    wait_until(lambda: slots_of(node, node.name) == {0: "withheld", 1: "withheld", 2: "withheld"}, 20, "the slots to be their owner's")
    line = node.run("owner").splitlines()[0]
    expect(re.search(r"is its owner's until .* 00:00:00: these are its hours \(0-24\)", line), f"the line is: {line}")
    node.run("withhold", "0", "--return")
    node.run("withhold", "1")
    time.sleep(3)  # one look at the machine, and more
    expect(slots_of(node, node.name) == {0: "free", 1: "withheld", 2: "withheld"}, f"{slots_of(node, node.name)}")
    node.run("owner", "policy", "--off")
    wait_until(lambda: node.json("owner")["policy"] is None, 20, "the policy to end")
    expect(slots_of(node, node.name) == {0: "free", 1: "withheld", 2: "withheld"}, "the end of the policy returns what a person withholds")
    for words, code in ((["--hours", "9-18 someday"], 2), (["--load", "0%"], 2), (["--load", "101"], 2), (["--back-after", "5m"], 2),
                        (["--off", "--activity"], 2), (["--activity", "--back-after", "8d"], 2)):
        refusal(node, "owner", "policy", *words, code=code)


@case(limit_s=90)
def a_busy_gpu_is_not_free(lab):
    """A program outside Shoal computes on a GPU (the driver's library is made up): nothing is placed there until it is gone."""
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip(f"{library} is not built")
    busy = lab.dir / "busy"
    busy.write_text("GPU-11111111-2222-3333-4444-555555555555")
    mesh = lab.mesh(1, slots="auto", wrap=["env", "FAKE_NVML=whole", f"FAKE_NVML_BUSY_FILE={busy}"],
                    options=["--nvml", str(library)])
    node = mesh.nodes[0]
    wait_until(lambda: slots_of(node, node.name) == {0: "withheld", 1: "free"}, 20, "the busy GPU to be seen")
    identity = lab.submit(node, single(lab.dir / "steps", epochs=400) | {"resources": {"slots_per_trial": 2}})
    time.sleep(2)
    expect(show(mesh, identity)["trials"][0]["state"] == "queued", "a trial of two slots runs on one GPU and a busy one")
    busy.unlink()
    wait_until(lambda: set(slots_of(node, node.name).values()) == {"leased"}, 20, "work on the GPU that is free again")
    busy.write_text("GPU-11111111-2222-3333-4444-555555555555")
    time.sleep(6)  # longer than from one look to the next: who computes there now is the trial's own worker
    expect(set(slots_of(node, node.name).values()) == {"leased"}, f"the trial lost its slots: {slots_of(node, node.name)}")


@case(limit_s=60)
def who_has_just_joined_leaves(lab):
    """Two people ask at once, before its connections are open: both are answered, and the others know that it left."""
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    cedar = lab.mesh(["cedar"], start=False).nodes[0]
    cedar.run("join", mesh.nodes[0].run("invite").split()[-1], "--name", "cedar")
    cedar.start()
    with ThreadPoolExecutor() as people:
        answers = list(people.map(lambda _: cedar.json("leave"), range(2)))
    expect([answer["stored_on"] for answer in answers] == [2, 2], f"{answers}")
    cedar.daemon.wait(20)
    for node in mesh.nodes:
        wait_until(lambda: node_row(node, "cedar")["state"] == "left", 20, f"{node.name} to know that it left")
