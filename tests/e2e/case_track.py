"""Finding, noting, comparing and repeating experiments: shoal ls, label, describe, archive, pin, config, code, fork, reproduce, compare."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

from lab import Refused, case, expect, show, wait_over, wait_until
from look import refusal

PROGRAM = """exec {build}/scripted_worker report:validation:accuracy:3:0.$SHOAL_TRIAL flush"""
SEARCH = {"x": {"type": "double", "minval": 0, "maxval": 1}, "optimizer": {"lr": {"type": "log", "minval": -4, "maxval": -1}}}


def config(lab, name, **more):
    return {"name": name, "entrypoint": PROGRAM.format(build=lab.build), "hyperparameters": SEARCH,
            "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 2}, **more}


def names(node, *options):
    return [row["name"] for row in csv.DictReader(io.StringIO(node.run("ls", "--csv", "--columns", "name", *options)))]


@case(limit_s=120)
def notes_are_made_on_one_node_and_found_on_another(lab):
    mesh = lab.mesh(2)
    alder, birch = mesh.nodes
    first = lab.submit(alder, config(lab, "first", labels=["data=small", "old"], description="from the file"))
    second = lab.submit(birch, config(lab, "second"))
    for identity in (first, second):
        wait_over(mesh, identity, 60)
    alder.run("label", "second", "lr=low", "best")
    alder.run("label", "first", "data=large")
    alder.run("label", "first", "old", "--remove")
    alder.run("describe", "second", "warm restarts")
    wait_until(lambda: show(mesh, second)["description"] == "warm restarts" and "best" in show(mesh, second)["labels"], 20, "the notes")
    birch.run("describe", "second/1", "the one to look at")
    wait_until(lambda: alder.json("show", "second/1")["trial"].get("description") == "the one to look at", 20, "the note about a trial")
    expect("\nthe one to look at\n" in alder.run("show", "second/1"), "show EXP/TRIAL has no note")
    expect("DESCRIPTION" in alder.run("show", "second") and "DESCRIPTION" not in alder.run("show", "first"), "show EXP")
    birch.run("describe", "second/1", "")
    wait_until(lambda: "description" not in alder.json("show", "second/1")["trial"], 20, "the note to be taken back")
    text = refusal(birch, "describe", "second/2", "x", code=4)
    expect("no trial 2" in text or "trial 2" in text, f"it is said so: {text}")
    rows = {row["name"]: row for row in birch.json("ls")["experiments"]}
    expect(rows["first"]["labels"] == {"data": "large"} and rows["first"]["description"] == "from the file", f"first: {rows['first']}")
    expect(rows["second"]["labels"] == {"best": "", "lr": "low"}, f"second: {rows['second']['labels']}")
    expect(names(birch, "--label", "lr=low") == ["second"] and names(birch, "--label", "data") == ["first"], "labels find others")
    expect(names(birch, "--sort", "-name") == ["second", "first"] and names(birch, "--state", "running") == [], "the order is wrong")
    expect("labels: best lr=low\n" in birch.run("show", "second"), "show has no labels")
    text = refusal(birch, "label", "first", "old", "--remove", code=4)
    expect("first has no label old" in text, f"it is said so: {text}")

    birch.run("pin", "second")
    wait_until(lambda: show(mesh, second)["pinned"], 20, "the pin")
    text = refusal(alder, "delete", "second", "--yes", code=1)
    expect("second is pinned" in text, f"it is said so: {text}")
    alder.run("archive", "first", "second")
    wait_until(lambda: names(birch) == [], 20, "both to be archived")
    expect(sorted(names(birch, "--archived")) == ["first", "second"], "--archived does not list them")
    alder.run("unarchive", "second")
    alder.run("unpin", "second")
    wait_until(lambda: names(birch) == ["second"], 20, "one to be listed again")
    wait_until(lambda: not show(mesh, second)["pinned"], 20, "the pin to be gone")
    for node in mesh.nodes:
        node.kill_daemon()
        node.start()
    expect(names(alder) == ["second"] and names(alder, "--archived", "--label", "data=large") == ["first"], "a restart forgets")
    birch.run("delete", "second", "--yes")
    wait_until(lambda: names(alder) == [], 20, "it to be gone")


def git(context, *arguments):
    home = {"HOME": str(context), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=context, env=home, check=True,
                          capture_output=True, text=True).stdout.strip()


def identity_of(said):
    return next(line for line in said.splitlines() if line.startswith("submitted ")).split()[-1]


def environment_of(mesh, identity, trial):
    """What the program of this trial printed of its surroundings."""
    return dict(line.split("=", 1) for line in mesh.nodes[0].run("logs", f"{identity}/{trial}", "--raw").splitlines() if "=" in line)


@case(limit_s=150)
def an_experiment_is_forked_and_a_trial_reproduced(lab):
    mesh = lab.mesh(2)
    alder, birch = mesh.nodes
    context = Path(alder.tree) / "code"
    context.mkdir()
    (context / "train.sh").write_text("echo seed=$SHOAL_SEED; echo x=$SHOAL_HP_X; echo lr=$SHOAL_HP_OPTIMIZER__LR; cat note.txt; "
                                      f"exec {lab.build}/scripted_worker report:validation:accuracy:3:0.5 flush\n")
    (context / "note.txt").write_text("note=first\n")
    (context / "base.yaml").write_text("max_restarts: 1\nresources: {priority: 7, slots_per_trial: 4}\nseed: 11\n")
    (context / "exp.yaml").write_text("extends: base.yaml\nname: lr-search\nentrypoint: sh train.sh {{hp.optimizer.lr}}\n"
                                      f"hyperparameters: {json.dumps(SEARCH)}\nresources: {{slots_per_trial: 1}}\n"
                                      "searcher: {name: random, metric: accuracy, smaller_is_better: false, max_trials: 1}\n")
    git(context, "init", "-q")
    git(context, "add", ".")
    git(context, "commit", "-q", "-m", "one")
    commit = git(context, "rev-parse", "HEAD")
    (context / "note.txt").write_text("note=changed\n")
    original = identity_of(alder.run("submit", context / "exp.yaml", "--set", "searcher.max_trials=3"))
    wait_over(mesh, original, 60)
    wait_until(lambda: any(row["id"] == original for row in birch.json("ls")["experiments"]), 20, "birch to know it")

    options = birch.json("config", original)["config"]
    expect(options["resources"]["priority"] == 7 and options["max_restarts"] == 1 and options["searcher"]["max_trials"] == 3 and
           options["resources"]["slots_per_trial"] == 1, f"the configuration is {options}")
    alder.run("extend", original, "--max-trials", "4")
    wait_until(lambda: birch.json("config", original)["changed"] == {"searcher.max_trials": 3}, 20, "birch to know what has changed")
    expect("searcher.max_trials: 4  # changed; it was submitted with 3\n" in birch.run("config", original), "it is not said what was changed")
    wait_over(mesh, original, 60)
    text = birch.run("config", original, "--file")
    expect(f"# shoal: commit {commit}\n" in text and "# shoal: set searcher.max_trials=3\n" in text and "# shoal: diff " in text,
           f"the file is {text}")
    written = Path(birch.tree) / "back"
    said = birch.run("code", original, written)
    expect((written / "note.txt").read_text() == "note=changed\n" and f"commit {commit} with changes" in said, f"it says {said}")
    said = refusal(birch, "code", original, written, code=1)  # nothing is replaced
    expect("name a new or an empty directory" in said, said)

    fork = identity_of(birch.run("fork", "lr-search", "--set", "searcher.max_trials=1", "--set", "resources.priority=9"))
    shown = wait_over(mesh, fork, 60)
    expect(shown["name"] == "lr-search-2" and len(shown["trials"]) == 1, f"the fork is {shown['name']}")
    expect(environment_of(mesh, fork, 0) == environment_of(mesh, original, 0), "the fork's first trial differs")

    again = identity_of(birch.run("reproduce", f"{original}/2"))
    shown = wait_over(mesh, again, 60)
    expect(len(shown["trials"]) == 1 and shown["name"] == "lr-search-3", f"it is {shown['name']}")
    before, after = environment_of(mesh, original, 2), environment_of(mesh, again, 0)
    expect(before == after and set(before) == {"seed", "x", "lr", "note"}, f"{before} became {after}")

    rows = {row["key"]: row["values"] for row in birch.json("compare", f"{original}/2", f"{again}/0")["rows"]}
    expect(rows["searcher.name"] == ["random", "single"] and "hyperparameters.x" not in rows and "commit" not in rows and
           "validation.accuracy" not in rows, f"the rows are {rows}")
    rows = {row["key"]: row["values"] for row in alder.json("compare", original, fork)["rows"]}
    expect(rows["resources.priority"] == ["7", "9"], f"the rows are {rows}")
    again = identity_of(birch.run("reproduce", f"{again}/0"))  # the third in a row has the seed of the first
    wait_over(mesh, again, 60)
    expect(environment_of(mesh, again, 0) == before, "the reproduction of a reproduction differs")


@case(limit_s=60)
def a_priority_can_be_changed_until_the_experiment_is_over(lab):
    mesh = lab.mesh(2)
    alder, birch = mesh.nodes
    done = lab.dir / "done"
    identity = lab.submit(alder, {"name": "waits", "entrypoint": f"exec {lab.build}/scripted_worker await:{done}", "resources": {"priority": 50}})
    wait_until(lambda: names(birch) == ["waits"], 20, "birch to know it")
    expect(birch.json("ls")["experiments"][0]["priority"] == 50, "the configuration's priority is not in force")
    text = refusal(birch, "set", "waits", "priority=0", code=2)
    expect("'0' is no priority" in text, f"it is said so: {text}")
    refusal(birch, "set", "waits", "max_restarts=0", code=2)
    birch.run("set", "waits", "priority=1")
    wait_until(lambda: alder.json("ls")["experiments"][0]["priority"] == 1, 20, "alder to hear of it")
    answer = alder.json("config", "waits")
    expect(answer["config"]["resources"]["priority"] == 1 and answer["changed"] == {"resources.priority": 50}, f"in force is {answer}")
    done.touch()
    wait_over(mesh, identity, 30)
    text = refusal(alder, "set", "waits", "priority=5", code=1)
    expect("completed already" in text, f"it is said so: {text}")


@case(limit_s=90)
def a_large_configuration_comes_back_whole(lab):
    """It is in a blob with its packed form, which another node fetches first; its labels are known there once users change them."""
    mesh = lab.mesh(2)
    alder, birch = mesh.nodes
    entrypoint = f"true {'x' * 9000}; exec {lab.build}/scripted_worker report:validation:accuracy:3:0.5 flush"
    identity = lab.submit(alder, {"name": "large", "entrypoint": entrypoint, "labels": ["a"], "max_restarts": 2})
    wait_over(mesh, identity, 60)
    text = birch.run("config", identity, "--file")
    expect(json.loads(text.split("\n# shoal: ")[0])["entrypoint"] == entrypoint, f"the file is {text[:200]}")
    options = wait_until(lambda: config_if_there(birch, identity), 20, "birch to have the configuration")
    expect(options["entrypoint"] == entrypoint and options["labels"] == ["a"], "the options are others")
    birch.run("label", identity, "b=1")
    wait_until(lambda: show(mesh, identity)["labels"].get("b") == "1", 20, "the label")
    fork = identity_of(birch.run("fork", identity, "--set", "max_restarts=0"))
    wait_over(mesh, fork, 60)
    expect(alder.json("config", fork)["config"]["max_restarts"] == 0, "the fork has the old value")


def config_if_there(node, identity):
    try:
        return node.json("config", identity)["config"]
    except Refused:
        return None


@case(limit_s=120)
def what_a_trial_ran_on_is_kept_and_compared(lab):
    """The interpreter and its packages, as they were when each trial began, shown on the node that did not run it."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    site = lab.dir / "site"

    def install(name, version):
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    install("Some_Package", "1.5")
    install("other", "2.0")
    config = {"entrypoint": f"PYTHONDONTWRITEBYTECODE=1 {sys.executable} -c 'print(1)'", "searcher": {"name": "single", "metric": "a"},
              "environment": {"variables": {"PYTHONPATH": str(site)}}}
    first = lab.submit(alder, {"name": "first", **config})
    wait_over(mesh, first, 40)

    def platform(identity):
        done = subprocess.run([alder.bin / "shoal", "show", f"{identity}/0", "--packages", "--json", "--dir", alder.dir], capture_output=True,
                              text=True)
        return done.returncode == 0 and json.loads(done.stdout)
    ran_on = wait_until(lambda: platform(first), 30, "what it ran on")
    expect(ran_on["python"] == sys.version.split()[0] and ran_on["system"].startswith("Linux "), f"{ran_on}")
    expect((ran_on["packages"]["some-package"], ran_on["packages"]["other"]) == ("1.5", "2.0"), f"{ran_on}")
    expect(ran_on["driver"] is None or ran_on["driver"][0].isdigit(), f"{ran_on}")
    (site / "Some_Package-1.5.dist-info" / "METADATA").unlink()
    (site / "Some_Package-1.5.dist-info").rmdir()
    install("Some_Package", "1.6")
    second = lab.submit(alder, {"name": "second", **config})
    wait_over(mesh, second, 40)
    wait_until(lambda: platform(second), 30, "what the second one ran on")
    expect(platform(second)["packages"]["some-package"] == "1.6", "packages that were asked for before an installation are told again")
    rows = {row["key"]: row["values"] for row in alder.json("compare", f"{first}/0", f"{second}/0")["rows"]}
    expect(rows["package some-package"] == ["1.5", "1.6"] and "package other" not in rows and "python" not in rows, f"{rows}")
    expect(len(set(rows["packages"])) == 2, f"{rows}")
    page = alder.run("show", f"{first}/0")
    expect(f"Python {ran_on['python']}" in page and ran_on["packages_hash"] in page, page)
    expect("some-package==1.5\n" in alder.run("show", f"{first}/0", "--packages"), "the list")
    script = lab.submit(alder, {"name": "script", "entrypoint": "echo no Python here", "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, script, 40)
    wait_until(lambda: platform(script), 30, "what a script ran on")
    expect(platform(script)["python"] is None and platform(script)["packages"] == {}, f"{platform(script)}")
    done = subprocess.run([alder.bin / "shoal", "show", first, "--packages", "--dir", alder.dir], capture_output=True, text=True)
    expect(done.returncode == 2 and "--packages is of one trial" in done.stderr, f"{done}")
    done = subprocess.run([alder.bin / "shoal", "show", f"{first}/9", "--packages", "--dir", alder.dir], capture_output=True, text=True)
    expect(done.returncode == 4 and "There is no trial 9" in done.stderr, f"{done}")
