"""Two versions of Shoal: a newer daemon opens the data directory of an older one, and one mesh holds daemons of both."""

import json
import signal
from pathlib import Path

from case_search_kills import adaptive, asha
from case_search_kills import config as search_of
from lab import case, expect, show, wait_over, wait_until
from older import BEFORE_LARGE, LAST, older_build
from look import refusal, workers_of
from search_replay import Search, read_records


def state_of(node, viewer):
    """What a node is to another one; how many are alive tells not which."""
    return next(row["state"] for row in viewer.json("nodes")["nodes"] if row["name"] == node.name)


def config(name, epochs=2, slots=1, trials=2, restarts=5):
    searcher = {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": trials}
    return {
        "name": name,
        "entrypoint": "exec shoal-train mlp",
        "hyperparameters": {"hidden": 16, "learning_rate": {"type": "log", "base": 10, "minval": -2.5, "maxval": -1},
                            "batch_size": 1000, "epochs": epochs, "checkpoint_every": 20},
        "searcher": searcher,
        "resources": {"slots_per_trial": slots, "min_slots": slots},
        "max_restarts": restarts,
        "seed": 7,
    }


def kept(experiment):
    """What of an experiment that is over must look the same for ever."""
    fields = ("index", "state", "hyperparameters", "step", "attempt")
    return [{field: trial.get(field) for field in fields} for trial in experiment["trials"]]


def checkpoint_bytes(node, identity, to):
    """The files of the newest checkpoint of trial 0."""
    node.run("checkpoint", "get", f"{identity}/0", to)
    return {str(file.relative_to(to)): file.read_bytes() for file in sorted(to.rglob("*")) if file.is_file()}


def open_data_directories(lab, commit):
    older = older_build(commit)
    mesh = lab.mesh(["alder", "birch"], start=False)
    for node in mesh.nodes:
        node.bin = older
    mesh.start()
    alder, birch = mesh.nodes
    done = lab.submit(alder, config("done"))
    before = kept(wait_over(mesh, done, 90))
    saved = checkpoint_bytes(alder, done, lab.dir / "older-checkpoint")
    expect(saved, "the older daemon gave no checkpoint back")
    paused = lab.submit(alder, config("paused", trials=1, epochs=20))
    alder.run("pause", paused)
    alder.run("withhold", "0")
    birch.run("drain", "birch")
    running = lab.submit(birch, config("running", epochs=60, trials=1))
    wait_until(lambda: any((trial["step"] or 0) >= 60 for trial in show(mesh, running)["trials"]), 60, "the trial to train")
    workers = workers_of(running)
    for node in mesh.nodes:
        node.kill_daemon(signal.SIGTERM)
        node.bin = Path(lab.build)
        node.start()
    mesh.wait_alive(2)
    for node in mesh.nodes:
        wait_until(lambda node=node: not node.json("status")["syncing"], 60, f"{node.name} to catch up")
        expect(kept(node.json("show", done)["experiment"]) == before, f"{node.name} shows another result than before")
    expect(checkpoint_bytes(birch, done, lab.dir / "newer-checkpoint") == saved, "the checkpoint has other bytes")
    expect(workers_of(running) == workers, "the workers of the running trial are not those that the older daemon started")
    expect(show(mesh, paused)["state"] == "paused", "the pause is forgotten")
    nodes = {node["name"]: node for node in alder.json("nodes")["nodes"]}
    expect(nodes["birch"]["drained"], "the drain is forgotten")
    slots = {slot["index"]: slot["state"] for slot in alder.json("slots")["slots"] if slot["node_name"] == "alder"}
    expect(slots[0] == "withheld", f"the withheld slot is forgotten: {slots}")
    final = wait_over(mesh, running, 360)
    expect(final["trials"][0]["attempt"] == 1, "the running trial has needed another attempt")
    alder.run("withhold", "--return")
    birch.run("undrain", "birch")
    alder.run("resume", paused)
    wait_over(mesh, paused, 90)


@case(limit_s=700)
def a_newer_daemon_opens_the_data_directory_of_an_older_one(lab):
    open_data_directories(lab, LAST)


@case(limit_s=700, whole=True)
def a_newer_daemon_opens_the_data_directory_of_a_much_older_one(lab):
    open_data_directories(lab, BEFORE_LARGE)


def mix(lab, commit):
    older = older_build(commit)
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.bin = birch.bin = older
    mesh.start()  # an older daemon founds, another joins it, and so does a newer one
    both = lab.submit(cedar, config("both", slots=6, trials=1, epochs=4))
    final = wait_over(mesh, both, 120)
    names = {slot["node_name"] for trial in final["trials"] for slot in trial["slots"]}
    expect(names == {"alder", "birch", "cedar"}, f"the group of six had members on {sorted(names)} only")
    waits = lab.submit(cedar, config("waits", slots=7, trials=1))  # there are six
    text = refusal(cedar, "stop", f"{waits}/0", code=1)
    expect("runs a version of Shoal that cannot stop a single trial" in text, f"a stop beside an older daemon: {text}")
    cedar.run("delete", waits)
    identity = lab.submit(alder, config("each", trials=6, epochs=6))
    wait_until(lambda: any((trial["step"] or 0) >= 60 for trial in show(mesh, identity)["trials"]), 60, "a trial to train")
    coordinator = wait_until(lambda: show(mesh, identity)["coordinator_name"], 20, "a coordinator")
    mesh.by_name(coordinator).kill_machine()
    final = wait_over(mesh, identity, 180)
    for node in mesh.living():
        expect(kept(node.json("show", identity)["experiment"]) == kept(final), f"{node.name} shows another result")
        expect(kept(node.json("show", both)["experiment"]) is not None, f"{node.name} has lost the first experiment")
    mesh.by_name(coordinator).bin = Path(lab.build) if mesh.by_name(coordinator).bin == older else older
    mesh.by_name(coordinator).start()  # comes back as the other version
    mesh.wait_alive(3)
    back = mesh.by_name(coordinator)
    wait_until(lambda: kept(back.json("show", identity)["experiment"]) == kept(final), 60, f"{back.name} to show the result")
    back.run("delete", identity)
    for node in mesh.nodes:
        wait_until(lambda node=node: identity not in node.run("ls"), 30, f"{node.name} to hear of the deletion")


@case(limit_s=420)
def one_mesh_holds_daemons_of_two_versions(lab):
    mix(lab, LAST)


@case(limit_s=420, whole=True)
def one_mesh_holds_daemons_of_two_versions_far_apart(lab):
    mix(lab, BEFORE_LARGE)


@case(limit_s=420, whole=True)
def a_large_experiment_runs_beside_an_older_daemon(lab):
    """The older daemon cannot read it: it gets no work of it, and disturbs nobody; then it is updated."""
    older = older_build(BEFORE_LARGE)
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.bin = older
    mesh.start()
    large = dict(config("large", trials=6, epochs=1), entrypoint="# " + "x" * 20_000 + "\nexec shoal-train mlp")
    identity = lab.submit(cedar, large)
    small = lab.submit(alder, config("small", trials=4))
    final = wait_until(lambda: (lambda shown: shown["state"] == "completed" and shown)(cedar.json("show", identity)["experiment"]), 180,
                       "the large experiment to complete")
    names = {slot["node_name"] for trial in final["trials"] for slot in trial["slots"]}
    expect("alder" not in names, f"trials ran on {sorted(names)}")
    wait_over(mesh, small, 120)
    expect([row["name"] for row in alder.json("ls")["experiments"]] == ["small"], "the older daemon lists what it cannot read")
    alder.kill_daemon(signal.SIGTERM)
    alder.bin = Path(lab.build)
    alder.start()
    wait_until(lambda: len(alder.json("ls")["experiments"]) == 2, 40, "the updated daemon to list it")
    expect(kept(alder.json("show", identity)["experiment"])[0]["state"] == "completed", "the updated daemon shows another state")


def check_search(lab, node, identity):
    search = Search(read_records(node.dir, lab.build), identity)
    search.check(is_over=True)
    told = [(judged["trial"], judged["rung"], judged["decision"]) for judged in node.json("rungs", identity)["search"]["judged"]]
    expect(told == [(judged["trial"], judged["rung"], judged["decision"]) for judged in search.judged()], f"{node.name} tells {told}")
    return told


@case(limit_s=420)
def a_search_that_stops_trials_waits_until_no_older_daemon_is_there(lab):
    """It is refused beside an older daemon, begins once that is gone, takes no notice of its return, and is there after its update."""
    older = older_build(LAST)
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.bin = older
    mesh.start()
    for searcher in (asha(24), adaptive(24)):
        context = lab.dir / searcher["name"]
        context.mkdir()
        (context / "experiment.yaml").write_text(json.dumps(search_of(lab, searcher, 300)))
        wanted = (f"shoal: alder runs a version of Shoal that does not know searcher.name {searcher['name']}; update that node first, or use "
                  "random.")
        for node in (birch, cedar):
            text = refusal(node, "submit", context / "experiment.yaml", code=1)
            expect(text == wanted, f"a search beside an older daemon: {text}")
    expect(cedar.json("ls")["experiments"] == [], "what was refused is there")
    alder.kill_daemon(signal.SIGTERM)
    wait_until(lambda: state_of(alder, cedar) == "dead", 30, "cedar to know that alder is gone")
    identity = lab.submit(cedar, search_of(lab, asha(24), 1000))
    wait_until(lambda: cedar.json("rungs", identity)["search"]["judged"], 60, "a decision")
    alder.start()
    wait_until(lambda: cedar.json("status")["nodes_alive"] == 3, 30, "cedar to know that alder is back")
    small = lab.submit(alder, config("small", trials=2))
    final = wait_over(mesh, identity, 180, viewer=cedar)
    names = {slot["node_name"] for trial in final["trials"] for slot in trial["slots"]}
    expect("alder" not in names, f"trials of the search ran on {sorted(names)}")
    ends = {trial["index"]: trial["state"] for trial in final["trials"]}
    expect(len(ends) == 24 and "stopped" in ends.values() and set(ends.values()) <= {"stopped", "completed"}, f"trials ended as {ends}")
    decisions = check_search(lab, birch, identity)
    expect(check_search(lab, cedar, identity) == decisions, "birch and cedar tell of different decisions")
    wait_over(mesh, small, 120, viewer=alder)
    expect([row["name"] for row in alder.json("ls")["experiments"]] == ["small"], "the older daemon lists what it cannot read")
    alder.kill_daemon(signal.SIGTERM)
    alder.bin = Path(lab.build)
    alder.start()
    wait_until(lambda: len(alder.json("ls")["experiments"]) == 2, 40, "the updated daemon to list the search")
    expect(check_search(lab, alder, identity) == decisions, "the updated daemon tells of other decisions")
    after = lab.submit(alder, search_of(lab, adaptive(12), 200))
    wait_over(mesh, after, 120)
    check_search(lab, alder, after)
