"""The callbacks for Lightning and for Hugging Face's Trainer, by their examples: report, save, resume, and leave when asked."""

import json
import os
import re
import shutil
import signal

from case_ddp import is_python
from lab import case, expect, show, wait_over, wait_until
from look import workers_of
from mesh import ROOT
from torch_venv import python_with

SAVE_EVERY = 20


def checkpoint(node, identity):
    """Step of the newest checkpoint of which a node holds a copy, as the mesh knows it; 0: there is none."""
    steps = [int(each["path"].removeprefix("step-")) for each in node.json("checkpoint", "ls", identity)["checkpoints"] if each["holders"]]
    return max(steps, default=0)


def both(node, identity, attempt, pattern, what):
    """The number that both ranks of the attempt have printed; they have to print the same."""
    def numbers():
        texts = [node.run("logs", f"{identity}/0", "--rank", str(rank), "--attempt", str(attempt), check=False) for rank in range(2)]
        found = [re.search(pattern, text) for text in texts]
        return [int(each[1]) for each in found] if all(found) else None

    numbers = wait_until(numbers, 120, f"both ranks of attempt {attempt} to say where they {what}")
    expect(len(set(numbers)) == 1, f"the ranks of attempt {attempt} {what} at {numbers}")
    return numbers[0]


def begins(node, identity, attempt):
    return both(node, identity, attempt, r"rank \d of 2 begins at step (\d+)", "begin")


def leaves(node, identity, attempt, reason):
    return both(node, identity, attempt, rf"rank \d leaves at step (\d+) {reason}", "leave")


def kept_above(mesh, identity, step):
    return wait_until(lambda: (at := checkpoint(mesh.nodes[1], identity)) > step and at, 120, f"a checkpoint of a step above {step}")


def submit(lab, example, arguments):
    """A mesh of two nodes with the example on both, and the experiment's id."""
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    alder = mesh.nodes[0]
    context = alder.tree / example
    shutil.copytree(ROOT / "examples" / example, context, ignore=shutil.ignore_patterns("__pycache__"))
    python = python_with("lightning==2.6.6", "transformers==5.24.0", "accelerate")
    entrypoint = f"{python} train.py {arguments} --save-every {SAVE_EVERY} --pause 0.05"
    return mesh, alder.run("submit", context / f"{example}.yaml", "--set", f"entrypoint={entrypoint}").split()[-1]


def trains(lab, example, arguments, metric, logged):
    """Kills rank 1 of the example, then pauses it. `metric`: of the validation. `logged`: steps of which the loss is logged."""
    mesh, identity = submit(lab, example, arguments)
    alder = mesh.nodes[0]
    expect(begins(alder, identity, 1) == 0, "the first attempt does not begin at step 0")
    kept = kept_above(mesh, identity, 0)
    victims = [pid for pid, environment in workers_of(identity) if environment.get("RANK") == "1" and is_python(pid)]
    expect(victims, "no process is rank 1")
    os.kill(victims[0], signal.SIGKILL)
    second = begins(alder, identity, 2)
    expect(second >= kept and second % SAVE_EVERY == 0, f"it was kept at {kept}, and went on at {second}")

    kept_above(mesh, identity, second)
    alder.run("pause", identity)
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "paused", 60, "the trial to be paused")
    left = leaves(alder, identity, 2, "pause")
    expect(left > second, f"it began at {second} and left at {left}")
    wait_until(lambda: checkpoint(alder, identity) == left, 30, f"the checkpoint of step {left}, where it left")
    alder.run("resume", identity)
    third = begins(alder, identity, 3)
    expect(third == left, f"it left at {left}, and went on at {third}")
    trial = wait_over(mesh, identity, 240)["trials"][0]
    expect((trial["attempt"], trial["restarts"]) == (3, 1), f"attempts and restarts: {trial}")

    points = [json.loads(line) for line in alder.run("metrics", f"{identity}/0", "--json").splitlines()]
    losses = {point["step"] for point in points if point["group"] == "training" and "loss" in point["metrics"]}
    expect(logged <= losses, f"no loss is reported of steps {sorted(logged - losses)}")
    values = [point["metrics"][metric] for point in points if point["group"] == "validation"]
    expect(values and metric in trial["metrics"]["validation"], f"reports of the validation: {values}, {trial['metrics']}")
    return trial["metrics"]["validation"][metric], checkpoint(alder, identity)


@case(limit_s=900, whole=True)
def lightning_resumes_after_a_kill_and_leaves_when_it_is_asked(lab):
    accuracy, last = trains(lab, "lightning", "--epochs 1", "accuracy", set(range(9, 468, 10)))
    expect(accuracy > 0.7 and last == 468, f"accuracy {accuracy}, last checkpoint {last}")


@case(limit_s=900, whole=True)
def hugging_faces_trainer_resumes_after_a_kill_and_leaves_when_it_is_asked(lab):
    loss, last = trains(lab, "transformers", "--steps 400", "loss", set(range(10, 401, 10)))
    expect(loss < 1.3 and last == 400, f"loss of the evaluation {loss}, last checkpoint {last}")


def stops(lab, example, arguments):
    """Stops the trial of the example, once it has saved: it saves where it leaves, on both ranks, and never begins again."""
    mesh, identity = submit(lab, example, arguments)
    alder, birch = mesh.nodes
    begins(alder, identity, 1)
    kept = kept_above(mesh, identity, 0)
    birch.run("stop", f"{identity}/0")
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "stopped", 60, "the trial to be stopped")
    left = leaves(alder, identity, 1, "stop")
    expect(left >= kept, f"it was kept at {kept} and left at {left}")
    wait_until(lambda: checkpoint(alder, identity) == left, 30, f"the checkpoint of step {left}, where it left")
    final = wait_over(mesh, identity, 30)
    trial = final["trials"][0]
    expect((trial["attempt"], trial["restarts"], trial["reason"]) == (1, 0, "the trial is stopped"), f"it ended so: {trial}")


@case(limit_s=600, whole=True)
def lightning_saves_and_leaves_when_its_trial_is_stopped(lab):
    stops(lab, "lightning", "--epochs 1")


@case(limit_s=600, whole=True)
def hugging_faces_trainer_saves_and_leaves_when_its_trial_is_stopped(lab):
    stops(lab, "transformers", "--steps 400")
