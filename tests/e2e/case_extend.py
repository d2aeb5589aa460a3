"""Searches that go on: what a program sees of its budget, and further trials for an experiment that runs or is over."""

import json
import signal

from case_elastic import elastic, generation_of
from case_search import decisions, replay, search
from lab import case, expect, show, wait_over, wait_until
from look import refusal


@case(limit_s=120)
def a_program_sees_how_far_its_trial_may_go(lab):
    """By run.until and by variables; a program of an experiment without rungs may go as far as it likes."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    told = ("echo rungs=$SHOAL_RUNGS unit=$SHOAL_RUNG_UNIT; python3 -c 'import shoal; run = shoal.init(); "
            "print([run.until(step) for step in (0, 1, 2.5, 3, 9, 12)])'")
    early = search(lab, 2, max_length={"epochs": 9})
    early["entrypoint"] = told
    early["searcher"]["max_concurrent_trials"] = 2
    identity = lab.submit(node, early)
    wait_over(mesh, identity, 60)
    lines = node.run("logs", f"{identity}/1").splitlines()
    expect("rungs=1 3 9 unit=epochs" in lines and "[1, 3, 3, 9, 9, 9]" in lines, f"the program wrote {lines}")
    other = lab.submit(node, {"name": "alone", "entrypoint": told})
    wait_over(mesh, other, 60)
    lines = node.run("logs", f"{other}/0").splitlines()
    expect("rungs= unit=" in lines and "[None, None, None, None, None, None]" in lines, f"the program wrote {lines}")


def settled(node, identity, total):
    """All trials are over."""
    trials = next(e for e in node.json("ls")["experiments"] if e["id"] == identity)["trials"]
    return trials["total"] == total and trials["completed"] + trials["stopped"] == total


def values(node, identity):
    return {t["index"]: t["hyperparameters"] for t in node.json("show", identity)["experiment"]["trials"]}


@case(limit_s=240)
def a_search_that_runs_or_is_over_gets_further_trials(lab):
    """The further trials are those that a larger search would have, and are judged beside the earlier ones; daemons are restarted."""
    mesh = lab.mesh(2, slots="cpu:2")
    first, second = mesh.nodes
    identity = lab.submit(first, {**search(lab, 4), "seed": 5})
    whole = lab.submit(first, {**search(lab, 14), "seed": 5, "name": "whole"})
    second.run("cancel", whole)
    wait_until(lambda: len(decisions(first, identity)) > 0, 60, "a decision")
    text = second.run("extend", identity, "--max-trials", "8")
    expect("has 8 trials, stored on 2 nodes" in text, f"it says {text}")
    wait_until(lambda: settled(first, identity, 8), 120, "8 trials to end")
    expect(show(mesh, identity)["state"] == "completed", "it is not over")
    before = decisions(first, identity)
    replay(before)
    text = first.run("extend", identity, "--max-trials", "8")
    expect("has 8 trials" in text, f"to ask again is an error: {text}")
    again = first.json("set", identity, "max_trials=14")
    expect(again["stored_on"] == 2, f"the answer is {again}")
    expect(show(mesh, identity)["state"] == "running", "an experiment that was over does not run again")
    second.kill_daemon(signal.SIGKILL)
    second.start()
    mesh.wait_alive(2)
    wait_until(lambda: settled(first, identity, 14) and settled(second, identity, 14), 120, "14 trials to end")
    judged = decisions(first, identity)
    replay(judged)
    expect(judged[:len(before)] == before, "what was decided before is decided otherwise")
    expect({item["trial"] for item in judged} == set(range(14)), f"trials were not judged: {judged}")
    expect(decisions(second, identity) == judged, "two nodes tell of different decisions")
    expect(values(first, identity) == values(first, whole), "the trials are not those of a larger search")
    table = second.run("rungs", identity)
    expect("14 of 14" in table, f"the table is {table}")


@case(limit_s=120)
def further_trials_are_refused_where_they_make_no_sense(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    text = refusal(node, "extend", "nothing", "--max-trials", "8", code=4)
    grid = lab.submit(node, {"name": "all", "entrypoint": "true", "hyperparameters": {"x": {"type": "categorical", "vals": [1, 2]}},
                             "searcher": {"name": "grid", "metric": "loss"}})
    text = refusal(node, "extend", grid, "--max-trials", "8", code=1)
    expect(text == "shoal: all has the searcher grid, which tries each combination once, so it gets no further trials; submit another "
           "experiment (shoal fork).", text)
    one = lab.submit(node, {"name": "one", "entrypoint": "true"})
    text = refusal(node, "set", one, "max_trials=8", code=1)
    expect("one has the searcher single, which has one trial, so it gets no further trials" in text, text)
    random = lab.submit(node, {**search(lab, 3), "searcher": {"name": "random", "metric": "accuracy", "max_trials": 3}, "name": "any"})
    text = refusal(node, "extend", random, "--max-trials", "3", code=1)
    expect(text == "shoal: any has 3 trials already, and none is taken back; give a larger number of all trials together.", text)
    text = refusal(node, "extend", random, "--max-trials", "none", code=2)
    expect("'none' is no max_trials" in text, text)
    wait_until(lambda: settled(node, random, 3), 60, "the trials to end")
    node.run("archive", random)
    text = refusal(node, "extend", random, "--max-trials", "4", code=1)
    expect(text == "shoal: any is archived; shoal unarchive it first.", text)
    cancelled = lab.submit(node, {**search(lab, 30), "name": "gone"})
    node.run("cancel", cancelled)
    text = refusal(node, "extend", cancelled, "--max-trials", "31", code=1)
    expect(text == "shoal: gone is cancelled, so none of its trials begins; shoal fork submits it again.", text)
    text = refusal(node, "set", cancelled, "max_slots=2", code=1)
    expect(text == "shoal: The experiment is cancelled already, so its max_slots changes nothing.", text)


@case(limit_s=150)
def an_elastic_group_grows_up_to_a_new_bound(lab):
    mesh = lab.mesh(3, slots="cpu:1")
    node = mesh.nodes[0]
    log = lab.dir / "steps"
    identity = lab.submit(node, elastic(log, 1, 1, 2, epochs=200))
    two = wait_until(lambda: generation_of(log, identity, 2), 60, "two to train")
    text = refusal(node, "set", identity, "max_slots=65", code=1)
    expect("65 is no max_slots of" in text and "allowed are slots_per_trial, 1, to 64." in text, text)
    text = mesh.nodes[1].run("set", identity, "max_slots=3")
    expect("has groups of at most 3 workers, if its program is elastic, stored on " in text, f"it says {text}")
    wait_until(lambda: generation_of(log, identity, 3, two), 60, "three to train")
    expect(show(mesh, identity)["trials"][0]["attempt"] == 1, "the group began anew")
    node.run("cancel", identity)


def configuration(node, identity):
    """The file as it was submitted, with what became of it."""
    return node.run("config", identity, "--file")


@case(limit_s=180)
def earlier_experiments_give_the_first_trials_their_values(lab):
    """The best trials, of which the metric is a number of its own; a file that is submitted again takes the same ones."""
    mesh = lab.mesh(1, slots="cpu:3")
    node = mesh.nodes[0]
    space = {"x": {"type": "double", "minval": 0, "maxval": 1}, "o": {"n": {"type": "categorical", "vals": ["a b", "c: d"]}}, "steps": 3}
    searcher = {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 8}
    entry = f"exec {lab.build}/scripted_worker report:validation:accuracy:1:0.$SHOAL_TRIAL flush"
    config = {"name": "old", "entrypoint": entry, "hyperparameters": space, "searcher": searcher}
    old = lab.submit(node, config)
    wait_until(lambda: settled(node, old, 8), 90, "the earlier trials to end")
    earlier = values(node, old)
    warm = {**config, "name": "new", "seed": 3, "hyperparameters": {**space, "steps": 5},
            "searcher": {**searcher, "max_trials": 12, "initial": [{"x": 0.5, "o.n": "a b"}], "warm_start": [f"{old}/2", "old"]}}
    new = lab.submit(node, warm)
    got = values(node, new)
    chosen = [2, 7, 6]
    expect(got[0] == {"x": 0.5, "o": {"n": "a b"}, "steps": 5}, f"the file's own values come first: {got[0]}")
    expect([got[i + 1] for i in range(3)] == [{**earlier[trial], "steps": 5} for trial in chosen], f"the first trials have {got}")
    expect(got[4]["x"] not in [row["x"] for row in earlier.values()], "more than a quarter of the trials were taken")
    file = lab.dir / "warm.yaml"
    file.write_text(json.dumps(warm))
    previewed = node.json("preview", file)["hyperparameters"]
    expect(previewed == [got[i] for i in range(3)], f"the preview has {previewed}, the search {got}")
    text = configuration(node, new)
    names = ", ".join(f'"{old}/{trial}"' for trial in chosen)
    expect(f"# shoal: set searcher.warm_start=[{names}]" in text, f"the configuration does not tell what was taken: {text}")
    fork = node.run("fork", new).split()[-1]
    expect(values(node, fork) == got, "a fork has other trials")
    node.run("delete", "--yes", old)
    context = lab.dir / "context"
    context.mkdir()
    (context / "again.yaml").write_text(text)
    again = node.run("submit", context / "again.yaml").split()[-1]
    expect(values(node, again) == got, "the file submitted again has other trials")
    for experiment in (new, fork, again):
        wait_until(lambda experiment=experiment: settled(node, experiment, 12), 90, "the further trials to end")


@case(limit_s=120)
def a_warm_start_that_cannot_be_is_refused_in_one_sentence(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    entry = f"exec {lab.build}/scripted_worker report:validation:loss:1:0.$SHOAL_TRIAL flush"
    config = {"name": "old", "entrypoint": entry, "hyperparameters": {"x": {"type": "int", "minval": 0, "maxval": 9}},
              "searcher": {"name": "random", "metric": "loss", "max_trials": 2}}
    old = lab.submit(node, config)
    wait_until(lambda: settled(node, old, 2), 60, "the earlier trials to end")

    context = lab.dir / "context"
    context.mkdir()

    def refused(code, warm, **other):
        (context / "new.yaml").write_text(json.dumps({**config, "name": "new", **other,
                                                    "searcher": {**config["searcher"], **other.get("searcher", {}), "warm_start": warm}}))
        return refusal(node, "submit", context / "new.yaml", code=code)
    text = refused(4, ["nobody"])
    expect(text == "shoal: searcher.warm_start: there is no experiment with the name or id nobody; shoal ls lists them", text)
    text = refusal(node, "preview", context / "new.yaml", code=4)
    expect(text.startswith("shoal: searcher.warm_start: there is no experiment"), text)
    text = refused(2, ["old/x"])
    expect(text.startswith("shoal: searcher.warm_start: 'old/x' does not say which trial"), text)
    text = refused(4, ["old/9"])
    expect(text == "shoal: searcher.warm_start: old has no trial 9; shoal show old lists them", text)
    text = refused(1, ["old"], searcher={"metric": "accuracy"})
    expect(text == "shoal: searcher.warm_start: no trial of old has reported accuracy in its validation, by which the new trials are compared",
           text)
    text = refused(1, ["old"], hyperparameters={"y": {"type": "int", "minval": 0, "maxval": 9}})
    expect(text == "shoal: searcher.warm_start: no trial of old has the hyperparameters that are searched: it has no hyperparameter y", text)
    text = refused(1, ["old"], hyperparameters={"x": {"type": "int", "minval": 20, "maxval": 29}})
    expect("no trial of these experiments fits the search space" in text and "allowed are whole numbers, 20 ... 29" in text, text)
    text = refused(1, "old")
    expect("searcher.warm_start is 'old'; allowed is a list of at most 64 experiments (EXP) or trials (EXP/TRIAL)" in text, text)
    text = refused(1, ["old"], searcher={"name": "grid", "max_trials": None})
    expect("searcher.warm_start has no effect with searcher.name grid; remove it or use random, asha, adaptive_asha or tpe" in text, text)


@case(limit_s=180)
def a_fork_goes_on_from_a_checkpoint_of_another_experiment(lab):
    """From one that only another node holds; the old experiment's end does not take it away."""
    mesh = lab.mesh(3, slots="cpu:1")
    first, second = mesh.nodes[:2]
    saves = " ".join(f"save:{step}:200000 flush" for step in (10, 20, 30))
    config = {"name": "old", "hyperparameters": {"x": {"type": "int", "minval": 0, "maxval": 99}, "y": 7},
              "entrypoint": f"echo x={{{{hp.x}}}} y={{{{hp.y}}}} step; {lab.build}/scripted_worker started {saves}",
              "searcher": {"name": "random", "metric": "loss", "max_trials": 2},
              "checkpoint": {"replicas": 1, "save_trial_latest": 5}}
    old = lab.submit(first, config)
    wait_until(lambda: settled(first, old, 2), 90, "the earlier trials to end")
    x = values(first, old)[1]["x"]
    holder = next(row for row in first.json("checkpoint", "ls", old)["checkpoints"] if row["trial"] == 1)["holders"][0]["name"]
    asked = next(node for node in mesh.nodes if node.name != holder)
    text = refusal(asked, "fork", f"{old}/1@25", code=4)
    expect(text == "shoal: Trial 1 of old has no checkpoint of step 25 (any more); there are those of the steps 30, 20, 10.", text)
    text = refusal(asked, "fork", f"{old}/7@20", code=4)
    expect("old has no trial 7" in text, text)
    new = asked.run("fork", f"{old}/1@20", "--set", "hyperparameters.y=8").split()[-1]
    wait_until(lambda: settled(asked, new, 1), 90, "the fork to end")
    trial = show(mesh, new)["trials"][0]
    expect(trial["hyperparameters"] == {"x": x, "y": 8}, f"the fork has {trial['hyperparameters']}")
    lines = asked.run("logs", f"{new}/0").splitlines()
    expect(f"x={x} y=8 step" in lines and "begins from step 20" in lines, f"the fork wrote {lines}")
    newest = asked.run("fork", f"{old}/1", "--set", "name=newest", "--set", "checkpoint.save_trial_latest=9").split()[-1]
    wait_until(lambda: settled(asked, newest, 1), 90, "the second fork to end")
    expect("begins from step 30" in asked.run("logs", f"{newest}/0").splitlines(), "a fork without a step does not begin with the newest checkpoint")
    asked.run("delete", "--yes", old)
    kept = [row["step"] for row in asked.json("checkpoint", "ls", new)["checkpoints"]]
    expect(20 in kept, f"the checkpoints of the fork are those of the steps {kept}")
    text = refusal(asked, "fork", new, code=4)
    expect(text == f"shoal: There is no experiment {old}, whose checkpoint is to be begun with.", text)
    again = asked.run("fork", f"{new}/0@20", "--set", "name=again").split()[-1]
    wait_until(lambda: settled(asked, again, 1), 90, "the fork of the fork to end")
    expect("begins from step 20" in asked.run("logs", f"{again}/0").splitlines(), "the fork of a fork begins elsewhere")
