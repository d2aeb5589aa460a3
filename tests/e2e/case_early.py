"""Searches that stop trials early, over real trainers: Lightning, Hugging Face's Trainer, and a file and script for Determined."""

import re
import shutil

from case_python import PYTHON, refuse_sanitizers
from case_search import replay
from lab import case, expect, wait_over, wait_until
from mesh import ROOT
from torch_venv import python_with


def logs_of(node, identity, trial, rank):
    return node.run("logs", f"{identity}/{trial}", "--rank", str(rank))


def kept_where_it_left(mesh, identity, trial, step):
    def held():
        found = [each for each in mesh.nodes[1].json("checkpoint", "ls", identity)["checkpoints"] if each["trial"] == trial and each["holders"]]
        return max((int(each["path"].removeprefix("step-")) for each in found), default=0)

    wait_until(lambda: held() == step, 30, f"the checkpoint of step {step}, where trial {trial} left")


def stops_the_worse_of_two(lab, example, arguments, length, rates):
    """The example's search with two trials, one after the other on two slots: the second one learns less, so the search stops it at
    the lower rung. The trainer saves and leaves, on both ranks."""
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    alder, birch = mesh.nodes
    context = alder.tree / example
    shutil.copytree(ROOT / "examples" / example, context, ignore=shutil.ignore_patterns("__pycache__"))
    python = python_with("lightning==2.6.6", "transformers==5.24.0", "accelerate")
    sets = [f"entrypoint={python} train.py {arguments} --pause 0.1", "searcher.mode=aggressive", "searcher.max_rungs=2", "searcher.divisor=2",
            "searcher.max_trials=2", f"searcher.max_length={{steps: {length}}}", "searcher.initial=[{rate: %g}, {rate: %g}]" % rates]
    identity = alder.run("submit", context / "adaptive.yaml", *(word for each in sets for word in ("--set", each))).split()[-1]
    final = wait_over(mesh, identity, 500)
    search = alder.json("rungs", identity)["search"]
    judged = search["judged"]
    replay(judged, rungs=2, divisor=2, smaller=search["smaller_is_better"])
    expect([(item["trial"], item["rung"], item["step"], item["decision"]) for item in judged] ==
           [(0, 0, length // 2, "goes on"), (0, 1, length, "top"), (1, 0, length // 2, "stops")], f"it was judged so: {judged}")
    best, worse = final["trials"]
    expect(best["step"] == length, f"the better trial ended at step {best['step']} of {length}")
    expect((worse["state"], worse["restarts"]) == ("stopped", 0), f"the worse trial ended so: {worse}")
    left = [re.search(r"rank \d leaves at step (\d+) (\w+)", logs_of(birch, identity, 1, rank)) for rank in range(2)]
    expect(all(left), f"the ranks of the worse trial did not leave by themselves: {logs_of(birch, identity, 1, 0)[-1000:]}")
    steps = {int(each[1]) for each in left}
    expect(len(steps) == 1 and length // 2 <= min(steps) < length, f"the ranks of the worse trial left at {steps}")
    expect({each[2] for each in left} == {"stop"}, f"they left since {[each[2] for each in left]}")
    kept_where_it_left(mesh, identity, 1, min(steps))
    why = birch.run("why", f"{identity}/1")
    expect("stopped at rung 0" in why and "2nd of 2" in why, f"why says {why}")


@case(limit_s=900, whole=True)
def a_search_stops_a_trial_of_lightning_early(lab):
    stops_the_worse_of_two(lab, "lightning", "--epochs 4 --batch 500", 240, (0.05, 0.0001))


@case(limit_s=900, whole=True)
def a_search_stops_a_trial_of_hugging_faces_trainer_early(lab):
    stops_the_worse_of_two(lab, "transformers", "--steps 200 --save-every 100", 200, (0.001, 0.00001))


CORE_API = """import json, pathlib, time
import shoal.determined as det


def main(core_context, hparams):
    info = det.get_cluster_info()
    first = 0
    if info.latest_checkpoint is not None:
        with core_context.checkpoint.restore_path(info.latest_checkpoint) as path:
            first = json.loads((path / "state.json").read_text())["batch"]
    for batch in range(first + 1, 28):
        time.sleep(0.1)
        core_context.train.report_training_metrics(steps_completed=batch, metrics={"loss": 1 / batch})
        if batch % 3 == 0:
            core_context.train.report_validation_metrics(steps_completed=batch, metrics={"validation_loss": hparams["rate"] + 1 / batch})
        if batch % 9 == 0 or core_context.preempt.should_preempt():
            with core_context.checkpoint.store_path({"steps_completed": batch}) as (path, _uuid):
                (path / "state.json").write_text(json.dumps({"batch": batch}))
        if core_context.preempt.should_preempt():
            print(f"left at batch {batch}", flush=True)
            return
    print("trained all", flush=True)


if __name__ == "__main__":
    with det.core.init() as core_context:
        main(core_context, det.get_cluster_info().trial.hparams)
"""


@case(limit_s=240)
def a_file_and_script_for_determined_are_stopped_early(lab):
    refuse_sanitizers(lab)
    mesh = lab.mesh(2, slots="cpu:2")
    alder, birch = mesh.nodes
    identity = lab.submit(alder, {  # the keys of Determined 0.38, and one changed import line
        "name": "core-api", "entrypoint": f"{PYTHON} train.py", "max_restarts": 2,
        "hyperparameters": {"rate": {"type": "double", "minval": 0.0, "maxval": 1.0}},
        "searcher": {"name": "adaptive_asha", "metric": "validation_loss", "smaller_is_better": True, "mode": "aggressive", "max_trials": 12,
                     "max_time": 27, "time_metric": "batches", "divisor": 3, "max_rungs": 3, "max_concurrent_trials": 4},
        "resources": {"slots_per_trial": 1}, "environment": {"image": "determinedai/pytorch-ngc:0.38.0"},
        "checkpoint_storage": {"save_trial_latest": 1},
    }, {"train.py": CORE_API})
    final = wait_over(mesh, identity, 180)
    judged = alder.json("rungs", identity)["search"]["judged"]
    replay(judged, smaller=True)
    stopped = {item["trial"]: item["step"] for item in judged if item["decision"] == "stops"}
    expect(len(final["trials"]) == 12 and final["state"] == "completed" and stopped, f"it ended as {final['state']}, judged {judged}")
    ends = [trial["state"] for trial in final["trials"]]
    expect(all(state in ("stopped", "completed") for state in ends), f"the trials ended as {ends}")
    early = 0
    for trial, step in stopped.items():
        log = logs_of(birch, identity, trial, 0)
        expect("left at batch" in log or "trained all" in log, f"trial {trial}, stopped at {step}, did not end by itself: {log[-1000:]}")
        left = re.search(r"left at batch (\d+)", log)
        if left:
            early += 1
            kept_where_it_left(mesh, identity, trial, int(left[1]))
    expect(early > 0, "every trial trained all of its batches before it was stopped")
