"""shoal import: what shoal tensorboard has written, and a store of MLflow, come back as experiments that are over."""

import time

from case_event_files import WRITER, points
from lab import case, expect, show, wait_over, wait_until


def imported(mesh, node, kind, directory, *more):
    """The experiments that an import makes, by name, once they are over."""
    identities = [line["experiment"] for line in node.json_lines("import", kind, directory, *more)]
    for identity in identities:
        wait_until(lambda one=identity: show(mesh, one)["state"] in ("completed", "failed"), 60, f"the end of {identity}")
    return {show(mesh, identity)["name"]: show(mesh, identity) for identity in identities}


@case(limit_s=120)
def runs_of_tensorboard_come_back_as_experiments(lab):
    """An experiment goes out as event files and comes back with its hyperparameters, points and times."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    script = WRITER + """
file = new_file(1)
for step in range(1, 4):
    file.write(record(event(step, training__loss=1 / step, validation__accuracy=step / 4)))
"""
    first = lab.submit(node, {
        "name": "first", "entrypoint": "exec python3 train.py", "tensorboard": "read",
        "searcher": {"name": "single", "metric": "accuracy", "smaller_is_better": False},
        "hyperparameters": {"lr": 0.5, "deep": True, "optimizer": {"name": "sgd"}}}, {"train.py": script})
    wait_over(mesh, first, 60)
    logdir = lab.dir / "logdir"
    node.run("tensorboard", first, "--logdir", logdir)
    time.sleep(1.1)  # the import's own clock reads another second
    back = imported(mesh, node, "tfevents", logdir)
    expect(len(back) == 1, f"experiments: {list(back)}")
    again = next(iter(back.values()))
    expect(again["state"] == "completed" and set(again["labels"]) == {"imported", "tfevents"}, f"{again['state']}, {again['labels']}")
    expect(again["metric"] == "accuracy", f"its metric is {again['metric']}")
    expect(again["trials"][0]["hyperparameters"] == {"lr": 0.5, "deep": True, "optimizer": {"name": "sgd"}}, f"{again['trials'][0]['hyperparameters']}")

    def told(identity):
        return sorted((p["step"], p["group"], sorted(p["metrics"].items()), p["wall_ms"] // 10) for p in node.json_lines("metrics", identity, "--all")
                      if not p["group"].startswith("_"))

    mine, theirs = told(first), [row for row in told(again["id"]) if "@" not in str(row[2])]
    expect(mine == theirs, f"points {theirs}, not {mine}")


def put_run(store, name, status, params, metrics):
    run = store / "0" / name
    for part in ("metrics", "params", "tags", "artifacts"):
        (run / part).mkdir(parents=True)
    (run / "meta.yaml").write_text(f"artifact_uri: x\nrun_id: {name}\nrun_name: old-{name}\nstatus: {status}\nlifecycle_stage: active\n")
    for key, value in params.items():
        (run / "params" / key).write_text(value)
    for key, rows in metrics.items():
        (run / "metrics" / key).parent.mkdir(parents=True, exist_ok=True)
        (run / "metrics" / key).write_text("".join(f"{wall} {value} {step}\n" for wall, value, step in rows))


@case(limit_s=120)
def runs_of_mlflow_come_back_as_experiments(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    store = lab.dir / "mlruns"
    put_run(store, "aa", 3, {"lr": "0.01", "optimizer": "sgd: \"fast\"\n"}, {
        "loss": [(1700000000000, 0.5, 1), (1700000001000, 0.25, 2)], "validation/accuracy": [(1700000001500, 0.75, 2)]})
    put_run(store, "bb", 4, {"lr": "1e-3", "a": "1", "a.b": "2", "x.y.z": "3", "x.y.w": "True", "x.q": "", "end.": "5"}, {"loss": [(1700000000000, "nan", 1)]})
    put_run(store, "cc", 3, {}, {})
    (store / "0" / "meta.yaml").write_text("name: Default\n")
    back = imported(mesh, node, "mlruns", store)
    expect({name: one["state"] for name, one in back.items()} == {"old-aa": "completed", "old-bb": "failed"}, f"{list(back)}")
    expect(back["old-aa"]["trials"][0]["hyperparameters"]["lr"] == 0.01, f"{back['old-aa']['trials'][0]['hyperparameters']}")
    expect(back["old-bb"]["trials"][0]["hyperparameters"] == {
        "lr": 1e-3, "a": 1, "a_b": 2, "end_": 5, "x": {"q": "", "y": {"w": "True", "z": 3}}}, f"{back['old-bb']['trials'][0]['hyperparameters']}")
    found = sorted(points(node, back["old-aa"]["id"]), key=str)
    expect(found == [(1, 1, "training", {"loss": 0.5}), (1, 2, "training", {"loss": 0.25}), (1, 2, "validation", {"accuracy": 0.75})], f"{found}")
    walls = {p["wall_ms"] for p in node.json_lines("metrics", back["old-aa"]["id"], "--all")}
    expect(walls == {1700000000000, 1700000001000, 1700000001500}, f"times {walls}")
    expect([p[3] for p in points(node, back["old-bb"]["id"])] == [{"loss": "NaN"}], f"{points(node, back['old-bb']['id'])}")
