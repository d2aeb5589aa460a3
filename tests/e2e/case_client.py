"""shoal.Client and shoal.search with real daemons: any node tells the same, and a restarted daemon is waited for."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

from case_packages import REQUIREMENTS, wheel
from lab import Skip, case, expect, wait_until
from mesh import ROOT

sys.path.insert(0, str(ROOT / "train" / "python"))
import shoal  # noqa: E402

PROGRAMS = Path(__file__).parent / "programs"


@contextlib.contextmanager
def command_of(node):
    """With the command shoal of the build on the PATH."""
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{node.bin}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def submit(lab, node, steps, pause_s, **more):
    files = lab.dir / "files"
    files.mkdir(exist_ok=True)
    shutil.copy(PROGRAMS / "client_train.py", files)
    config = {"name": "seen", "entrypoint": f"/usr/bin/python3 client_train.py {steps} {pause_s}", **more}
    with command_of(node):
        return shoal.Client(node.dir).submit(config, files)


@case(limit_s=120)
def a_client_of_another_node_sees_waits_and_downloads(lab):
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    space = {"x": {"type": "categorical", "vals": [3.0, 2.0]}}
    submitted = submit(lab, alder, 5, 0.05, hyperparameters=space, searcher={"name": "grid", "metric": "loss"})
    client = shoal.Client(birch.dir)
    expect(sorted(node.name for node in client.nodes() if node.state == "alive") == ["alder", "birch"], f"{client.nodes()}")
    experiment = client.experiment("seen")
    expect(experiment.id == submitted.id and client.experiments()[-1].id == submitted.id, "both see one experiment")
    expect(experiment.wait(timeout=80, progress=False) == "completed", f"it ended otherwise: {experiment.trials}")
    best = experiment.best_trial()
    expect(best.hparams == {"x": 2.0} and best.latest["validation"]["loss"] == 2.0, f"the best trial is {best.row()}")
    points = best.metrics("training")
    points = points if isinstance(points, list) else points.to_dict("records")
    expect([p["step"] for p in points] == [1, 2, 3, 4, 5] and points[0]["loss"] == 3.0, f"the points are {points}")
    expect(list(best.logs()) == [f"step {n}" for n in range(1, 6)], f"the lines are {list(best.logs())}")
    checkpoint = best.checkpoint()
    expect(checkpoint.step == 5 and checkpoint.load() == {"x": 2.0, "names": ("a", "b")}, f"the checkpoint is {checkpoint}")
    got, unpacked = Path(checkpoint.download(lab.dir / "got")), lab.dir / "unpacked"
    birch.run("checkpoint", "get", f"{experiment.id}/{best.number}", unpacked, "--unpack")
    expect((got / "state.msgpack").read_bytes() == (unpacked / "state.msgpack").read_bytes(), "client and command differ")
    experiment.delete()
    try:
        submitted.trials
    except shoal.NotFound as error:
        expect("was deleted" in str(error), f"the sentence is {error}")
    else:
        expect(False, "a deleted experiment still has trials")


@case(limit_s=120)
def lines_go_on_over_a_restart_of_the_daemon(lab):
    mesh = lab.mesh(2, slots="none", start=False)
    alder, birch = mesh.nodes
    alder.slots = "cpu:1"
    mesh.start()
    experiment = submit(lab, alder, 60, 0.15, hyperparameters={"x": 1.0})
    there = shoal.Client(birch.dir).experiment(experiment.id)
    lines, restarted = [], None
    for line in there.logs(follow=True):
        lines.append(line)
        if len(lines) == 5:
            birch.kill_daemon(signal.SIGTERM)
            restarted = threading.Thread(target=birch.start)
            restarted.start()
    restarted.join()
    expect(lines == [f"step {n}" for n in range(1, 61)], f"lines are lost, or come twice: {lines}")
    expect(there.wait(timeout=60, progress=False) == "completed", "the trial ended otherwise")


@case(limit_s=60)
def a_programs_own_checkpoint_is_downloaded(lab):
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    save = "cd $SHOAL_CHECKPOINT_DIR && mkdir ../draft && echo weights > ../draft/model.txt && mv ../draft step-7"
    with command_of(node):
        experiment = shoal.Client(node.dir).submit({"name": "own", "entrypoint": save})
    expect(experiment.wait(timeout=40, progress=False) == "completed", f"it ended otherwise: {list(experiment.logs())}")
    checkpoint = experiment.trial(0).checkpoint()
    place = Path(checkpoint.download(lab.dir / "got"))
    expect((place / "model.txt").read_text() == "weights\n", f"{checkpoint} gave {list(place.iterdir())}")


@case(limit_s=60)
def pause_resume_and_cancel_reach_the_experiment(lab):
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    experiment = submit(lab, node, 1000, 0.1, hyperparameters={"x": 1.0})
    next(iter(experiment.logs()))
    behind = submit(lab, node, 1, 0, hyperparameters={"x": 1.0})
    behind.cancel()
    expect(list(behind.logs()) == [], "a trial that never began has lines")
    experiment.pause()
    expect(experiment.state == "paused", f"it is {experiment.state}")
    try:
        experiment.wait(timeout=0.5, progress=False)
        expect(False, "a paused experiment is over")
    except TimeoutError as error:
        expect("seen is still paused after 0.5 s" in str(error), f"the sentence is {error}")
    experiment.resume()
    expect(experiment.state in ("queued", "running"), f"it is {experiment.state}")
    experiment.cancel()
    expect(experiment.wait(timeout=30, progress=False) == "cancelled", f"it is {experiment.state}")


@case(limit_s=90)
def one_trial_is_stopped_from_a_script(lab):
    node = lab.mesh(1, slots="cpu:2").nodes[0]
    space = {"x": {"type": "categorical", "vals": [3.0, 2.0]}}
    experiment = submit(lab, node, 100000, 0.05, hyperparameters=space, searcher={"name": "grid", "metric": "loss"}, preemption_timeout=1)
    lines = experiment.logs()
    begun = set()
    while begun != {"[trial=0]", "[trial=1]"}:
        begun.add(next(lines).split(" ")[0])
    experiment.trial(0).stop()
    wait_until(lambda: experiment.trial(0).state == "stopped", 40, "trial 0 has left")
    expect(experiment.trial(1).state == "running", f"the other one goes on: {experiment.trials}")
    expect(experiment.trial(0).reason == "the trial is stopped", f"the reason is {experiment.trial(0).row()}")
    experiment.cancel()


@case(limit_s=180)
def a_function_is_searched_from_a_script(lab):
    if subprocess.run([sys.executable, "-c", "import cloudpickle"], capture_output=True).returncode != 0:
        raise Skip("cloudpickle is not installed: apt-get install python3-cloudpickle")
    mesh = lab.mesh(2, slots="cpu:1")
    node = mesh.nodes[1]
    place = lab.dir / "script"
    (place / "files").mkdir(parents=True)
    (place / "files" / "data.txt").write_text("100")
    (place / "files" / ".gitignore").write_text("*.pickle\n")
    shutil.copy(PROGRAMS / "client_search.py", place)
    environment = {**os.environ, "SHOAL_DIR": str(node.dir), "PATH": f"{node.bin}:{os.environ['PATH']}",
                   "PYTHONPATH": str(ROOT / "train" / "python")}
    done = subprocess.run([sys.executable, "client_search.py"], cwd=place, env=environment, capture_output=True, text=True, timeout=150)
    expect(done.returncode == 0, f"the script failed: {done.stderr}\n{node.run('ls')}")
    said = json.loads(done.stdout)
    losses = [row["validation.loss"] for row in said["rows"]]
    expect(said["state"] == "completed" and len(losses) == 4, f"four trials end well: {said}")
    expect(all(abs(row["validation.loss"] - row["hparams.x"] - 110) < 1e-9 for row in said["rows"]), f"the losses are {said['rows']}")
    expect(said["best"]["validation"]["loss"] == min(losses), f"the best of {losses} is {said['best']}")
    expect("4 of 4 trials over" in done.stderr, f"progress is shown in lines: {done.stderr}")


@case(limit_s=120)
def the_requirements_of_a_search_are_for_its_interpreter(lab):
    if subprocess.run([sys.executable, "-c", "import cloudpickle, pip, venv"], capture_output=True).returncode != 0:
        raise Skip("cloudpickle or pip is not installed: apt-get install python3-cloudpickle python3-pip python3-venv")
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    files = lab.dir / "files"
    files.mkdir()
    wheel(files)
    (files / "requirements.txt").write_text(REQUIREMENTS)

    def objective(_run):
        import shoaltiny

        return shoaltiny.NUMBER

    with command_of(node):
        experiment = shoal.search(objective, name="tiny \U0001f600", files=files, python=sys.executable, wait=False,
                                  config={"environment": {"requirements": "requirements.txt"}}, client=shoal.Client(node.dir))
    state = experiment.wait(timeout=100, progress=False)
    expect(state == "completed", f"it ended otherwise: {list(experiment.logs(follow=False))}")
    expect(experiment.best_trial().latest["validation"] == {"loss": 42.0}, f"the result is {experiment.best_trial().latest}")
    expect(experiment.name == "tiny \U0001f600", f"its name is {experiment.name!r}")


@case(limit_s=120)
def a_search_runs_in_the_interpreter_that_calls_it(lab):
    """Its environment has a module that no other interpreter has. Of a search that fails the reason is told."""
    if subprocess.run([sys.executable, "-c", "import cloudpickle"], capture_output=True).returncode != 0:
        raise Skip("cloudpickle is not installed: apt-get install python3-cloudpickle")
    made = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", lab.dir / "its own"]
    if subprocess.run(made, capture_output=True).returncode != 0:
        raise Skip("no virtual environment can be made: apt-get install python3-venv")
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    python = lab.dir / "its own" / "bin" / "python"
    (packages,) = (lab.dir / "its own").glob("lib/python*/site-packages")
    (packages / "only_here.py").write_text("VALUE = 7")
    shutil.copy(PROGRAMS / "client_venv.py", lab.dir)
    environment = {**os.environ, "SHOAL_DIR": str(node.dir), "PATH": f"{node.bin}:{os.environ['PATH']}",
                   "PYTHONPATH": str(ROOT / "train" / "python")}
    done = subprocess.run([python, "client_venv.py"], cwd=lab.dir, env=environment, capture_output=True, text=True, timeout=100)
    expect(done.returncode == 0, f"the script failed: {done.stderr}\n{node.run('ls')}")
    answer = json.loads(done.stdout)
    expect(answer["best"]["validation"] == {"loss": 7.0}, f"the result is {answer['best']}")
    expect(answer["said"] == "No trial of broken has reported loss: its trial failed: ZeroDivisionError: division by zero",
           f"the sentence is {answer['said']}")
    expect("status 1" in answer["row"]["reason"], f"its row is {answer['row']}")
    last = f"shoal: trial 0 ended with: ZeroDivisionError: division by zero; client.experiment('{answer['id']}').trial(0).logs() has"
    expect(f"shoal: broken: trial 0 failed: {answer['row']['reason']}\n{last}" in done.stderr, f"the end is told: {done.stderr}")
