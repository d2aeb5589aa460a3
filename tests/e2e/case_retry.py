"""`shoal retry`: one trial that is over runs again, from its newest checkpoint."""

from lab import case, expect, show, wait_over, wait_until
from look import refusal


def config(name, entrypoint, trials=1, **more):
    return {"name": name, "entrypoint": entrypoint, "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": trials}, **more}


def trial_of(mesh, identity, index):
    return show(mesh, identity)["trials"][index]


def wait_state(mesh, identity, index, state, timeout=30):
    return wait_until(lambda: t if (t := trial_of(mesh, identity, index))["state"] == state else None, timeout,
                      f"trial {index} to be {state}")


def saves_then(lab, mended, otherwise):
    """Saves step 7; is done once `mended` is there and it goes on from that step; else does `otherwise`."""
    worker = f"{lab.build}/scripted_worker"
    return (f"if [ -e {mended} ]; then exec {worker} started report:validation:accuracy:9:0.9 flush; fi; "
            f"{worker} report:validation:accuracy:3:0.5 save:7:1000 flush || exit 5; {otherwise}")


@case(limit_s=120)
def a_failed_trial_is_retried_and_completes(lab):
    """The program is mended by a file beside it; the experiment was over, and its waits, logs and states go on."""
    mesh = lab.mesh(3, slots="cpu:1")
    alder, birch, cedar = mesh.nodes
    mended = lab.dir / "mended"
    identity = lab.submit(alder, config("fails", saves_then(lab, mended, "echo broken; exit 3"), max_restarts=1))
    failed = wait_over(mesh, identity, 60, "failed", viewer=cedar)["trials"][0]
    expect(failed["restarts"] == 1 and failed["checkpoint"]["step"] == 7, f"it ended so: {failed}")
    text = refusal(alder, "wait", identity, code=1)
    expect("failed" in text, text)
    said = cedar.run("retry", f"{identity}/0")
    expect(said.startswith(f"trial 0 of {identity} is to run again, stored on "), f"the answer is {said!r}")
    wait_until(lambda: trial_of(mesh, identity, 0)["attempt"] > failed["attempt"], 30, "another attempt")
    again = wait_over(mesh, identity, 60, "failed")["trials"][0]
    expect(again["attempt"] == failed["attempt"] + 2, f"its failures from before count: {again}")
    mended.touch()
    answer = birch.json("retry", f"{identity}/0")
    expect(answer["state"] == "running" and "already" not in answer, f"the answer is {answer}")
    alder.run("wait", identity, "--timeout", "60")  # exit code 0: it waits for the retry
    expect("experiment fails completed\n" in cedar.run("watch", identity), "watch tells of another end")
    done = trial_of(mesh, identity, 0)
    expect(done["state"] == "completed" and done["attempt"] == again["attempt"] + 1, f"it ended so: {done}")
    log = birch.run("logs", f"{identity}/0", "--follow", "--raw")
    expect("from step 7" in log, f"it went on from elsewhere: {log!r}")
    text = refusal(birch, "retry", f"{identity}/0", code=1)
    expect(text == "shoal: Trial 0 is completed, so there is nothing to retry.", text)


@case(limit_s=120)
def a_stopped_trial_is_retried(lab):
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    mended, done = lab.dir / "mended", lab.dir / "done"
    worker = f"exec {lab.build}/scripted_worker"
    script = (f"case $SHOAL_TRIAL in 0) {worker} report:validation:accuracy:3:0.1 flush await:{done};; "
              f"*) if [ -e {mended} ]; then {worker} started report:validation:accuracy:9:0.9 flush; fi; "
              f"{worker} report:validation:accuracy:3:0.5 flush stops save:7:1000 flush;; esac")
    identity = lab.submit(alder, config("stops", script, trials=2))
    wait_until(lambda: all(t["metrics"] for t in show(mesh, identity)["trials"]), 30, "both to report")
    text = refusal(birch, "retry", f"{identity}/1", code=1)
    expect(text == "shoal: Trial 1 is running, so there is nothing to retry; a failed or stopped trial can be retried.", text)
    birch.run("stop", f"{identity}/1")
    wait_state(mesh, identity, 1, "stopped")
    mended.touch()
    answer = alder.json("retry", f"{identity}/1")
    expect(answer["trial"] == 1 and answer["state"] == "running", f"the answer is {answer}")
    trial = wait_state(mesh, identity, 1, "completed")
    expect(trial["attempt"] == 2 and trial["reason"] != "the trial is stopped", f"it ended so: {trial}")
    done.touch()
    final = wait_over(mesh, identity, 30)
    expect([t["state"] for t in final["trials"]] == ["completed", "completed"], f"they are {final['trials']}")


@case(limit_s=120)
def what_cannot_run_again_is_refused_in_one_sentence(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, config("fails", "exit 3", trials=2, max_restarts=0))
    wait_over(mesh, identity, 30, "failed")
    text = refusal(node, "retry", f"{identity}/2", code=4)
    expect(text.startswith("shoal: ") and "2" in text, text)
    refusal(node, "retry", "0123456789abcdef/0", code=4)
    refusal(node, "retry", identity, code=2)
    refusal(node, "retry", f"{identity}/x", code=2)
    cancelled = lab.submit(node, config("ends", "sleep 60"))
    wait_state(mesh, cancelled, 0, "running")
    node.run("cancel", cancelled)
    text = refusal(node, "retry", f"{cancelled}/0", code=1)
    expect(text == "shoal: The experiment of trial 0 is cancelled, so none of its trials runs again; submit it again.", text)
    node.run("delete", identity, "--yes")
    refusal(node, "retry", f"{identity}/0", code=4)
    expect("retry" in node.run("help"), "the help does not list it")
