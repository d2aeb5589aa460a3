"""Limits that a lab hits: how many clients, how long events are kept, how large a configuration may be."""

import json
import resource
import signal
import subprocess

from lab import case, expect, wait_over, wait_until
from look import refusal


@case(limit_s=90)
def hundreds_of_watchers_disturb_nobody(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "watched", "entrypoint": "sleep 60", "searcher": {"name": "single", "metric": "a"}})
    watchers = [subprocess.Popen([node.bin / "shoal", "watch", identity, "--dir", node.dir], stdout=subprocess.PIPE, text=True) for _ in range(200)]
    try:
        for watcher in watchers:
            expect("experiment watched" in watcher.stdout.readline(), "a watcher sees nothing")
        expect(node.json("status")["nodes_alive"] == 1, "the daemon does not answer")
        node.run("cancel", identity)
        for watcher in watchers:
            expect(watcher.wait(timeout=40) == 0, "a watcher failed")
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()


@case(limit_s=60)
def a_client_too_many_is_told_why(lab):
    """The daemon may open 100 files only, so it serves 25 clients."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "watched", "entrypoint": "sleep 60", "searcher": {"name": "single", "metric": "a"}})
    resource.prlimit(node.daemon.pid, resource.RLIMIT_NOFILE, (100, 100))
    watchers = [subprocess.Popen([node.bin / "shoal", "watch", identity, "--dir", node.dir], stdout=subprocess.PIPE, text=True) for _ in range(25)]
    try:
        for watcher in watchers:
            watcher.stdout.readline()
        said = refusal(node, "status", code=1)
        expect("serves 25 clients already" in said and "limit of open files" in said, said)
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
    wait_until(lambda: node.run("status", check=False), 20, "the daemon to answer again")


@case(limit_s=60)
def events_outlive_a_restart_and_a_damaged_file(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    wait_over(mesh, lab.submit(node, {"name": "before", "entrypoint": "true", "searcher": {"name": "single", "metric": "a"}}), 30)
    node.kill_daemon(signal.SIGTERM)
    node.start()
    expect("before is submitted" in node.run("events"), "the events of the earlier daemon are gone")
    numbers = [event["seq"] for event in node.json_lines("events")]
    expect(numbers == sorted(set(numbers)), "numbers are not in order")
    expect("before is submitted" in node.run("events", "--since", "1h"), "--since has no earlier event")
    expect(node.run("events", "--since", "2999-01-01 10:00") == "", "events of the future")
    expect("is no time" in refusal(node, "events", "--since", "yesterday", code=2), "a wrong time is taken")
    node.kill_daemon(signal.SIGKILL)
    files = sorted(file for file in (node.dir / "events").iterdir() if file.name != "next")
    expect(len(files) == 1, files)
    files[0].write_bytes(b"\0\xff garbage\n\n" + files[0].read_bytes()[:-20] + b"\n99999999999999999999 1 x\n" + bytes(range(256)))
    (node.dir / "events" / "77777").mkdir()
    node.start()
    shown = node.run("events", "--since", "1h")
    expect("before is submitted" in shown and "garbage" not in shown, shown[-500:])
    started = [event["seq"] for event in node.json_lines("events") if event["kind"] == "node.started"]
    expect(len(started) == 3 and started[2] > numbers[-1] + 1, f"{started}: a number may have been given twice after {numbers[-1]}")
    wait_over(mesh, lab.submit(node, {"name": "after", "entrypoint": "true", "searcher": {"name": "single", "metric": "a"}}), 30)
    expect("after is submitted" in node.run("events", "--since", "1h"), "nothing is written any more")


def long_script(lines):
    return "".join(f"echo line {i} of a script that is longer than a record\n" for i in range(lines)) + "echo the end\n"


@case(limit_s=120)
def an_entrypoint_and_an_environment_of_any_size_run_on_any_node(lab):
    """alder knows the configuration, birch runs it, cedar shows it; then alder is gone, and the next trial still runs."""
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.slots, birch.slots, cedar.slots = "none", "cpu:1", "cpu:1"
    mesh.start()
    parameters = {f"p{i}": {"type": "int", "minval": i, "maxval": i} for i in range(200)}
    identity = lab.submit(alder, {
        "name": "large", "entrypoint": long_script(5000) + "echo $V7 $V199 hp=$SHOAL_HPARAMS | cut -c 1-400000",
        "environment": {"variables": {f"V{i}": f"{i}" * 300 for i in range(200)}},
        "hyperparameters": {**parameters, "model": {"type": "ResNet", "empty": {}, "nothing": None}},
        "labels": [f"label{i}" for i in range(64)],
        "searcher": {"name": "random", "metric": "a", "max_trials": 2}})
    wait_over(mesh, identity, 60)
    said = alder.run("logs", f"{identity}/0").splitlines()
    expect(sum(" of a script that is longer" in line for line in said) == 5000, f"{len(said)} lines")
    expect("the end" in said, said[-2:])
    expect("7" * 300 in said[-1] and "199" * 300 in said[-1] and '"p199": 199' in said[-1], said[-1][-200:])
    for node in (alder, birch):
        expect(node.json("show", identity)["experiment"]["trials"][0]["hyperparameters"]["p199"] == 199, f"{node.name} shows no parameters")
    wait_until(lambda: (cedar.json("show", identity)["experiment"]["trials"][1]["hyperparameters"] or {}).get("p3") == 3, 20, "cedar to know them")
    hparams = cedar.json("show", identity)["experiment"]["trials"][0]["hyperparameters"]
    expect(hparams["model"] == {"type": "ResNet", "empty": {}, "nothing": None}, hparams["model"])
    later = lab.submit(alder, {"name": "later", "entrypoint": "# " + "x" * 150_000 + "\nsleep 6; echo done",
                               "searcher": {"name": "random", "metric": "a", "max_trials": 2}, "resources": {"slots_per_trial": 2}})
    wait_until(lambda: birch.json("show", later)["experiment"]["trials"][0]["state"] == "running", 30, "a trial to run")
    alder.kill_machine()
    wait_over(mesh, later, 60)
    expect("[rank=1] done" in birch.run("logs", f"{later}/1"), "the second trial said nothing")


@case(limit_s=60)
def a_restarted_daemon_still_has_the_large_configuration(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "large", "entrypoint": long_script(100), "searcher": {"name": "random", "metric": "a", "max_trials": 6}})
    wait_until(lambda: any(trial["state"] == "completed" for trial in node.json("show", identity)["experiment"]["trials"]), 30, "a trial")
    node.kill_daemon()
    node.start()
    wait_over(mesh, identity, 40)
    node.run("delete", identity, "--yes")
    expect(node.json("ls")["experiments"] == [], "it is not deleted")


@case(limit_s=60)
def a_file_that_unfolds_is_refused_with_a_sentence(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    path = node.tree / "laughs.yaml"
    lines = ["a0: &a0 [" + ", ".join(["ha"] * 10) + "]"] + [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 10)]
    path.write_text("entrypoint: 'true'\nhyperparameters:\n" + "".join(f"  {line}\n" for line in lines))
    said = refusal(node, "submit", path, code=1)
    expect("too many values" in said and "aliases" in said, said)
    path.write_text("entrypoint: 'true'\n# " + "x" * (1 << 20))
    expect("larger than 1024 KiB" in refusal(node, "submit", path, code=1), said)


FIELD_SCALARS = """entrypoint: echo $SHOAL_HPARAMS
hyperparameters: {a: 1e-3, b: 1E5, c: .5, d: 5., e: 1_000, f: 0777, g: no, h: 0x10, i: 1:30, j: "1e-3", k: -0.0,
  l: {type: categorical, vals: [[1, "0", null, true, [1, 2], 2.5]]}}
"""


@case(limit_s=60)
def yaml_values_arrive_as_they_were_written(lab):
    """`no`, `1_000` and `1:30` are texts; 0777 is 777; a BOM and line ends of DOS change nothing."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    wanted = {"a": 0.001, "b": 100000.0, "c": 0.5, "d": 5.0, "e": "1_000", "f": 777, "g": "no", "h": 16, "i": "1:30", "j": "1e-3", "k": -0.0,
              "l": [1, "0", None, True, [1, 2], 2.5]}
    context = node.tree / "context"
    context.mkdir()
    for name, text in (("plain", FIELD_SCALARS), ("dos", "\ufeff" + FIELD_SCALARS.replace("\n", "\r\n"))):
        (context / f"{name}.yaml").write_text(text, newline="")
        identity = node.run("submit", context / f"{name}.yaml").split()[-1]
        wait_over(mesh, identity, 30)
        said = node.run("logs", f"{identity}/0", "--rank", "0")
        expect(json.loads(said) == wanted and isinstance(json.loads(said)["b"], float), said)
    for text, line in (("entrypoint: x\n\tname: y\n", 2), ("entrypoint: x\nseed: 1\nseed: 2\n", 3), ("entrypoint: !!str x\n", 1),
                       ("entrypoint: x\nhyperparameters: {a: .nan}\n", 2), ("entrypoint: x\nhyperparameters:\n  <<: *base\n", 3)):
        (context / "wrong.yaml").write_text(text)
        said = refusal(node, "submit", context / "wrong.yaml", code=1)
        expect(f"wrong.yaml:{line}: " in said, f"the line of {text!r} is not named: {said}")


@case(limit_s=60)
def a_map_with_a_key_named_type_is_the_programs_own(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {
        "name": "typed", "entrypoint": "echo $SHOAL_HPARAMS", "searcher": {"name": "single", "metric": "a"},
        "hyperparameters": {"model": {"type": "ResNet", "depth": 50},
                            "optimizer": {"type": "int8_adam", "lr": {"type": "log", "minval": -4, "maxval": -2}},
                            "written": {"type": "const", "val": {"type": "ResNet", "depth": 50}}}})
    wait_over(mesh, identity, 30)
    hparams = json.loads(node.run("logs", f"{identity}/0", "--rank", "0"))
    expect(hparams["model"] == hparams["written"] == {"type": "ResNet", "depth": 50}, hparams)
    expect(hparams["optimizer"]["type"] == "int8_adam" and 1e-4 <= hparams["optimizer"]["lr"] <= 1e-2, hparams)


def strict(text):
    """JSON as other languages read it: without NaN and Infinity."""
    def refuse(word):
        raise ValueError(f"{word} is no JSON")
    return json.loads(text, parse_constant=refuse)


@case(limit_s=90)
def a_metric_that_is_no_number_is_never_the_best(lab):
    """nan, 0.5 and inf, each with a checkpoint: the best is 0.5, and what is printed stays JSON."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    worker = f"{lab.build}/scripted_worker"
    cases = " ".join(f"{trial}) v={value};;" for trial, value in enumerate(("nan", "0.5", "inf")))
    identity = lab.submit(node, {
        "name": "nan", "entrypoint": f"case $SHOAL_TRIAL in {cases} esac; {worker} report:validation:accuracy:1:$v flush save:1:4096 flush",
        "max_restarts": 0, "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 3},
        "checkpoint": {"save_experiment_best": 1, "save_trial_best": 1, "save_trial_latest": 0}})
    wait_over(mesh, identity, 60)
    shown = strict(node.run("show", identity, "--json"))["experiment"]
    expect(shown["best"] == {"trial": 1, "metric": "accuracy", "value": 0.5}, shown["best"])
    points = [strict(line) for line in node.run("metrics", identity, "--json").splitlines()]
    expect(sorted(str(point["metrics"]["accuracy"]) for point in points) == ["0.5", "Infinity", "NaN"], points)
    text = node.run("metrics", identity)
    expect("accuracy=nan" in text and "accuracy=inf" in text and "accuracy=0.5" in text, text)
    kept = strict(node.run("checkpoint", "ls", identity, "--json"))["checkpoints"]
    expect(any(row["trial"] == 1 for row in kept), kept)
    strict(node.run("ls", "--json"))
    for trial in (0, 2):
        text = node.run("why", f"{identity}/{trial}")
        expect("the last accuracy that it reported is no finite number; so it cannot be the best trial\n" in text, text)
    expect("no finite number" not in node.run("why", f"{identity}/1") + node.run("show", identity), "one trial is the best")
    none = lab.submit(node, {"name": "none", "entrypoint": f"{worker} report:validation:accuracy:1:nan flush",
                             "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 2}})
    wait_over(mesh, none, 60)
    for command in ("show", "wait"):
        text = node.run(command, none)
        expect(text.endswith("no trial can be the best: the last accuracy of each trial that reported it is no finite number\n"), text)


@case(limit_s=90)
def bounds_are_drawn_inclusively(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]

    def values(name, parameter, searcher):
        identity = lab.submit(node, {"name": name, "entrypoint": "true", "hyperparameters": {"n": parameter},
                                     "searcher": {"metric": "a", **searcher}})
        got = [trial["hyperparameters"]["n"] for trial in node.json("show", identity)["experiment"]["trials"]]
        node.run("cancel", identity, check=False)  # a few trials may have completed by then
        return got

    whole = {"type": "int", "minval": 1, "maxval": 4}
    expect(values("grid", whole, {"name": "grid"}) == [1, 2, 3, 4], "the grid lacks a bound")
    drawn = values("random", whole, {"name": "random", "max_trials": 400})
    expect(all(drawn.count(n) >= 60 for n in (1, 2, 3, 4)) and set(drawn) == {1, 2, 3, 4}, sorted(drawn))
    log = {"type": "log", "base": 10, "minval": -3, "maxval": -1, "count": 3}
    expect(values("log", log, {"name": "grid"}) == [0.001, 0.01, 0.1], "the grid of powers")
    for kind in ("int", "double", "log"):
        same = values(f"one-{kind}", {"type": kind, "minval": 2, "maxval": 2}, {"name": "random", "max_trials": 2})
        expect(same == [100.0 if kind == "log" else 2] * 2, same)


@case(limit_s=60)
def a_trial_has_only_the_hyperparameters_whose_conditions_it_meets(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    identity = lab.submit(node, {
        "name": "conditions",
        "entrypoint": "echo opt=$SHOAL_HP_OPT momentum=${SHOAL_HP_MOMENTUM-none} width=$SHOAL_HP_WIDTH; cat $SHOAL_HPARAMS_FILE",
        "hyperparameters": {"opt": {"type": "categorical", "vals": ["sgd", "adam"]},
                            "momentum": {"type": "double", "minval": 0.5, "maxval": 0.9, "step": 0.1, "when": {"opt": "sgd"}},
                            "width": {"type": "int", "minval": 16, "maxval": 1024, "log": True}},
        "searcher": {"name": "random", "metric": "a", "max_trials": 4, "sampler": "sobol",
                     "initial": [{"opt": "adam", "width": 77}, {"opt": "sgd", "momentum": 0.6}]}})
    final = wait_over(mesh, identity, 40)
    shown = [trial["hyperparameters"] for trial in final["trials"]]
    expect(shown[0] == {"opt": "adam", "width": 77}, shown[0])
    expect(shown[1]["opt"] == "sgd" and shown[1]["momentum"] == 0.6, shown[1])
    expect(all(("momentum" in values) == (values["opt"] == "sgd") and 16 <= values["width"] <= 1024 for values in shown), shown)
    for index, momentum in ((0, "none"), (1, "0.6")):
        said = node.run("logs", f"{identity}/{index}")
        expect(f"momentum={momentum} width={shown[index]['width']}" in said, said)
        expect(("momentum" in said.split("width=")[1]) == (momentum != "none"), said)


@case(limit_s=60)
def a_collective_that_stands_still_fails_after_the_time_of_the_key(lab):
    """Rank 1 meets rank 0 once and never again."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    worker = f"{lab.build}/scripted_worker"
    identity = lab.submit(node, {
        "name": "hung", "entrypoint": f"echo t=$SHOAL_COLLECTIVE_TIMEOUT; if [ $RANK = 0 ]; then exec {worker} barrier barrier; "
                                      f"else exec {worker} barrier await:/nowhere; fi",
        "collective_timeout": 3, "max_restarts": 0, "resources": {"slots_per_trial": 2}, "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40, "failed")
    said = node.run("logs", f"{identity}/0")
    expect("[rank=1] t=3" in said and "word 2" in said, said)
    expect("allowed are 1 ... 86400" in refusal(node, "submit", write(node, "entrypoint: x\ncollective_timeout: 0\n"), code=1), "0 is taken")


def write(node, text):
    path = node.tree / "wrong.yaml"
    path.write_text(text)
    return path


def meet(lab, nodes, slots, ranks, timeout):
    """A group of libshoal of so many ranks meets once, over all nodes."""
    mesh = lab.mesh(nodes, slots=f"cpu:{slots}", options=("--ports", "20000-20999"))  # all hosts are one machine
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "wide", "entrypoint": f"{lab.build}/scripted_worker barrier && echo $RANK of $WORLD_SIZE has met them",
                                 "max_restarts": 0, "resources": {"slots_per_trial": ranks}, "searcher": {"name": "single", "metric": "a"}})
    final = wait_over(mesh, identity, timeout)
    expect(len(final["trials"][0]["slots"]) == ranks and final["trials"][0]["attempt"] == 1, final["trials"][0])
    said = node.run("logs", f"{identity}/0").splitlines()
    wanted = {f"[rank={rank}] {rank} of {ranks} has met them" for rank in range(ranks)}
    expect(wanted <= set(said), f"{len(wanted - set(said))} ranks have not said that they have met the others")


@case(limit_s=180)
def more_than_64_ranks_meet(lab):
    meet(lab, 2, 34, 66, 120)


@case(limit_s=900, whole=True)
def as_many_as_256_ranks_meet(lab):
    meet(lab, 4, 64, 256, 600)
