"""`shoal stop`: one trial saves and leaves for good, and the others go on."""

import signal

from lab import case, expect, show, wait_over, wait_until
from look import refusal, workers_of


def config(name, entrypoint, trials=3, **more):
    return {"name": name, "entrypoint": entrypoint, "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": trials}, **more}


def saver(lab, done):
    """Trial 1 has the best accuracy; every trial saves when it is asked to leave, and is done once `done` is there."""
    worker = f"exec {lab.build}/scripted_worker"
    return (f"case $SHOAL_TRIAL in 1) {worker} report:validation:accuracy:3:0.9 flush stops reason save:7:1000 flush;; "
            f"*) {worker} report:validation:accuracy:3:0.$SHOAL_TRIAL flush await:{done};; esac")


def trial_of(mesh, identity, index):
    return show(mesh, identity)["trials"][index]


def wait_state(mesh, identity, index, state, timeout=30):
    return wait_until(lambda: t if (t := trial_of(mesh, identity, index))["state"] == state else None, timeout,
                      f"trial {index} to be {state}")


def wait_reported(mesh, identity, indexes):
    wait_until(lambda: all(trial_of(mesh, identity, i)["metrics"] for i in indexes), 30, f"trials {indexes} to report")


@case(limit_s=120)
def a_stopped_trial_saves_and_leaves_and_the_others_go_on(lab):
    """Stopped from a third node, which neither submitted nor runs it."""
    mesh = lab.mesh(3, start=False, slots="cpu:1")
    alder, birch, cedar = mesh.nodes
    cedar.slots = "none"
    mesh.start()
    done = lab.dir / "done"
    identity = lab.submit(alder, config("saves", saver(lab, done), trials=3))
    wait_reported(mesh, identity, [0, 1])
    said = cedar.run("stop", f"{identity}/1")
    expect(said.startswith(f"trial 1 of {identity} is to stop, stored on "), f"the answer is {said!r}")
    trial = wait_state(mesh, identity, 1, "stopped")
    expect(trial["checkpoint"] is not None and trial["checkpoint"]["step"] == 7, f"it has not saved: {trial}")
    expect(trial["reason"] == "the trial is stopped" and trial["restarts"] == 0, f"it is said to have ended so: {trial}")
    expect("asked to leave: stop\n" in birch.run("logs", f"{identity}/1", "--raw"), "the program was not told why")
    wait_reported(mesh, identity, [2])  # in the slot of trial 1
    running = show(mesh, identity)
    expect(running["state"] == "running" and running["counts"]["stopped"] == 1, f"the experiment is {running['state']}: {running['counts']}")
    text = refusal(cedar, "wait", identity, "--timeout", "1", code=5)
    expect("running" in text, f"it is not over: {text}")
    done.touch()
    final = wait_over(mesh, identity, 30)
    expect([t["state"] for t in final["trials"]] == ["completed", "stopped", "completed"], f"they are {final['trials']}")
    expect(final["trials"][1]["attempt"] == 1, f"the stopped trial has begun again: {final['trials'][1]}")
    expect(final["best"]["trial"] == 1 and final["best"]["value"] == 0.9, f"the best is {final['best']}")
    alder.run("wait", identity)  # exit code 0
    alder.run("checkpoint", "get", f"{identity}/1", lab.dir / "kept")
    expect((lab.dir / "kept" / "checkpoint").stat().st_size == 1000, "its checkpoint is another one")
    text = refusal(birch, "stop", f"{identity}/0", code=1)
    expect(text == "shoal: Trial 0 is completed already, so there is nothing to stop.", text)
    text = refusal(birch, "stop", f"{identity}/3", code=4)
    expect(text.startswith("shoal: ") and "3" in text, text)
    birch.run("stop", f"{identity}/1")  # a stop can be repeated


@case(limit_s=90)
def a_program_that_ignores_a_stop_is_ended_after_the_grace(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    ready = lab.dir / "ready"
    identity = lab.submit(node, config("deaf", f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done", trials=1, preemption_timeout=4))
    wait_until(ready.exists, 20, "the program")
    node.run("stop", f"{identity}/0")
    seen = wait_state(mesh, identity, 0, "stopping", 10)
    expect(len(seen["slots"]) == 1 and show(mesh, identity)["state"] == "running", f"it is over while it runs: {seen}")
    trial = wait_state(mesh, identity, 0, "stopped", 30)
    expect(not workers_of(identity), "its processes live on")
    expect(trial["attempt"] == 1 and show(mesh, identity)["state"] == "completed", f"it ended so: {trial}")


@case(limit_s=60)
def a_stopped_trial_that_waits_never_begins(lab):
    mesh = lab.mesh(2, start=False, slots="cpu:1")
    alder, birch = mesh.nodes
    birch.slots = "none"
    mesh.start()
    done = lab.dir / "done"
    identity = lab.submit(alder, config("waits", saver(lab, done), trials=3))
    wait_reported(mesh, identity, [0])
    birch.run("stop", f"{identity}/1")
    trial = wait_state(mesh, identity, 1, "stopped", 10)
    expect(trial["attempt"] is None, f"it has begun: {trial}")
    done.touch()
    final = wait_over(mesh, identity, 30)
    expect([t["attempt"] for t in final["trials"]] == [1, None, 1], f"they are {final['trials']}")


@case(limit_s=120)
def a_stop_outlives_the_coordinator(lab):
    """Its daemon is killed right after the answer; the trial runs on another node."""
    mesh = lab.mesh(3, slots="cpu:1")
    identity = lab.submit(mesh.nodes[0], config("orphan", f"exec {lab.build}/scripted_worker report:validation:accuracy:3:0.5 flush stops "
                                                "reason save:7:1000 flush", trials=3))
    wait_reported(mesh, identity, [0, 1, 2])
    seen = show(mesh, identity)
    coordinator = mesh.by_name(seen["coordinator_name"])
    index = next(t["index"] for t in seen["trials"] if t["slots"][0]["node_name"] != coordinator.name)
    asked = next(node for node in mesh.nodes if node is not coordinator)
    asked.run("stop", f"{identity}/{index}")
    coordinator.kill_daemon(signal.SIGKILL)
    trial = wait_until(lambda: t if (t := asked.json("show", identity)["experiment"]["trials"][index])["state"] == "stopped" else None,
                       60, "the trial to be stopped")
    expect(trial["attempt"] == 1 and trial["checkpoint"]["step"] == 7, f"it ended so: {trial}")
    coordinator.start()
    mesh.wait_alive(3)
    wait_until(lambda: coordinator.json("show", identity)["experiment"]["trials"][index]["state"] == "stopped", 20, "the news there")
    expect(trial_of(mesh, identity, index)["attempt"] == 1, "it has begun again")
