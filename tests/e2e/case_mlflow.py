"""What a trial's program writes by MLflow: with recorded requests of the official client, and with that client itself."""

import json
import os
import socket
import subprocess
from pathlib import Path

from door import DOOR, Door, log_in, new_token, python_with
from lab import Broken, case, expect, show, wait_over, wait_until

# Requests in the form in which mlflow 3.17 sends them for set_experiment, start_run, log_params, log_metrics and so on.
RECORDED = """
import json, math, os, urllib.error, urllib.parse, urllib.request
URI, RUN, EXPERIMENT = (os.environ["MLFLOW_" + name] for name in ("TRACKING_URI", "RUN_ID", "EXPERIMENT_ID"))
TOKEN = os.environ["MLFLOW_TRACKING_TOKEN"]

def ask(method, path, body=None, status=200, token=TOKEN):
    url = f"{URI}/api/2.0/mlflow/{path}"
    if method == "GET" and body:
        url += "?" + urllib.parse.urlencode(body or {})
    data = None if method == "GET" else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            got, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        got, text = error.code, error.read()
    assert got == status, (path, got, text)
    return json.loads(text)

def refused(method, path, body, status=400, code="INVALID_PARAMETER_VALUE", **options):
    error = ask(method, path, body, status, **options)
    assert error["error_code"] == code, error
    return error["message"]

# set_experiment("mine"): whatever its name, it is the trial's own
assert ask("GET", "experiments/get-by-name", {"experiment_name": "mine"})["experiment"]["experiment_id"] == EXPERIMENT
assert ask("POST", "experiments/create", {"name": "another"})["experiment_id"] == EXPERIMENT
# start_run() with MLFLOW_RUN_ID
assert ask("GET", "runs/get", {"run_id": RUN})["run"]["info"]["experiment_id"] == EXPERIMENT
run = ask("POST", "runs/update", {"run_id": RUN, "status": "RUNNING"})["run_info"]
assert (run["run_id"], run["status"]) == (RUN, "RUNNING"), run
# start_run() once more: the same run
run = ask("POST", "runs/create", {"experiment_id": EXPERIMENT, "user_id": "ada", "start_time": 1, "run_name": "second",
                                  "tags": [{"key": "mlflow.user", "value": "ada"}]})["run"]
assert run["info"]["run_id"] == RUN and run["info"]["run_name"] == "second" and run["info"]["user_id"] == "ada", run

ask("POST", "runs/log-batch", {"run_id": RUN, "params": [{"key": "lr", "value": "0.1"}, {"key": "optimizer/name", "value": "sgd"}],
    "metrics": [{"key": "train/loss", "value": 1 / step, "timestamp": 1700000000000 + step, "step": step} for step in range(1, 101)],
    "tags": [{"key": "mlflow.note.content", "value": "a n\\u00f6te"}]})
ask("POST", "runs/log-metric", {"run_id": RUN, "run_uuid": RUN, "key": "accuracy", "value": 0.5, "timestamp": 1700000000000, "step": "7"})
ask("POST", "runs/log-metric", {"run_id": RUN, "key": "lr_now", "value": 3e-4, "timestamp": 1700000000000, "step": 7})
for step, text in enumerate(('NaN', '"NaN"', 'null', 'Infinity', '"Infinity"', '-Infinity', '"-Infinity"')):
    ask("POST", "runs/log-metric", f'{{"run_id": "{RUN}", "key": "odd/value", "value": {text}, "timestamp": 1700000000000, "step": {step}}}')
ask("POST", "runs/log-parameter", {"run_id": RUN, "key": "lr", "value": "0.1"})
message = refused("POST", "runs/log-parameter", {"run_id": RUN, "key": "lr", "value": "0.2"})
assert message == ("Changing param values is not allowed. Param with key='lr' was already logged with value='0.1' for run "
                   f"ID='{RUN}'. Attempted logging new value '0.2'."), message
ask("POST", "runs/set-tag", {"run_id": RUN, "key": "stage", "value": "first"})
ask("POST", "runs/set-tag", {"run_id": RUN, "key": "stage", "value": "second"})
ask("POST", "runs/set-tag", {"run_id": RUN, "key": "gone", "value": "x"})
ask("POST", "runs/delete-tag", {"run_id": RUN, "key": "gone"})
assert ask("POST", "runs/log-inputs", {"run_id": RUN, "datasets": []}) == {}

# limits, with MLflow's texts
point = {"key": "a", "value": 1, "timestamp": 1, "step": 0}
for name, most, row in (("metrics", 1000, point), ("params", 100, {"key": "p", "value": "v"}), ("tags", 100, {"key": "t", "value": "v"})):
    message = refused("POST", "runs/log-batch", {"run_id": RUN, name: [row] * (most + 1)})
    assert message == (f"A batch logging request can contain at most {most} {name}. Got {most + 1} {name}. Please split up {name} "
                       "across multiple requests and try again."), message
refused("POST", "runs/log-batch", {"run_id": RUN, "metrics": [point] * 950, "tags": [{"key": "t", "value": "v"}] * 51})
assert "at most 1000000 bytes" in refused("POST", "runs/log-batch", {"run_id": RUN, "more": "x" * 1000000})
assert "maximum length of 250" in refused("POST", "runs/set-tag", {"run_id": RUN, "key": "k" * 251, "value": "v"})
ask("POST", "runs/log-parameter", {"run_id": RUN, "key": "long", "value": "\\u00e4" * 6000})
refused("POST", "runs/log-parameter", {"run_id": RUN, "key": "longer", "value": "v" * 6001})
ask("POST", "runs/set-tag", {"run_id": RUN, "key": "long", "value": "v" * 8000})
refused("POST", "runs/set-tag", {"run_id": RUN, "key": "longer", "value": "v" * 8001})
for key in ("a//b", "../a", "a/./b", "/a", "a\\nb", "a;b", ""):
    refused("POST", "runs/log-metric", {"run_id": RUN, "key": key, "value": 1})
refused("POST", "runs/log-metric", {"run_id": RUN, "key": "a", "value": "much"})
refused("POST", "runs/log-metric", {"run_id": RUN, "key": "a", "value": 1, "step": -1})
refused("POST", "runs/log-metric", {"key": "a", "value": 1})

# another trial's run, and what a trial may not do
other = RUN[:16] + format(1 - int(RUN[16:], 16), "016x")
refused("POST", "runs/set-tag", {"run_id": other, "key": "stage", "value": "mine"}, 403, "PERMISSION_DENIED")
refused("POST", "runs/log-metric", {"run_id": other, "key": "a", "value": 1}, 403, "PERMISSION_DENIED")
refused("POST", "runs/update", {"run_id": other, "status": "FINISHED"}, 403, "PERMISSION_DENIED")
refused("POST", "runs/delete", {"run_id": RUN}, 403, "PERMISSION_DENIED")
refused("POST", "experiments/delete", {"experiment_id": EXPERIMENT}, 403, "PERMISSION_DENIED")
refused("POST", "runs/set-tag", {"run_id": RUN, "key": "stage", "value": "x"}, 401, "UNAUTHENTICATED", token="trial_" + "0" * 64)

# what is read is what was written, at once
data = ask("GET", "runs/get", {"run_id": RUN})["run"]["data"]
params = {row["key"]: row["value"] for row in data["params"]}
assert params["lr"] == "0.1" and params["optimizer/name"] == "sgd" and params["long"] == "\\u00e4" * 6000, sorted(params)
tags = {row["key"]: row["value"] for row in data["tags"]}
assert tags["stage"] == "second" and "gone" not in tags and tags["mlflow.note.content"] == "a n\\u00f6te", tags
assert tags["mlflow.experimentName"] == "another" and tags["mlflow.runName"] == "second", tags
metrics = {row["key"]: row["value"] for row in data["metrics"]}
assert metrics == {"train/loss": 0.01, "accuracy": 0.5, "lr_now": 3e-4, "odd/value": "-Infinity"}, metrics
history = ask("GET", "metrics/get-history", {"run_id": RUN, "metric_key": "train/loss"})["metrics"]
assert [(row["step"], row["value"], row["timestamp"]) for row in history] == [
    (step, 1 / step, 1700000000000 + step) for step in range(1, 101)], history[:3]
odd = ask("GET", "metrics/get-history", {"run_id": RUN, "metric_key": "odd/value"})["metrics"]
assert [row["value"] for row in odd] == ["NaN"] * 3 + ["Infinity"] * 2 + ["-Infinity"] * 2, odd
found = ask("POST", "runs/search", {"experiment_ids": [EXPERIMENT], "filter": "params.lr = '0.1' and tags.stage LIKE 'sec%'"})["runs"]
assert RUN in [row["info"]["run_id"] for row in found], found

# files: in pieces, and nothing leads out
def send(method, path, body=None, status=200):
    url = f"{URI}/api/2.0/mlflow-artifacts/artifacts{'' if path[:1] == '?' else '/'}{path}"
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {TOKEN}"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            got, text, fields = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        got, text, fields = error.code, error.read(), error.headers
    assert got == status, (method, path, got, text[:300])
    return text, fields

PLACE = f"{EXPERIMENT}/{RUN}/artifacts"
LARGE = b"0123456789abcdef" * (300 << 10)
assert send("PUT", f"{PLACE}/data/large.bin", LARGE)[0] == b"{}"
send("PUT", f"{PLACE}/page.html", b"<script>alert(1)</script>")
send("PUT", f"{PLACE}/page.html", b"<script>alert(2)</script>")
send("PUT", f"{PLACE}/a%20b%C3%A4.txt", iter([b"in ", b"chunks"]))
send("PUT", f"{PLACE}/empty", b"")
text, fields = send("GET", f"{PLACE}/page.html")
assert text == b"<script>alert(2)</script>" and fields["X-Content-Type-Options"] == "nosniff", (text, fields)
assert fields["Content-Disposition"] == "attachment" and fields["Content-Type"] == "application/octet-stream", fields
assert send("GET", f"{PLACE}/data/large.bin")[0] == LARGE and send("GET", f"{PLACE}/a%20b%C3%A4.txt")[0] == b"in chunks"
assert send("GET", f"{PLACE}/empty")[0] == b""
output = os.environ["SHOAL_OUTPUT_DIR"]
assert open(f"{output}/data/large.bin", "rb").read() == LARGE
listed = ask("GET", "artifacts/list", {"run_id": RUN})
assert listed["root_uri"] == f"mlflow-artifacts:/{PLACE}" and listed["files"] == [
    {"path": "a b\u00e4.txt", "is_dir": False, "file_size": 9}, {"path": "data", "is_dir": True},
    {"path": "empty", "is_dir": False, "file_size": 0}, {"path": "page.html", "is_dir": False, "file_size": 25}], listed
assert ask("GET", "artifacts/list", {"run_id": RUN, "path": "data"})["files"] == [
    {"path": "data/large.bin", "is_dir": False, "file_size": len(LARGE)}]
assert json.loads(send("GET", f"?path={PLACE}/data")[0]) == {"files": [{"path": "large.bin", "is_dir": False, "file_size": len(LARGE)}]}
assert json.loads(send("GET", f"?path={PLACE}/nothing")[0]) == {"files": []}
for path in ("../../work/client.py", "%2e%2e/work/client.py", "/etc/passwd", "a/%2E%2E/%2e%2e/hparams.json", "a%0ab", "a%5cb", "a//b", "a/", "."):
    for method, body in (("PUT", b"x"), ("GET", None), ("DELETE", None)):
        send(method, f"{PLACE}/{path}", body, 400)
send("PUT", PLACE, b"x", 400)
send("PUT", f"{PLACE}/data", b"x", 400)
send("PUT", f"{EXPERIMENT}/{other}/artifacts/mine", b"x", 403)
os.symlink("/etc", f"{output}/outside")
send("GET", f"{PLACE}/outside/passwd", None, 404)
send("PUT", f"{PLACE}/outside/shoal", b"x", 400)
send("DELETE", f"{PLACE}/outside/passwd", None, 400)
os.unlink(f"{output}/outside")
send("DELETE", f"{PLACE}/empty")
send("GET", f"{PLACE}/empty", None, 404)
send("DELETE", f"{PLACE}/empty", None, 404)

# a model, as log_model of MLflow 3 does it
model = ask("POST", "logged-models", {"experiment_id": EXPERIMENT, "name": "net", "model_type": "", "source_run_id": RUN,
                                      "params": [{"key": "depth", "value": "2"}], "tags": [{"key": "a", "value": "b"}]})["model"]
ID = model["info"]["model_id"]
assert model["info"]["status"] == "LOGGED_MODEL_PENDING" and model["info"]["source_run_id"] == RUN, model
root = model["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
send("PUT", f"{root}/data/weights", b"weights")
ask("PATCH", f"logged-models/{ID}/tags", {"tags": [{"key": "c", "value": "d"}]})
ask("DELETE", f"logged-models/{ID}/tags/a", {})
ask("POST", f"logged-models/{ID}/params", {"params": [{"key": "width", "value": "3"}]})
assert ask("PATCH", f"logged-models/{ID}", {"model_id": ID, "status": "LOGGED_MODEL_READY"})["model"]["info"]["status"] == "LOGGED_MODEL_READY"
ask("POST", "runs/outputs", {"run_id": RUN, "models": [{"model_id": ID, "step": "7"}]})
model = ask("GET", f"logged-models/{ID}")["model"]
assert model["info"]["tags"] == [{"key": "c", "value": "d"}] and model["info"]["status"] == "LOGGED_MODEL_READY", model
assert [row["key"] for row in model["data"]["params"]] == ["depth", "width"], model
assert ask("GET", "runs/get", {"run_id": RUN})["run"]["outputs"]["model_outputs"] == [{"model_id": ID, "step": 7}]
assert ask("POST", "logged-models/search", {"experiment_ids": [EXPERIMENT], "filter": "name = 'net' and params.depth = '2'"})["models"] != []
assert ask("POST", "logged-models/search", {"experiment_ids": [EXPERIMENT], "filter": "name = 'other'"}) == {"models": []}
refused("GET", "logged-models/m-" + "1" * 32, {}, 404, "RESOURCE_DOES_NOT_EXIST")
refused("GET", f"logged-models/{ID}/nothing", {}, 404, "ENDPOINT_NOT_FOUND")
refused("GET", "nothing", {}, 404, "ENDPOINT_NOT_FOUND")
# leaving the run does not end the trial
run = ask("POST", "runs/update", {"run_id": RUN, "status": "FINISHED", "end_time": 1700000000000})["run_info"]
assert run["status"] == "RUNNING", run

# a run below it, and one after it, are further runs with parameters, metrics and files of their own
below = ask("POST", "runs/create", {"experiment_id": EXPERIMENT, "start_time": 1700000000000, "run_name": "fold 1",
                                    "tags": [{"key": "mlflow.parentRunId", "value": RUN}]})["run"]["info"]
after = ask("POST", "runs/create", {"experiment_id": EXPERIMENT, "start_time": 1700000000001, "run_name": "next"})["run"]["info"]
assert len({RUN, below["run_id"], after["run_id"]}) == 3 and below["status"] == "RUNNING" and below["start_time"] == 1700000000000, (below, after)
ID = after["run_id"]
assert ID[:16] == RUN[:16] and ID[24:] == RUN[24:], ID
ask("POST", "runs/log-batch", {"run_id": ID, "params": [{"key": "lr", "value": "7"}], "tags": [{"key": "stage", "value": "third"}],
                               "metrics": [{"key": "accuracy", "value": 0.75, "timestamp": 1700000000000, "step": 1000000},
                                           {"key": "train/loss", "value": 9, "timestamp": 1700000000000, "step": 3}]})
refused("POST", "runs/log-parameter", {"run_id": ID, "key": "lr", "value": "8"})
send("PUT", f"{EXPERIMENT}/{ID}/artifacts/page.html", b"its own")
info = ask("POST", "runs/update", {"run_id": ID, "status": "FAILED", "end_time": 1700000000009})["run_info"]
assert (info["status"], info["end_time"]) == ("FAILED", 1700000000009), info
run = ask("GET", "runs/get", {"run_id": ID})["run"]
assert run["data"]["params"] == [{"key": "lr", "value": "7"}] and run["info"]["run_name"] == "next", run
assert {row["key"]: row["value"] for row in run["data"]["metrics"]} == {"accuracy": 0.75, "train/loss": 9}, run
assert {"key": "mlflow.parentRunId", "value": RUN} in run["data"]["tags"], run
assert [row["value"] for row in ask("GET", "metrics/get-history", {"run_id": ID, "metric_key": "train/loss"})["metrics"]] == [9]
assert [row["step"] for row in ask("GET", "metrics/get-history", {"run_id": RUN, "metric_key": "accuracy"})["metrics"]] == [7]
assert send("GET", f"{EXPERIMENT}/{ID}/artifacts/page.html")[0] == b"its own"
assert ask("GET", "artifacts/list", {"run_id": ID})["files"] == [{"path": "page.html", "is_dir": False, "file_size": 7}]
own = ask("GET", "runs/get", {"run_id": RUN})["run"]["data"]
assert {row["key"]: row["value"] for row in own["metrics"]} == metrics and "7" not in [row["value"] for row in own["params"]], own
found = ask("POST", "runs/search", {"experiment_ids": [EXPERIMENT], "filter": "params.lr = '7' and metrics.accuracy > 0.7"})["runs"]
assert ID in [row["info"]["run_id"] for row in found] and RUN not in [row["info"]["run_id"] for row in found], found
refused("GET", "runs/get", {"run_id": RUN[:16] + "00000001" + RUN[24:]}, 404, "RESOURCE_DOES_NOT_EXIST")
print("all as recorded", TOKEN)
"""


def over_with_logs(mesh, found, seconds=60):
    """Waits until the experiment is completed; if it is not, what its trials wrote is in the complaint."""
    try:
        wait_over(mesh, found, seconds)
    except Broken as broken:
        raise Broken(f"{broken}: {mesh.nodes[0].run('logs', f'{found}/0', check=False)[-3000:]}") from None


@case(limit_s=120)
def a_trial_is_tracked_by_mlflows_requests(lab):
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    found = lab.submit(mesh.nodes[0], {
        "name": "tracked", "entrypoint": "python3 client.py", "max_restarts": 0, "hyperparameters": {"width": 16},
        "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 2}}, {"client.py": RECORDED})
    over_with_logs(mesh, found)
    for trial in range(2):
        token = mesh.nodes[0].run("logs", f"{found}/{trial}").split()[-1]
        shown = show(mesh, found)["trials"][trial]["metrics"]
        expect(sorted(shown) == ["odd", "train", "training", "validation"] and shown["train"]["loss"] == 0.01 and shown["validation"]["accuracy"] == 0.5 and shown["training"]["lr_now"] == 3e-4,
               f"the trial's metrics by show: {shown}")
        for node in mesh.nodes:
            door = Door(node, new_token(node, "mlflow", "--read-only"))
            run = f"{found}{trial:016x}"
            data = door.get(f"/api/2.0/mlflow/runs/get?run_id={run}").json()["run"]["data"]
            params = {row["key"]: row["value"] for row in data["params"]}
            metrics = {row["key"]: row["value"] for row in data["metrics"]}
            expect(params["lr"] == "0.1" and params["width"] == "16", f"parameters at {node.name}: {params}")
            expect(metrics["accuracy"] == 0.5 and metrics["train/loss"] == 0.01, f"metrics at {node.name}: {metrics}")
            place = f"{int(found, 16) & (1 << 63) - 1}/{run}/artifacts"
            file = wait_until(lambda: door.get(f"/api/2.0/mlflow-artifacts/artifacts/{place}/data/large.bin"), 20, "the file")
            expect(file.status == 200 and file.body == b"0123456789abcdef" * (300 << 10), f"a file at {node.name}: {file}")
            listed = door.get(f"/api/2.0/mlflow-artifacts/artifacts?path={place}").json()["files"]
            expect([row["path"] for row in listed] == ["a b\u00e4.txt", "data", "models", "page.html", "runs"], f"files at {node.name}: {listed}")
            expect(door.document(f"/experiments/{found}/trials/{trial}/files?path=models")["files"][0]["is_directory"], "by the API")
            file = door.get(f"/api/v1/experiments/{found}/trials/{trial}/file?path=page.html")
            expect(file.body == b"<script>alert(2)</script>" and file.fields["Content-Disposition"] == "attachment", f"by the API: {file}")
            answer = door.get(f"/api/2.0/mlflow/runs/get?run_id={run}", token=token)
            expect(answer.status == 401, f"the token of a trial that is over: {answer}")
    plain = lab.submit(mesh.nodes[0], {
        "name": "elsewhere", "entrypoint": "env | grep ^MLFLOW_", "environment": {"variables": {"MLFLOW_TRACKING_URI": "http://127.0.0.1:5000"}},
        "searcher": {"name": "single", "metric": "loss"}})
    wait_over(mesh, plain, 60)
    log = mesh.nodes[0].run("logs", f"{plain}/0")
    expect(log.split() == ["MLFLOW_TRACKING_URI=http://127.0.0.1:5000"], f"a program with a server of its own finds {log}")
    off = lab.submit(mesh.nodes[0], {"name": "off", "entrypoint": "env | grep ^MLFLOW_ || echo none", "mlflow": False,
                                     "searcher": {"name": "single", "metric": "loss"}})
    wait_over(mesh, off, 60)
    expect(mesh.nodes[0].run("logs", f"{off}/0").split() == ["none"], "a program without MLflow finds variables of it")


# A script as people have it: nothing in it knows of Shoal.
SCRIPT = """
import hashlib, os
import mlflow
import numpy
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

mlflow.set_experiment("fruit")
mlflow.autolog()
generator = numpy.random.default_rng(1)
features = generator.normal(size=(200, 4))
labels = (features.sum(axis=1) > 0).astype(int)
with mlflow.start_run(run_name="by hand") as run:
    LogisticRegression(C=0.5).fit(features, labels)
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_params({"depth": 2, "kind": "linear"})
    mlflow.set_tag("fruit", "apple")
    mlflow.log_text("hello", "notes/hello.txt")
    piece = os.urandom(1 << 20)
    with open("large.bin", "wb") as file:
        for number in range(int(os.environ["SHOAL_HP_MIB"])):
            file.write(number.to_bytes(4, "big") + piece[4:])
    mlflow.log_artifact("large.bin", "big")
GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0, 10.0]}, cv=2).fit(features, labels)
with open("large.bin", "rb") as file:
    print("DIGEST", hashlib.file_digest(file, "sha256").hexdigest())
print("RUN", run.info.run_id)
"""

READS = """
import hashlib, json, sys
import mlflow
import numpy
run_id = sys.argv[1]
run = mlflow.get_run(run_id)
model = mlflow.sklearn.load_model(f"models:/{run.outputs.model_outputs[0].model_id}")
path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="big/large.bin", dst_path=sys.argv[2])
with open(path, "rb") as file:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
every = mlflow.search_runs([run.info.experiment_id])
found = mlflow.search_runs([run.info.experiment_id], "params.depth = '2' and tags.fruit LIKE 'app%' and metrics.loss < 0.3")
history = mlflow.MlflowClient().get_metric_history(run_id, "loss")
print(json.dumps({"params": run.data.params, "metrics": run.data.metrics, "tags": run.data.tags, "digest": digest, "name": run.info.run_name,
    "files": sorted(file.path for file in mlflow.MlflowClient().list_artifacts(run_id)), "found": list(found["run_id"]),
    "best": [value for value in every.get("params.best_C", []) if value is not None],
    "tried": sorted(value for value, parent in zip(every["params.C"], every["tags.mlflow.parentRunId"]) if parent not in (None, run_id)),
    "text": mlflow.artifacts.load_text(f"runs:/{run_id}/notes/hello.txt"),
    "history": [[point.step, point.value] for point in history], "guess": model.predict(numpy.array([[1.0, 1, 1, 1]])).tolist(),
    "models": [model.model_id for model in mlflow.search_logged_models([run.info.experiment_id], output_format="list")]}))
"""


def memory_of(process):
    """The most memory that a process has had, in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise Broken(f"process {process} has no VmHWM")


@case(limit_s=900, whole=True)
def a_script_with_autolog_is_tracked_with_no_line_changed(lab):
    """The official client writes in a trial and reads at another node, a file of 1 GiB, too, in little memory of the door."""
    python = python_with("mlflow-sklearn-venv", "mlflow-skinny==3.17.2", "scikit-learn==1.7.2", "pandas==2.3.3", limit_s=500)
    mesh = lab.mesh(3, slots="cpu:1", options=DOOR)
    doors = [Door(node) for node in mesh.nodes]
    found = lab.submit(mesh.nodes[0], {"name": "script", "entrypoint": f"{python} script.py", "max_restarts": 0, "hyperparameters": {"mib": 1024},
                                       "searcher": {"name": "single", "metric": "loss"}}, {"script.py": SCRIPT})
    over_with_logs(mesh, found, 400)
    words = mesh.nodes[0].run("logs", f"{found}/0").split()
    digest, run = words[words.index("DIGEST") + 1], words[words.index("RUN") + 1]
    expect(run == f"{found}{0:016x}", f"the run is {run}")
    own = show(mesh, found)["trials"][0]
    expect(own["metrics"]["validation"]["loss"] == 0.2, f"metrics by show: {own['metrics']}")
    ran_on = own["slots"][0]["node"] if own["slots"] else None
    reader = next(index for index, node in enumerate(mesh.nodes) if node.json("status")["node"]["id"] != ran_on)
    environment = {"PATH": os.environ["PATH"], "HOME": str(lab.dir), "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{doors[reader].port}",
                   "MLFLOW_TRACKING_TOKEN": new_token(mesh.nodes[reader], "mlflow", "--read-only")}
    to = lab.dir / "downloads"
    to.mkdir()
    done = subprocess.run([python, "-c", READS, run, str(to)], capture_output=True, text=True, timeout=300, env=environment)
    expect(done.returncode == 0, done.stderr[-3000:])
    told = json.loads(done.stdout.splitlines()[-1])
    expect(told["digest"] == digest, "the file of 1 GiB differs")
    expect(told["params"]["C"] == "0.5" and told["params"]["depth"] == "2" and told["params"]["mib"] == "1024", f"parameters: {told['params']}")
    expect(told["metrics"]["loss"] == 0.2 and "training_accuracy_score" in told["metrics"], f"metrics: {told['metrics']}")
    expect(told["tags"]["fruit"] == "apple" and told["tags"]["mlflow.experimentName"] == "fruit" and told["name"] == "by hand", f"tags: {told}")
    expect(told["found"] == [run] and told["history"] == [[step, 1 / (step + 1)] for step in range(5)], f"searched: {told}")
    expect(len(told["best"]) == 1 and told["tried"] == ["0.1", "1.0", "10.0"], f"further runs of the search: {told['best']}, {told['tried']}")
    expect({"big", "notes", "models"} <= set(told["files"]) and told["text"] == "hello", f"files: {told['files']}")
    expect(told["guess"] == [1] and len(told["models"]) == 3, f"the model: {told['guess']} of {told['models']}")
    memory = [memory_of(door.process()) for door in doors]
    expect(max(memory) < 64, f"the doors have had {memory} MiB")
    return f"the doors have had {', '.join(f'{one:.0f}' for one in memory)} MiB"


KEEPS_ON = """
import json, os, time, urllib.error, urllib.request
URI, RUN, TOKEN = (os.environ["MLFLOW_" + name] for name in ("TRACKING_URI", "RUN_ID", "TRACKING_TOKEN"))

def ask(method, path, body):
    for _ in range(100):  # a daemon that starts again is away for a moment
        request = urllib.request.Request(f"{URI}/api/2.0/{path}", body, {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            if error.code not in (401, 503):
                return error.code
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError(path)

def post(path, **fields):
    return ask("POST", f"mlflow/runs/{path}", json.dumps({"run_id": RUN, **fields}).encode())

assert post("log-parameter", key="lr", value="0.1") == 200
assert post("log-metric", key="train/loss", value=1, step=1) == 200
print("begun", TOKEN, flush=True)
while not os.path.exists(os.environ["SHOAL_HP_GO"]):
    time.sleep(0.05)
assert post("log-parameter", key="lr", value="0.1") == 200
assert post("log-parameter", key="lr", value="0.2") == 400
assert post("log-metric", key="train/loss", value=0.5, step=2) == 200
assert post("set-tag", key="stage", value="after") == 200
place = f"{os.environ['MLFLOW_EXPERIMENT_ID']}/{RUN}/artifacts/after.txt"
assert ask("PUT", f"mlflow-artifacts/artifacts/{place}", b"after") == 200
"""


@case(limit_s=120)
def a_trial_writes_on_after_its_daemon_was_killed(lab):
    """The token outlives the daemon as the worker does, and parameters stay what they were. Nobody else writes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mesh = lab.mesh(1, slots="cpu:1", options=["--http", f"127.0.0.1:{port}"])
    node, go = mesh.nodes[0], lab.dir / "go"
    found = lab.submit(node, {"name": "on", "entrypoint": "python3 client.py", "max_restarts": 0, "hyperparameters": {"go": str(go)},
                              "searcher": {"name": "single", "metric": "loss"}}, {"client.py": KEEPS_ON})
    wait_until(lambda: "begun" in node.run("logs", f"{found}/0", check=False), 30, "the trial to begin")
    node.kill_daemon()
    node.start()
    door = Door(node)
    run, place = f"{found}{0:016x}", f"{int(found, 16) & (1 << 63) - 1}/{found}{0:016x}/artifacts"
    upload = f"/api/2.0/mlflow-artifacts/artifacts/{place}/strange.bin"
    large = b"x" * (4 << 20)
    for status, options in ((401, {"token": None}), (401, {"token": "trial_" + "0" * 64}), (403, {"token": new_token(node, "reader", "--read-only")}),
                            (501, {}), (403, {"token": None, "Host": "evil.example"})):
        answer = door.ask("PUT", upload, body=large, **options)
        expect(answer.status == status, f"an upload with {options}: {answer}")
    cookie = log_in(door)
    answer = door.ask("PUT", upload, body=b"x", token=None, Cookie=cookie, Content_Type="text/plain")
    expect(answer.status == 415, f"an upload with a cookie: {answer}")
    answer = door.post("/api/2.0/mlflow/runs/set-tag", {"run_id": run, "key": "a", "value": "b"})
    expect(answer.status == 403 and answer.json()["error_code"] == "PERMISSION_DENIED", f"a tag by another token: {answer}")
    token = node.run("logs", f"{found}/0").split()[1]
    for path, body in (("/api/v1/experiments", {"config": "name: x"}), (f"/api/v1/experiments/{found}/cancel", {}), ("/api/v1/tokens", {"name": "x"})):
        expect(door.post(path, body, token=token).status == 403, f"{path} with the token of a trial")
    expect(door.get("/api/v1/experiments", token=token).status == 200, "the token of a trial reads")
    expect(memory_of(door.process()) < 64, "the door's memory")
    go.touch()
    over_with_logs(mesh, found)
    data = door.get(f"/api/2.0/mlflow/runs/get?run_id={run}").json()["run"]["data"]
    expect({"key": "lr", "value": "0.1"} in data["params"] and {"key": "stage", "value": "after"} in data["tags"], f"{data}")
    expect([(row["value"], row["step"]) for row in data["metrics"]] == [(0.5, 2)], f"{data['metrics']}")
    file = wait_until(lambda: door.get(upload.replace("strange.bin", "after.txt")), 20, "the file")
    expect(file.body == b"after", f"the file: {file}")
