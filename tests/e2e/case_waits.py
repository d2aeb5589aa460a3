"""What experiments wait for before they begin: other experiments, and a time."""

import json
import time
from pathlib import Path

from lab import Skip, case, expect, over, show, wait_over, wait_until
from look import refusal

HOLDS = "while [ ! -e \"$GATE\" ]; do sleep 0.1; done; [ -e \"$GATE.good\" ]"


def submit(lab, node, name, entrypoint="true", **more):
    return lab.submit(node, {"name": name, "entrypoint": entrypoint, "max_restarts": 0,
                             "searcher": {"name": "single", "metric": "loss"}, **more})


def gated(lab, node, name, **more):
    """An experiment that runs until its gate is opened, and then fails unless it is told to be good."""
    gate = lab.dir / f"gate-{name}"
    return gate, submit(lab, node, name, HOLDS, environment={"variables": {"GATE": str(gate)}}, **more)


def waits_for(node, identity):
    """The sentence that says why the experiment has not begun."""
    experiment = node.json("show", identity)["experiment"]
    expect(experiment["state"] == "queued", f"it is {experiment['state']}, not queued: {experiment}")
    return experiment["waiting"][0]["reason"] if experiment["waiting"] else ""


@case(limit_s=120)
def an_experiment_begins_after_another_whose_coordinator_dies(lab):
    mesh = lab.mesh(["alder", "birch", "cedar"], slots="cpu:2")
    gate, first = gated(lab, mesh.nodes[0], "prep")
    coordinator = mesh.by_name(wait_until(lambda: show(mesh, first)["coordinator_name"], 20, "a coordinator"))
    submitter = next(node for node in mesh.nodes if node is not coordinator)
    wait_until(lambda: any(row["id"] == first for row in submitter.json("ls")["experiments"]), 20, "prep to be known")
    second = submit(lab, submitter, "train", depends_on=["prep"])
    expect(submitter.json("config", second)["config"]["depends_on"] == [first], "the name is written down as an id")
    wait_until(lambda: waits_for(submitter, second) == "it waits for the experiment prep, which is running", 20, "the reason")
    expect("it waits for the experiment prep, which is running" in submitter.run("why", f"{second}/0"), "shoal why tells it")
    rows = {row["name"]: row for row in submitter.json("ls")["experiments"]}
    expect(rows["train"]["waiting"].startswith("it waits for the experiment prep"), f"shoal ls tells it: {rows['train']}")
    coordinator.kill_machine()
    wait_until(lambda: show(mesh, first)["coordinator_name"] not in ("", None, coordinator.name), 40, "another coordinator")
    expect(show(mesh, second)["state"] == "queued", "it does not begin while the other one runs")
    (lab.dir / "gate-prep.good").touch()
    gate.touch()
    wait_over(mesh, first, 60)
    final = wait_over(mesh, second, 60)
    others = show(mesh, first)
    expect(final["trials"][0]["started_s"] >= others["trials"][0]["ended_s"] - 1, f"train began before prep ended: {final} {others}")


@case(limit_s=120)
def one_that_failed_is_told_and_waits_for_a_user(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:2")
    alder, birch = mesh.nodes
    gate, first = gated(lab, alder, "prep")
    wait_until(lambda: any(row["id"] == first for row in birch.json("ls")["experiments"]), 20, "prep to be known")
    resumed = submit(lab, birch, "resumed", depends_on=[first])
    retried = submit(lab, birch, "retried", depends_on=[first[:6]])
    for wrong, code, text in ((["nowhere"], 4, "there is no experiment with that name or id"), (["prep", "resume"], 4, "names resume")):
        said = refusal(birch, "submit", config_file(lab, {"name": "x", "entrypoint": "true", "depends_on": wrong}), code=code)
        expect(text in said, f"depends_on {wrong}: {said}")
    gate.touch()
    wait_over(mesh, first, 40, state="failed")
    for identity, name in ((resumed, "resumed"), (retried, "retried")):
        told = f"it waits for the experiment prep, which has failed; shoal resume {name} begins it all the same"
        wait_until(lambda identity=identity, told=told: waits_for(alder, identity) == told, 20, "the reason")
    said = refusal(birch, "submit", config_file(lab, {"name": "x", "entrypoint": "true", "depends_on": ["prep"]}), code=1)
    expect("which has failed and will never be completed" in said, f"a failed dependency: {said}")
    alder.run("resume", resumed)
    wait_over(mesh, resumed, 40)
    expect(show(mesh, retried)["state"] == "queued", "the other one goes on waiting")
    (lab.dir / "gate-prep.good").touch()
    alder.run("retry", f"{first}/0")
    wait_over(mesh, first, 40)
    wait_over(mesh, retried, 40)


def config_file(lab, config):
    (lab.dir / "code").mkdir(exist_ok=True)
    path = lab.dir / "code" / "experiment.yaml"
    path.write_text(json.dumps(config))
    return path


@case(limit_s=90)
def an_experiment_begins_at_its_time_also_after_a_restart(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    alder, birch = mesh.nodes
    path = config_file(lab, {"name": "late", "entrypoint": "date +%s > began; cat began", "keep": ["began"],
                             "searcher": {"name": "single", "metric": "loss"}})
    begun_s = int(time.time())
    identity = alder.run("submit", path, "--start-after", "12s").split()[-1]
    wait_until(lambda: "it starts after 20" in waits_for(birch, identity), 10, "the reason")
    never = alder.run("submit", path, "--set", "name=never", "--start-after", "2100-01-01 00:00Z").split()[-1]
    expect(waits_for(alder, never) == "it starts after 2100-01-01 00:00:00 UTC", f"the reason: {waits_for(alder, never)}")
    expect(birch.json("config", never)["config"]["start_after"] == "2100-01-01T00:00:00Z", "shoal config shows the time")
    alder.kill_daemon()
    alder.start()
    wait_over(mesh, identity, 60)
    began_s = int(alder.run("logs", f"{identity}/0").split()[-1])
    expect(began_s >= begun_s + 12, f"it began {begun_s + 12 - began_s} s early")
    expect(over(show(mesh, never)) is None, "the other one waits")
    alder.run("cancel", never)
    wait_over(mesh, never, 20, state="cancelled")


@case(limit_s=90)
def a_trial_ends_when_it_has_run_for_its_time(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    alder, birch = mesh.nodes
    identity = submit(lab, alder, "limited", "trap 'echo saved; exit 0' TERM; echo begun; while true; do sleep 0.1; done", max_runtime="8s")
    wait_until(lambda: "begun" in birch.run("logs", f"{identity}/0", check=False), 30, "the trial to begin")
    before = time.monotonic()
    final = wait_over(mesh, identity, 40)
    expect(time.monotonic() - before > 4, "it had its time")
    trial = final["trials"][0]
    expect(trial["state"] == "stopped" and trial["reason"] == "the trial has run for its max_runtime", f"the trial: {trial}")
    expect("saved" in birch.run("logs", f"{identity}/0"), "the program was asked to save")
    expect("the trial has run for its max_runtime" in birch.run("why", f"{identity}/0"), "shoal why tells it")
    alder.run("retry", f"{identity}/0")
    final = wait_over(mesh, identity, 60)
    expect(final["trials"][0]["attempt"] == 2 and final["trials"][0]["state"] == "stopped", f"after a retry: {final['trials'][0]}")


@case(limit_s=90)
def a_trial_runs_where_its_constraints_are_met(lab):
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, alder.options = "cpu:2", ["--label", "room=12"]
    birch.slots, birch.options = "auto", ["--nvml", str(library), "--label", "room=14", "--label", "fast"]
    mesh.start()
    wait_until(lambda: {row["name"]: row["labels"] for row in alder.json("nodes")["nodes"]} ==
               {"alder": ["room=12"], "birch": ["room=14", "fast"]}, 20, "the labels of both nodes")

    def with_constraints(name, **constraints):
        return submit(lab, alder, name, resources={"constraints": constraints})

    for name, constraints, where in (("room", {"labels": ["room=12"]}, "alder"), ("fast", {"labels": ["fast", "room"]}, "birch"),
                                     ("a6000", {"model": "rtx a6000", "memory": "48G"}, "birch"),
                                     ("mig", {"model": ["H100", "MIG"]}, "birch")):
        final = wait_over(mesh, with_constraints(name, **constraints), 40)
        expect([slot["node_name"] for slot in final["trials"][0]["slots"]] == [where], f"{name} ran elsewhere: {final['trials'][0]}")
    never = with_constraints("never", model="H100", memory="80G")
    wait_until(lambda: waits_for(birch, never) == "it needs 1 slot that resources.constraints allow (model H100, memory 80G), and all nodes "
               "together have 0", 20, "the reason")
    config = birch.json("config", never)["config"]["resources"]["constraints"]
    expect(config == {"model": ["H100"], "memory": 80 << 30}, f"shoal config: {config}")
    alder.run("cancel", never)
    wait_over(mesh, never, 20, state="cancelled")
