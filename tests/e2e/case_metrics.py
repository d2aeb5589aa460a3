"""The points of a trial that has begun anew: all are there, and those of steps that were made again say so."""

import json

from lab import case, expect, show, wait_over


@case(limit_s=60)
def points_that_a_later_attempt_made_anew_are_kept_and_marked(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = ("if [ $SHOAL_ATTEMPT = 1 ]; then set -- report:training:loss:10:1 save:10:1000 flush report:training:loss:20:2 "
              f"flush exit:3; else set -- report:training:loss:15:9 flush; fi; exec {lab.build}/scripted_worker \"$@\"")
    identity = lab.submit(node, {"name": "back", "entrypoint": script, "max_restarts": 1, "searcher": {
        "name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = {(p["attempt"], p["step"]): p.get("void", False) for p in node.json_lines("metrics", identity)}
    expect(points == {(1, 10): False, (1, 20): True, (2, 15): False}, f"points and whether they are void: {points}")
    lines = node.run("metrics", identity).splitlines()
    expect([line.split()[5] for line in lines if "step=20" in line] == ["void"], f"step 20 is not marked: {lines}")
    expect(sum(" void " in line for line in lines) == 1, f"a valid step is marked: {lines}")
    expect(show(mesh, identity)["trials"][0]["metrics"]["training"]["loss"] == 9, "show has not the newest value")

    identity = lab.submit(node, {"name": "down", "entrypoint": f"exec {lab.build}/scripted_worker report:training:loss:10:1 "
                                 "report:training:loss:5:2 flush", "searcher": {
                                     "name": "single", "metric": "loss"}})
    wait_over(mesh, identity, 40)
    points = [(p["step"], p.get("void", False)) for p in node.json_lines("metrics", identity)]
    expect(sorted(points) == [(5, False), (10, False)], f"of one attempt whose steps go back: {points}")


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
        expect(points == {0: None, 1: 0.5, 2: None}, f"the points are {points}")
        strictly(node, "ls")
        strictly(node, "events")
        text = node.run("metrics", identity)
        expect(all(f"accuracy={value}" in text for value in ("nan", "0.5", "inf")), f"a value is missing:\n{text}")
        kept = {(row["trial"], row["step"]) for document in strictly(node, "checkpoint", "ls", identity) for row in document["checkpoints"]}
        expect((1, 1) in kept, f"the checkpoint of the best is not kept: {kept}")
