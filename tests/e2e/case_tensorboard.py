"""shoal tensorboard over real daemons: from a node that did not run the trial, over a new attempt, while it is killed again and
again, and as TensorBoard itself reads it."""

import json
import signal
import subprocess
import time

from case_python import PYTHON, refuse_sanitizers
from lab import case, expect, wait_over, wait_until
from tfevents import events
from torch_venv import python_with

TENSORBOARD = "tensorboard==2.21.0"


def read(directory, trial="0"):
    """The events of a trial's files, a list for each file, in the order of their names."""
    return [list(events(path)) for path in sorted((directory / trial).glob("events.out.tfevents.*"))]


def values(files):
    """All values of the files as (event, tag, number or None)."""
    return [(event, tag, value) for file in files for event in file for tag, value in event["values"].items()]


def scalars(files):
    return [(event["step"], tag, value) for event, tag, value in values(files) if value is not None]


def starts(files):
    return [event["step"] for file in files for event in file if event["start"]]


def is_kept(node, identity, name):
    return name in node.run("output", "ls", f"{identity}/0", check=False)


class Resumed:
    """A trial that saves at step 10, reports step 20, and fails; attempt 2 goes on from step 10. Each leaves an own file."""

    def __init__(self, lab):
        self.mesh = lab.mesh(["alder", "birch"], start=False)
        self.alder, self.birch = self.mesh.nodes
        self.alder.slots, self.birch.slots = "none", "cpu:1"
        self.mesh.start()
        self.crash = lab.dir / "crash"
        script = f"""mkdir -p "$SHOAL_TENSORBOARD_DIR/run"
printf %s "attempt $SHOAL_ATTEMPT" >"$SHOAL_TENSORBOARD_DIR/run/events.out.tfevents.1.$SHOAL_ATTEMPT"
if [ $SHOAL_ATTEMPT = 1 ]; then
    set -- report:training:loss:10:1 save:10:1000 flush report:training:loss:20:2 flush await:{self.crash} exit:3
else
    set -- report:training:loss:15:9 report:validation:accuracy:30:0.5 flush
fi
exec {lab.build}/scripted_worker "$@"
"""
        self.identity = lab.submit(self.birch, {
            "name": "back", "entrypoint": script, "max_restarts": 1, "searcher": {"name": "single", "metric": "accuracy"},
            "hyperparameters": {"lr": 0.1, "optimizer": {"name": "sgd"}, "nesterov": True, "layers": [64, 32]}})
        self.logdir = lab.dir / "logdir"

    def write(self, *more):
        return self.alder.json("tensorboard", self.identity, "--logdir", self.logdir, *more)

    def fail_and_end(self):
        """Writes while step 20 still counts, lets attempt 1 fail, and waits for the end."""
        wait_until(lambda: len(self.alder.json_lines("metrics", self.identity)) == 2, 30, "two points")
        wait_until(lambda: is_kept(self.alder, self.identity, "tfevents.1.1"), 30, "the kept file")
        expect(self.write()["points"] == 2, "not both points are written")
        self.crash.touch()
        wait_over(self.mesh, self.identity, 40)


@case(limit_s=90)
def event_files_have_what_any_node_knows_of_each_attempt(lab):
    """Written before a restart and after it: nothing is written twice, and a start drops what was made anew."""
    trial = Resumed(lab)
    trial.fail_and_end()
    written = trial.write()
    expect(written["points"] == 2, f"the second look writes {written}")
    files = read(trial.logdir / "back")
    expect([file[0]["version"] for file in files] == ["brain.Event:2"] * 2, f"{len(files)} files: {files}")
    expect({file[0]["source"] for file in files} == {f"shoal {trial.identity}/0"}, f"sources: {files}")
    expected = [(10, "training/loss", 1), (20, "training/loss", 2), (15, "training/loss", 9), (30, "validation/accuracy", 0.5)]
    expect(scalars(files) == expected, f"scalars: {scalars(files)}")
    expect(starts(files) == [0, 11], f"starts at {starts(files)}")
    points = {(p["step"], p["wall_ms"]) for p in trial.alder.json_lines("metrics", trial.identity, "--all")}
    seen = {(event["step"], round(1000 * event["wall"])) for event, _, value in values(files) if value is not None}
    expect(seen == points, f"steps and times {seen}, not {points}")
    others = [tag for _, tag, value in values(files) if value is None]
    expect(others == ["_hparams_/session_start_info", "_hparams_/session_end_info"], f"other records: {others}")
    root = [tag for _, tag, _ in values(read(trial.logdir, "back"))]
    expect(root == ["_hparams_/experiment"], f"records of the experiment: {root}")

    fresh = lab.dir / "fresh"
    written = trial.alder.json("tensorboard", trial.identity, "--logdir", fresh, "--follow")
    expect(written["points"] == 3, f"void points are written: {written}")
    files = read(fresh / "back")
    expect(starts(files) == [0, 11] and len(files) == 2, f"files: {files}")
    own = {path.name: path.read_text() for path in (fresh / "back" / "0" / "program" / "run").iterdir()}
    expect(own == {f"events.out.tfevents.1.{n}": f"attempt {n}" for n in (1, 2)}, f"files of the program: {own}")
    before = {path: path.read_bytes() for path in fresh.rglob("events*")}
    written = trial.birch.json("tensorboard", trial.identity, "--logdir", fresh)
    expect(written["points"] == 0, f"a third look writes {written}")
    expect(before == {path: path.read_bytes() for path in fresh.rglob("events*")}, "a third look changes files")


STEPS = 3000
REPORTS = f"""import time, shoal
run = shoal.init()
for step in range({STEPS}):
    run.report({{"loss": step}}, step=step)
    time.sleep(0.004)
"""


@case(limit_s=120)
def an_exporter_that_is_killed_leaves_whole_records_and_loses_no_point(lab):
    """It is killed at random moments, each time with the next one right behind it, while the trial reports."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "long", "entrypoint": f"exec {PYTHON} reports.py", "searcher": {
        "name": "single", "metric": "loss"}}, {"reports.py": REPORTS})
    logdir = lab.dir / "logdir"
    command = [f"{lab.build}/shoal", "tensorboard", identity, "--logdir", logdir, "--follow", "--dir", alder.dir]
    wait_until(lambda: alder.json_lines("metrics", identity), 30, "the first point")
    for _ in range(8):
        exporter = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(lab.random.uniform(0, 2))
        exporter.send_signal(signal.SIGKILL)
        _, said = exporter.communicate()
        expect(exporter.returncode == -signal.SIGKILL, f"it ended by itself, and said: {said}")
        for file in (logdir / "long").glob("0/events*"):
            list(events(file))  # raises where a checksum is wrong
    exporter = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    wait_over(mesh, identity, 60)
    expect(exporter.wait(timeout=30) == 0, "following does not end with the trial")
    steps = [step for step, _, _ in scalars(read(logdir / "long"))]
    expect(sorted(steps) == list(range(STEPS)), f"{len(steps)} points, {len(set(steps))} different ones")
    lab.note(f"{len(read(logdir / 'long'))} files")


JUDGE = """import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as Plugins
from tensorboard.plugins.hparams import metadata
seen = EventAccumulator(sys.argv[1] + "/0", size_guidance={"scalars": 0}).Reload()
trial, root = Plugins(sys.argv[1] + "/0").Reload(), Plugins(sys.argv[1]).Reload()
hparams = trial.PluginTagToContent("hparams")
start = metadata.parse_session_start_info_plugin_data(hparams["_hparams_/session_start_info"])
end = metadata.parse_session_end_info_plugin_data(hparams["_hparams_/session_end_info"])
columns = metadata.parse_experiment_plugin_data(root.PluginTagToContent("hparams")["_hparams_/experiment"])
print(json.dumps({
    "scalars": {tag: [(p.step, p.value) for p in seen.Scalars(tag)] for tag in seen.Tags()["scalars"]},
    "values": {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()},
    "name": start.group_name, "status": end.status,
    "columns": {info.name: info.type for info in columns.hparam_infos},
    "metrics": [info.name.tag for info in columns.metric_infos]}))
"""


WRITER = """import os
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(os.environ["SHOAL_TENSORBOARD_DIR"])
for step in range(100):
    writer.add_scalar("own/loss", 1 / (step + 1), step)
writer.add_text("notes", "as it was")
writer.close()
"""
READER = """import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
seen = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
print(json.dumps([seen.Tags()["tensors"], [(p.step, p.value) for p in seen.Scalars("own/loss")]]))
"""


@case(limit_s=900, whole=True)
def what_a_summary_writer_leaves_is_shown_beside_the_trial(lab):
    """From a node that has not run the trial, once the node that did is gone."""
    python = python_with(TENSORBOARD)
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "writer", "entrypoint": f"exec {python} writer.py", "searcher": {
        "name": "single", "metric": "loss"}}, {"writer.py": WRITER})
    wait_over(mesh, identity, 240)

    wait_until(lambda: is_kept(alder, identity, "tfevents"), 30, "the kept files")
    birch.kill_daemon()
    logdir = lab.dir / "logdir"
    written = alder.json("tensorboard", identity, "--logdir", logdir)
    expect(written["files"] == 1, f"written: {written}")
    command = [python, "-c", READER, logdir / "writer" / "0" / "program"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    expect(done.returncode == 0, done.stderr)
    texts, points = json.loads(done.stdout.splitlines()[-1])
    expect(texts == ["notes/text_summary"], f"texts: {texts}")
    expect([step for step, _ in points] == list(range(100)) and points[3][1] == 0.25, f"points: {points}")


@case(limit_s=900)
def tensorboard_reads_the_event_files(lab):
    """What was made anew is gone there, and the page HPARAMS has values, status and columns."""
    python = python_with(TENSORBOARD)
    trial = Resumed(lab)
    trial.fail_and_end()
    trial.write()
    command = [python, "-c", JUDGE, trial.logdir / "back"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    expect(done.returncode == 0, done.stderr)
    seen = json.loads(done.stdout.splitlines()[-1])
    expected = {"training/loss": [[10, 1], [15, 9]], "validation/accuracy": [[30, 0.5]]}
    expect(seen["scalars"] == expected, f"scalars: {seen['scalars']}")
    expected = {"lr": 0.1, "optimizer.name": "sgd", "nesterov": True, "layers": "[64, 32]"}
    expect(seen["values"] == expected, f"values: {seen['values']}")
    expect((seen["name"], seen["status"]) == ("back/0", 1), f"{seen['name']} {seen['status']}")
    expect(seen["columns"] == {"lr": 3, "optimizer.name": 1, "nesterov": 2, "layers": 1}, f"columns: {seen['columns']}")
    expect(seen["metrics"] == ["validation/accuracy", "training/loss"], f"metrics: {seen['metrics']}")
