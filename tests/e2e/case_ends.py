"""How workers end, and what is told of it: whose failure it was, and nothing of what came before is lost."""

import os
import shutil
import signal
import subprocess
import time

from case_owners import slots_of
from lab import case, expect, processes_naming, show, wait_over, wait_until
from look import events_of, refusal, workers_of


def config(name, entrypoint, **more):
    return {"name": name, "entrypoint": entrypoint, "searcher": {"name": "single", "metric": "accuracy"}, **more}


@case(limit_s=60)
def a_machine_that_cannot_start_a_worker_charges_no_program(lab):
    """A directory is where the lock of birch's slot should be: shoal-keep starts nothing, and says so."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    lock = birch.dir / "slot-0.lock"
    lock.mkdir()
    identity = lab.submit(alder, config("blameless", "true", max_restarts=0))
    why = "cannot be taken: Is a directory"
    seen = wait_until(lambda: why in str(show(mesh, identity)["trials"]) and show(mesh, identity), 30, f"the reason '{why}'")
    expect(seen["state"] in ("queued", "running"), f"the program is blamed for it: {seen}")
    lock.rmdir()
    trial = wait_over(mesh, identity, 40)["trials"][0]
    expect(trial["restarts"] == 0, f"the program is charged with it: {trial}")


@case(limit_s=90)
def the_best_checkpoint_that_is_kept_is_the_one_that_was_measured_best(lab):
    """It is saved at every end of an epoch, where it is validated, too: with what that found, not with what the epoch before had."""
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    identity = lab.submit(node, config(
        "best", "shoal-train mlp", checkpoint={"save_trial_best": 1, "save_trial_latest": 0},
        searcher={"name": "single", "metric": "accuracy", "smaller_is_better": False},
        hyperparameters={"hidden": 16, "batch_size": 500, "epochs": 10, "learning_rate": 0.5, "checkpoint_every": 55}))
    wait_over(mesh, identity, 60)
    points = [point for point in node.json_lines("metrics", identity) if point["group"] == "validation"]
    best = max(points, key=lambda point: (point["metrics"]["accuracy"], -point["step"]))["step"]
    expect(len(points) >= 10, f"of ten epochs were validated: {points}")
    kept = wait_until(lambda: (rows := node.json("checkpoint", "ls", identity)["checkpoints"]) is not None and len(rows) < 2 and rows, 40,
                      "one checkpoint to be left")
    expect([row["step"] for row in kept] == [best], f"step {best} is the best, step {kept[0]['step']} is kept: {points}")


@case(limit_s=60)
def the_last_lines_of_a_log_are_shown_behind_a_nul_too(lab):
    mesh = lab.mesh(1)
    identity = lab.submit(mesh.nodes[0], config("binary", "printf 'a\\000b\\n'; echo the real reason; exit 1", max_restarts=0))
    trial = wait_over(mesh, identity, 30, state="failed")["trials"][0]
    expect(trial["tail"] == "a?b\nthe real reason\n" or trial["tail"] == "a?b\nthe real reason", f"the tail is {trial['tail']!r}")
    expect(refusal(mesh.nodes[0], "checkpoint", "get", f"{identity}/0", lab.dir / "out", code=4).endswith("has no checkpoint (yet)."), "of a step")


@case(limit_s=60)
def what_a_worker_saved_last_is_where_the_next_attempt_begins(lab):
    """It crashes right after it has handed over a checkpoint so large that storing it lasts longer than seeing the crash."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    worker, been = f"{lab.build}/scripted_worker", lab.dir / "been"
    identity = lab.submit(node, config("crashes", f"mkdir {been} && exec {worker} save:7:{256 << 20} exit:3; "
                                       f"exec {worker} started", max_restarts=1))
    trial = wait_over(mesh, identity, 50)["trials"][0]
    expect(trial["attempt"] == 2 and trial["restarts"] == 1, f"not one crash: {trial}")
    said = node.run("logs", f"{identity}/0")
    expect("begins from step 7" in said, f"the checkpoint came too late for the next attempt:\n{said}")


@case(limit_s=60)
def how_a_worker_ended_outlives_a_daemon_that_could_not_write_it(lab):
    """The disk hangs when the worker is done, and the daemon dies then: the next one still finds that it was done."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    gate = lab.dir / "gate"
    identity = lab.submit(node, config("done", f"while [ ! -e {gate} ]; do sleep 0.1; done"))
    wait_until(lambda: workers_of(identity), 20, "a worker")
    hold = subprocess.Popen([f"{lab.build}/hold_state", node.dir], stdout=subprocess.PIPE, text=True)
    try:
        expect(hold.stdout.readline() == "held\n", "the disk does not hang")
        gate.touch()
        wait_until(lambda: slots_of(node, node.name) == {0: "free"}, 20, "the daemon to see the end")
        node.kill_daemon()
    finally:
        hold.kill()
        hold.wait()
    node.start()
    trial = wait_over(mesh, identity, 30)["trials"][0]
    expect(trial["attempt"] == 1, f"what was done is run again: {trial}")
    wait_until(lambda: not list((node.dir / "runs").iterdir()), 20, "its directory to be removed")


def best_of(mesh, identity):
    return (wait_over(mesh, identity, 30)["best"] or {}).get("value")


@case(limit_s=60)
def the_searchers_metric_is_told_beside_any_others(lab):
    """Its name is long, and more metrics were reported before it than a progress record has room for."""
    mesh = lab.mesh(1, slots="cpu:1")
    metric = "mean_average_precision_at_a_large_intersection_over_union"
    identity = lab.submit(mesh.nodes[0], config(
        "many", f"exec {lab.build}/scripted_worker many:training:60 many:validation:60 report:validation:{metric}:1:0.5 flush",
        searcher={"name": "single", "metric": metric}))
    expect(best_of(mesh, identity) == 0.5, f"the metric is lost: {show(mesh, identity)}")


@case(limit_s=60)
def what_a_worker_reported_outlives_the_daemon(lab):
    """Two daemons die, the second one right after a report, which was in the series by then but in no progress record."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    first, second = lab.dir / "first", lab.dir / "second"
    identity = lab.submit(node, config(
        "reporter", f"exec {lab.build}/scripted_worker report:validation:accuracy:1:0.5 report:training:loss:1:4 await:{first} "
        f"report:training:rate:2:3 flush report:training:loss:3:2 await:{second} flush",
        searcher={"name": "single", "metric": "accuracy", "smaller_is_better": False}))
    groups = {"validation": {"accuracy": 0.5}, "training": {"loss": 4}}
    wait_until(lambda: show(mesh, identity)["trials"][0]["metrics"] == groups, 20, f"the metrics {groups}")
    node.kill_daemon()
    node.start()
    first.touch()
    wait_until(lambda: any(point["step"] == 3 for point in node.json_lines("metrics", identity)), 20, "the last point")
    node.kill_daemon()
    node.start()
    groups["training"] = {"loss": 2, "rate": 3}
    wait_until(lambda: show(mesh, identity)["trials"][0]["metrics"] == groups, 10, f"the metrics {groups}")
    second.touch()
    expect(best_of(mesh, identity) == 0.5, f"the metric is lost: {show(mesh, identity)}")


@case(limit_s=60)
def a_machine_that_slept_gives_its_workers_the_rest_of_their_time(lab):
    """It falls asleep while a worker saves and leaves, for longer than that may take."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    ready, asked, gate = lab.dir / "ready", lab.dir / "asked", lab.dir / "gate"
    identity = lab.submit(node, config("sleeper", f"exec {lab.build}/scripted_worker touch:{ready} stops touch:{asked} "
                                       f"await:{gate} save:5:1000 flush", preemption_timeout=6))
    wait_until(ready.exists, 20, "the worker")
    node.run("pause", identity)
    wait_until(asked.exists, 10, "the worker to hear it")
    machine = [node.daemon.pid, *processes_naming(node.dir)]
    for process in machine:
        os.kill(process, signal.SIGSTOP)
    time.sleep(7)
    for process in machine:
        os.kill(process, signal.SIGCONT)
    wait_until(lambda: any("stalled for" in text for text in events_of(node)), 10, "the daemon to be awake")
    for _ in range(5):
        node.json("status")  # it has looked at what is due, and what it kills at once is gone
    gate.touch()
    wait_until(lambda: not workers_of(identity), 20, "the worker to leave")
    trial = wait_until(lambda: show(mesh, identity)["state"] == "paused" and show(mesh, identity)["trials"][0], 20, "the pause")
    expect((trial["checkpoint"] or {}).get("step") == 5, f"it was killed before it had saved: {trial}")


@case(limit_s=60)
def what_a_worker_reported_outlives_a_disk_that_had_no_time_for_the_series(lab):
    """The disk that has series hangs when the last report comes, and the daemon dies once another node has it from its record."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    second, last = lab.dir / "second", lab.dir / "last"
    identity = lab.submit(alder, config(
        "reporter", f"exec {lab.build}/scripted_worker report:validation:accuracy:1:0.25 flush await:{second} "
        f"report:validation:accuracy:2:0.5 await:{last} flush",
        searcher={"name": "single", "metric": "accuracy", "smaller_is_better": False}))

    def accuracy():
        return ((show(mesh, identity)["trials"][0]["metrics"] or {}).get("validation") or {}).get("accuracy")

    wait_until(lambda: any(point["step"] == 1 for point in birch.json_lines("metrics", identity)), 20, "the first point")
    hold = subprocess.Popen([f"{lab.build}/hold_state", birch.dir, "chunks"], stdout=subprocess.PIPE, text=True)
    try:
        expect(hold.stdout.readline() == "held\n", "the disk does not hang")
        second.touch()
        wait_until(lambda: accuracy() == 0.5, 20, "the second report in birch's record")
        birch.kill_daemon()
    finally:
        hold.kill()
        hold.wait()
    birch.start()
    last.touch()
    expect(best_of(mesh, identity) == 0.5, f"the last report is lost: {show(mesh, identity)}")


@case(limit_s=90)
def reports_wait_for_a_disk_that_hangs(lab):
    """Until it has taken what the program has printed: each that the daemon has taken is kept."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    begin, printed, reports = lab.dir / "begin", lab.dir / "printed", lab.dir / "reports"
    identity = lab.submit(node, config(
        "hangs", f"while [ ! -e {begin} ]; do sleep 0.1; done; seq 1 1800000; touch {printed}; "
        f"while [ ! -e {reports} ]; do sleep 0.1; done; exec {lab.build}/scripted_worker many:training:400 flush"))
    wait_until(lambda: workers_of(identity), 20, "a worker")
    hold = subprocess.Popen([f"{lab.build}/hold_state", node.dir, "chunks"], stdout=subprocess.PIPE, text=True)
    try:
        expect(hold.stdout.readline() == "held\n", "the disk does not hang")
        begin.touch()
        wait_until(lambda: printed.exists(), 30, "all lines")
        time.sleep(2)  # what is read of them goes to the disk, until no more fits
        reports.touch()
        time.sleep(3)
    finally:
        hold.kill()
        hold.wait()
    wait_over(mesh, identity, 40)
    points = [point for point in node.json_lines("metrics", identity) if point["group"] == "training"]
    expect(len(points) == 400, f"{len(points)} of 400 points")


def remains_of_a_worker(lab, node, mesh):
    """What a directory of an ended worker looks like, as (its name, a copy), since this node has removed it."""
    gate, left = lab.dir / "gate", lab.dir / "left"
    identity = lab.submit(node, config("ends", f"while [ ! -e {gate} ]; do sleep 0.1; done"))
    wait_until(lambda: workers_of(identity), 20, "a worker")
    run = next((node.dir / "runs").iterdir())
    hold = subprocess.Popen([f"{lab.build}/hold_state", node.dir], stdout=subprocess.PIPE, text=True)
    try:
        expect(hold.stdout.readline() == "held\n", "the disk does not hang")
        gate.touch()
        wait_until(lambda: slots_of(node, node.name) == {0: "free"}, 20, "the daemon to see the end")
        shutil.copytree(run, left, ignore=lambda _, names: [name for name in names if "sock" in name], symlinks=True)
    finally:
        hold.kill()
        hold.wait()
    wait_over(mesh, identity, 30)
    return run.name, left


def put_remains(node, name, left):
    for number in range(8):  # in whatever order they are found
        shutil.copytree(left, node.dir / "runs" / f"{name}-{number}", symlinks=True)


def tokens_of(identity):
    """{pid: token}: of a shell that has not become its program yet other variables may differ."""
    return {pid: environment["SHOAL_TOKEN"] for pid, environment in workers_of(identity)}


@case(limit_s=60)
def what_is_left_of_ended_workers_takes_no_slot_from_one_that_runs(lab):
    """Directories of ended workers could not be removed, as a program's that may not be written, and the daemon is restarted."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    name, left = remains_of_a_worker(lab, node, mesh)
    identity = lab.submit(node, config("runs", "exec sleep 600"))
    before = wait_until(lambda: tokens_of(identity), 20, "the next worker")
    node.kill_daemon()
    put_remains(node, name, left)
    node.start()
    wait_until(lambda: len(list((node.dir / "runs").iterdir())) == 1, 20, "what is left to be removed")
    expect(tokens_of(identity) == before, f"it was {before}, and is {tokens_of(identity)}")
    expect(slots_of(node, node.name) == {0: "leased"}, f"{slots_of(node, node.name)}")


@case(limit_s=60)
def what_is_left_of_ended_workers_hides_no_end(lab):
    """The same, and the last worker is done while no daemon is there."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    name, left = remains_of_a_worker(lab, node, mesh)
    done = lab.dir / "done"
    identity = lab.submit(node, config("runs", f"while [ ! -e {done} ]; do sleep 0.1; done"))
    wait_until(lambda: workers_of(identity), 20, "the next worker")
    run = next((node.dir / "runs").iterdir())
    node.kill_daemon()
    done.touch()
    wait_until((run / "status").exists, 20, "its end")
    put_remains(node, name, left)
    node.start()
    trial = wait_over(mesh, identity, 30)["trials"][0]
    expect(trial["attempt"] == 1, f"what was done is run again: {trial}")


@case(limit_s=60)
def a_daemon_stops_with_much_under_way(lab):
    """Copies to a machine that has just fallen silent, a log that is followed and grows, copies that are being verified.
    Under sanitizers it has to forget all of it, too."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "cpu:1", "none"
    mesh.start()
    gate = lab.dir / "gate"
    identity = lab.submit(alder, config("saver", f"(while sleep 0.01; do seq 1 20000; done) & exec {lab.build}/scripted_worker "
                                        f"save:5:1000 flush await:{gate} flush"))
    wait_until(lambda: len(((show(mesh, identity)["trials"][0]["checkpoint"]) or {}).get("holders", [])) == 2, 20, "two copies")
    os.kill(birch.daemon.pid, signal.SIGSTOP)
    asking = []
    for arguments in (["logs", f"{identity}/0", "--follow"], ["checkpoint", "verify", f"{identity}/0"]):
        asking.append(subprocess.Popen([f"{lab.build}/shoal", *arguments, "--dir", alder.dir], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL))
    lab.submit(alder, config("copied", "true"))
    alder.kill_daemon(signal.SIGTERM)
    os.kill(birch.daemon.pid, signal.SIGCONT)
    expect(alder.daemon.returncode == 0, f"it ended with {alder.daemon.returncode}")
    for process in asking:
        process.wait(20)  # its daemon has gone
    alder.start()
    gate.touch()
    wait_over(mesh, identity, 30)
