"""How workers end, and what is told of it: whose failure it was, and nothing of what came before is lost."""

import subprocess

from case_owners import slots_of
from lab import case, expect, show, wait_over, wait_until
from look import workers_of


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
