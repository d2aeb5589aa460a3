"""The points of a trial that has begun anew: all are there, and those of steps that were made again say so."""

import csv
import io
import json

from case_python import refuse_sanitizers
from lab import case, expect, show, wait_over, wait_until


@case(limit_s=60)
def points_that_a_later_attempt_made_anew_are_kept_and_marked(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = ("if [ $SHOAL_ATTEMPT = 1 ]; then set -- report:training:loss:10:1 save:10:1000 flush report:training:loss:20:2 "
              f"flush exit:3; else set -- report:training:loss:15:9 flush; fi; exec {lab.build}/scripted_worker \"$@\"")
    identity = lab.submit(node, {"name": "back", "entrypoint": script, "max_restarts": 1, "searcher": {
        "name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = {(p["attempt"], p["step"]): p.get("void", False) for p in node.json_lines("metrics", identity, "--all")}
    expect(points == {(1, 10): False, (1, 20): True, (2, 15): False}, f"points and whether they are void: {points}")
    valid = [(p["attempt"], p["step"]) for p in node.json_lines("metrics", identity)]
    expect(valid == [(1, 10), (2, 15)], f"points that are not void: {valid}")
    lines = node.run("metrics", identity, "--all").splitlines()
    expect([line.split()[5] for line in lines if "step=20" in line] == ["void"], f"step 20 is not marked: {lines}")
    expect(sum(" void " in line for line in lines) == 1, f"a valid step is marked: {lines}")
    expect(show(mesh, identity)["trials"][0]["metrics"]["training"]["loss"] == 9, "show has not the newest value")

    identity = lab.submit(node, {"name": "down", "entrypoint": f"exec {lab.build}/scripted_worker report:training:loss:10:1 "
                                 "report:training:loss:5:2 flush", "searcher": {
                                     "name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = [(p["step"], p.get("void", False)) for p in node.json_lines("metrics", identity)]
    expect(sorted(points) == [(5, False), (10, False)], f"of one attempt whose steps go back: {points}")


PYTHON = "/usr/bin/python3"


@case(limit_s=120)
def a_report_of_five_thousand_names_is_kept_whole(lab):
    """And one beyond the limit is refused to the program with the number."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(2, slots="cpu:1")
    script = """import shoal
run = shoal.init()
for step in range(20):
    run.report({f"model.layers.{i}.self_attention.query.norm": i + step / 100 for i in range(5000)}, step=step)
try:
    run.report({f"{i:0127}": 0 for i in range(5000)}, step=99)
except ValueError as error:
    print("REFUSED", error)
"""
    identity = lab.submit(mesh.nodes[0], {"name": "names", "entrypoint": f"exec {PYTHON} names.py", "searcher": {
        "name": "single", "metric": "loss"}}, {"names.py": script})
    wait_over(mesh, identity, 60)
    for node in mesh.nodes:
        points = node.json_lines("metrics", f"{identity}/0")
        expect([(p["step"], len(p["metrics"])) for p in points] == [(step, 5000) for step in range(20)], f"{len(points)} points")
        expect(points[7]["metrics"]["model.layers.4999.self_attention.query.norm"] == 4999.07, "a value is another one")
    rows = list(csv.DictReader(io.StringIO(mesh.nodes[0].run("metrics", identity, "--csv"))))
    expect(len(rows) == 20 and len(rows[0]) == 5006 and rows[3]["model.layers.17.self_attention.query.norm"] == "17.03", "the table lacks something")
    parts = mesh.nodes[1].json_lines("metrics", f"{identity}/0", "--points", "1")  # of one bucket
    sums = {name: value for part in parts for name, value in part["metrics"].items()}
    expect(len(sums) == 5000 and all(part["count"] == 20 for part in parts), f"{len(sums)} sums in {len(parts)} parts")
    said = mesh.nodes[0].run("logs", f"{identity}/0")
    expect("REFUSED 5000 metrics are too many for one report" in said and "limit is 524288" in said, said)


@case(limit_s=120)
def a_long_series_comes_as_sums_from_either_node_that_has_it(lab):
    """birch ran it and alder has a copy; all there is of a second attempt, and of the first one what it did not make anew."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    script = """import os, time, shoal
run = shoal.init()
first = run.load()["step"] + 1 if os.environ["SHOAL_ATTEMPT"] == "2" else 0
for step in range(first, 20000):
    run.report({"loss": step % 100, "samples": 64 * step}, step=step)
    if step == 9999 and first == 0:
        run.save({"step": step}, step=step)
        while run.durable_step != step:
            time.sleep(0.05)
            run.should_stop()
    if step == 15000 and first == 0:
        run.flush()
        os._exit(3)
"""
    identity = lab.submit(alder, {"name": "long", "entrypoint": f"exec {PYTHON} long.py", "max_restarts": 1, "searcher": {
        "name": "single", "metric": "loss"}}, {"long.py": script})
    wait_over(mesh, identity, 80)

    def sums(node, *more):
        return node.json_lines("metrics", f"{identity}/0", "--points", "50", *more)

    def count(points, is_void=False):
        return sum(p["count"] for p in points if p.get("void", False) == is_void)

    seen = wait_until(lambda: count(sums(alder)) == 20000 and sums(alder), 20, "all points in the sums")
    expect(seen == sums(birch), "the nodes have different sums")
    expect(len(seen) <= 105 and {p["attempt"] for p in seen} == {1, 2}, f"{len(seen)} sums")
    for point in seen:
        steps = range(point["first_step"], point["step"] + 1)
        loss, expected = point["metrics"]["loss"], [step % 100 for step in steps]
        expect(point["count"] == len(steps) and loss["last"] == expected[-1] and (loss["min"], loss["max"]) == (min(expected), max(expected))
               and abs(loss["mean"] - sum(expected) / len(expected)) < 1e-9, f"{point} of steps {steps}")
    expect(count(sums(alder, "--all"), True) == 5001, f"{count(sums(alder, '--all'), True)} void points")
    expect(len(alder.json_lines("metrics", identity)) == 20000 and len(alder.json_lines("metrics", identity, "--all")) == 25001, "points lack")
    rows = list(csv.DictReader(io.StringIO(alder.run("metrics", identity, "--points", "50", "--csv", "--x", "samples"))))
    expect([float(row["x"]) for row in rows] == [64 * point["step"] for point in seen], "x is not the last number of samples")
    times = [row["time"] for row in rows]
    expect(times == sorted(times) and times[0].endswith("Z"), f"times {times[:3]}")
    birch.kill_daemon()
    expect(sums(alder) == seen, "without birch alder has other sums")


@case(limit_s=60)
def points_before_a_resume_from_own_files_are_valid(lab):
    """The attempt begins with files, and at step 0 for all that the mesh knows: nothing tells that a point is made anew."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = ("if [ $SHOAL_ATTEMPT = 1 ]; then echo 1 > state; sleep 3; set -- report:training:loss:10:1 flush exit:3; "
              f"else test -e state || exit 9; set -- report:training:loss:20:2 flush; fi; exec {lab.build}/scripted_worker \"$@\"")
    identity = lab.submit(node, {"name": "files", "entrypoint": script, "keep": ["state"], "max_restarts": 1,
                                 "searcher": {"name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = {(p["attempt"], p["step"]): p.get("void", False) for p in node.json_lines("metrics", identity)}
    expect(points == {(1, 10): False, (2, 20): False}, f"points and whether they are void: {points}")


def strictly(node, *words):
    """The documents of a command, which have no number that JSON has not."""

    def refuse(name):
        raise AssertionError(f"{' '.join(words)} writes {name}")

    return [json.loads(line, parse_constant=refuse) for line in node.run(*words, "--json").splitlines()]


@case(limit_s=120)
def a_value_that_is_no_number_is_shown_and_is_never_best(lab):
    """One trial after the other measures nan, 0.5 and inf; both where smaller values are better and where larger are."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    for is_smaller in (False, True):
        script = f"set -- nan 0.5 inf; shift $SHOAL_TRIAL; exec {lab.build}/scripted_worker report:validation:accuracy:1:$1 save:1:1000 flush"
        identity = lab.submit(node, {
            "name": "odd", "entrypoint": script, "checkpoint": {"save_trial_best": 1},
            "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": is_smaller, "max_trials": 3}})
        wait_over(mesh, identity, 60)
        [shown] = strictly(node, "show", identity)
        best = shown["experiment"]["best"]
        expect((best["trial"], best["value"]) == (1, 0.5), f"the best is {best}")
        points = {point["trial"]: point["metrics"]["accuracy"] for point in strictly(node, "metrics", identity)}
        expect(points == {0: "NaN", 1: 0.5, 2: "Infinity"}, f"the points are {points}")
        strictly(node, "ls")
        strictly(node, "events")
        text = node.run("metrics", identity)
        expect(all(f"accuracy={value}" in text for value in ("nan", "0.5", "inf")), f"a value is missing:\n{text}")
        kept = {(row["trial"], row["step"]) for document in strictly(node, "checkpoint", "ls", identity) for row in document["checkpoints"]}
        expect((1, 1) in kept, f"the checkpoint of the best is not kept: {kept}")


@case(limit_s=60)
def top_shows_what_runs_where_and_how_fast(lab):
    """On two nodes; alder is asked, and birch runs it."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:2"
    mesh.start()
    script = "(while :; do :; done) & i=0; while sleep 0.1; do i=$((i + 1)); echo ::shoal metric training loss=1 step=$i; done"
    identity = lab.submit(alder, {"name": "fast", "entrypoint": script, "metrics_from_output": True, "searcher": {
        "name": "single", "metric": "loss"}})
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > 0, 30, "it to report")

    def page():
        document = alder.json("top")
        [slot] = [slot for slot in document["slots"] if slot["experiment"] == identity]
        return (slot["steps_s"] or 0) > 0 and (document, slot)
    document, slot = wait_until(page, 30, "a speed")
    expect((document["nodes"], document["nodes_alive"], document["slots_in_use"]) == (2, 2, 1), f"{document}")
    expect((slot["node_label"], slot["experiment_name"], slot["trial"], slot["attempt"]) == ("birch", "fast", 0, 1), f"{slot}")
    expect(1 < slot["steps_s"] < 12, f"{slot['steps_s']} steps in a second, of at most 10")
    def used():
        [slot] = [slot for slot in alder.json("top")["slots"] if slot["experiment"] == identity]
        return (slot["cpu_percent"] or 0) > 5 and slot
    slot = wait_until(used, 30, "what the worker uses: a loop that never waits, on a machine with others")
    expect(slot["cpu_percent"] < 250 and 1 << 20 < slot["resident_bytes"] < 1 << 30, f"{slot}")
    expect(slot["gpu_percent"] is None and slot["gpu_memory_bytes"] is None, f"a GPU where there is none: {slot}")
    [free] = [slot for slot in alder.json("top")["slots"] if slot["experiment"] is None]
    expect(free["cpu_percent"] is None, f"a free slot uses nothing: {free}")
    expect("birch" in alder.run("top") and "of 2 alive" in alder.run("top"), "the page")
    alder.run("cancel", identity)
