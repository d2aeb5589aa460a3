"""The model registry: by the command line, by MLflow's requests and by its official client, and with both sides of a cut writing."""

import hashlib
import json
import shutil
import subprocess

from case_mlflow import over_with_logs
from door import DOOR, Door, new_token, python_with
from lab import case, expect, wait_over, wait_until
from look import refusal

LAST_ONLY = {"save_trial_best": 0, "save_trial_latest": 1, "save_experiment_best": 0}


def train(lab, node, name, **more):
    return lab.submit(node, {
        "name": name, "entrypoint": "shoal-train mlp", "checkpoint": LAST_ONLY, "searcher": {"name": "single", "metric": "accuracy", "smaller_is_better": False},
        "hyperparameters": {"hidden": 16, "batch_size": 500, "epochs": 4, "learning_rate": 0.5, "checkpoint_every": 120}, **more})


def steps(node, identity):
    return sorted(row["step"] for row in node.json("checkpoint", "ls", identity)["checkpoints"])


def registry(node, *name):
    return node.json("model", "ls", *name)["registry"]


def versions(node, name):
    return sorted((row["version"] for row in registry(node, name) if row["kind"] == "version"))


def aliases(node, name):
    return {row["name"]: row["version"] for row in registry(node, name) if row["kind"] == "alias"}


def digest(directory):
    return hashlib.sha256((directory / "checkpoint").read_bytes()).hexdigest()


@case(limit_s=180)
def a_registered_checkpoint_is_kept_and_found_by_its_alias_at_every_node(lab):
    mesh = lab.mesh(3, slots="cpu:1", options=DOOR)
    alder, birch, cedar = mesh.nodes
    identity = train(lab, alder, "net")
    wait_over(mesh, identity, 60)
    last = wait_until(lambda: (kept := steps(birch, identity)) and len(kept) == 1 and kept[0], 40, "one checkpoint to be left")
    expect(birch.run("model", "register", identity).strip() == "net/1", "the first version has another name")
    expect(registry(birch, "net")[0]["kind"] == "model" and versions(birch, "net") == [1], f"after register: {registry(birch, 'net')}")
    second = train(lab, cedar, "net")  # another experiment of that name
    wait_over(mesh, second, 60)
    expect(cedar.run("model", "register", f"{second}/0@{last}", "--name", "net", "--alias", "champion").splitlines()
           == ["net/2", "net@champion is version 2"], "the second version")
    for node in mesh.nodes:
        wait_until(lambda: versions(node, "net") == [1, 2] and aliases(node, "net") == {"champion": 2}, 20, f"{node.name} to know both")
        place = node.tree / "got"
        node.run("model", "get", "net@champion", place)
        wanted = node.tree / "wanted"
        node.run("checkpoint", "get", f"{second}/0@{last}", wanted)
        expect(digest(place) == digest(wanted), f"{node.name} gets another checkpoint")
        for directory in (place, wanted):
            shutil.rmtree(directory)
    # MLflow's client downloads it, too.
    door = Door(birch)
    uri = ask(door, "GET", "model-versions/get-download-uri?name=net&version=2")["artifact_uri"].removeprefix("mlflow-artifacts:/")
    files = door.get(f"/api/2.0/mlflow-artifacts/artifacts?path={uri}").json()["files"]
    expect(files == [{"path": "checkpoint", "is_dir": False}], f"the files of the checkpoint are {files}")
    got = door.get(f"/api/2.0/mlflow-artifacts/artifacts/{uri}/checkpoint")
    birch.run("model", "get", "net/2", birch.tree / "got")
    expect(got.status == 200 and hashlib.sha256(got.body).hexdigest() == digest(birch.tree / "got"), f"by HTTP: {got.status}")
    for wrong, status in ((f"{uri}", 400), (f"{uri[:-1]}x/checkpoint", 400), (uri[:-64] + "0" * 64 + "/checkpoint", 404), (f"{uri}/../checkpoint", 400)):
        expect(door.get(f"/api/2.0/mlflow-artifacts/artifacts/{wrong}").status == status, f"{wrong} is not {status}")
    # A registered checkpoint outlives what save_... says, and its experiment is not deleted.
    expect("is not deleted" in refusal(alder, "delete", identity, "--yes", code=1), "an experiment with a version is deleted")
    expect("no such version" in refusal(alder, "model", "get", "net/7", alder.tree / "x", code=4), "a version that is not there")
    expect("has no such version" in refusal(alder, "model", "get", "net@nobody", alder.tree / "x", code=4), "an alias that is not there")
    expect("no alias" in refusal(alder, "model", "alias", "net", "1", "v1", code=2), "an alias like a version")
    expect("no version 9" in refusal(alder, "model", "alias", "net", "9", "best", code=4), "an alias of no version")
    alder.run("model", "rm", "net/2")
    wait_until(lambda: versions(birch, "net") == [1] and aliases(birch, "net") == {}, 20, "the version and its alias to be gone")
    expect(birch.run("model", "register", f"{second}", "--name", "net").strip() == "net/3", "a number is used again")
    cedar.run("model", "rm", "net")
    wait_until(lambda: all(registry(node) == [] for node in mesh.nodes), 20, "the model to be gone")
    alder.run("delete", identity, "--yes")
    expect("no model net" in refusal(alder, "model", "ls", "net", code=4), "a model that is gone")


@case(limit_s=180)
def a_registered_checkpoint_stays_when_newer_ones_replace_the_others(lab):
    """Only the newest checkpoint is kept (save_trial_latest: 1); the third one is a version, and stays until that is removed."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = lab.submit(alder, {
        "name": "many", "entrypoint": "shoal-train mlp", "checkpoint": LAST_ONLY,
        "searcher": {"name": "single", "metric": "accuracy", "smaller_is_better": False},
        "hyperparameters": {"hidden": 16, "batch_size": 500, "epochs": 20, "learning_rate": 0.5, "checkpoint_every": 30}})
    early = wait_until(lambda: (kept := steps(birch, identity)) and kept[-1], 40, "a checkpoint")
    birch.run("model", "register", identity, "--name", "early")
    pinned = next(row["step"] for row in registry(birch, "early") if row["kind"] == "version")
    wait_over(mesh, identity, 90)
    kept = wait_until(lambda: len(left := steps(alder, identity)) <= 2 and left, 40, "the others to go")
    expect(kept[0] == pinned >= early and len(kept) == 2, f"step {pinned} is registered; {kept} are kept")
    alder.run("model", "rm", "early", "--yes")
    wait_until(lambda: steps(birch, identity) == kept[1:], 40, "the version's checkpoint to go")


@case(limit_s=180)
def both_sides_of_a_cut_make_versions_and_none_is_lost(lab):
    mesh, wire = lab.wired(["alder", "birch", "cedar", "dogwood"], slots="cpu:1")
    mesh.start()
    alder, birch, cedar, dogwood = mesh.nodes
    identity = train(lab, alder, "net", checkpoint={"save_trial_best": 9, "save_trial_latest": 9, "save_experiment_best": 9, "replicas": 4})
    wait_over(mesh, identity, 60)
    expect(alder.run("model", "register", identity).strip() == "net/1", "before the cut")
    for node in mesh.nodes:
        wait_until(lambda: versions(node, "net") == [1] and steps(node, identity), 20, f"{node.name} to know the version")
    first, second = steps(alder, identity)[:2]
    wire.cut(mesh.nodes.index(dogwood))
    wait_until(lambda: dogwood.json("status")["nodes_alive"] == 1 and alder.json("status")["nodes_alive"] == 3, 40, "the cut to be noticed")
    expect(alder.run("model", "register", f"{identity}/0@{first}", "--alias", "champion").split()[0] == "net/2", "on the larger side")
    expect(dogwood.run("model", "register", f"{identity}/0@{second}", "--alias", "champion").split()[0] == "net/2", "on the smaller side")
    dogwood.run("model", "rm", "net/1", "--yes")
    alder.run("model", "alias", "net", "1", "old")
    wire.join(mesh.nodes.index(dogwood))
    seen = wait_until(lambda: same if len({json.dumps(same := registry(node, "net"), sort_keys=True) for node in mesh.nodes}) == 1
                      and len(versions(node, "net")) == 2 and 1 not in versions(node, "net") else None, 60, "all nodes to show the same two versions")
    made = {row["version"]: row["step"] for row in seen if row["kind"] == "version"}
    numbers = sorted(made)
    expect(numbers[0] == 2 and numbers[1] // 1_000_000 == 2 and set(made.values()) == {first, second}, f"the versions are {made}")
    named = {row["name"]: row["version"] for row in seen if row["kind"] == "alias"}
    expect(set(named) == {"champion"} and named["champion"] in numbers, f"the aliases are {named}")
    expect(cedar.run("model", "register", identity).strip() == "net/3", "after the cut")


# Requests in the form in which mlflow 3.17 sends them, from outside any trial.
def ask(door, method, path, body=None, status=200, **options):
    answer = (door.get(f"/api/2.0/mlflow/{path}", **options) if method == "GET"
              else door.ask(method, f"/api/2.0/mlflow/{path}", body=body or {}, **options))
    expect(answer.status == status, f"{method} {path} {body}: {answer}")
    return answer.json()


LOGS = """
import json, os, urllib.request
URI, RUN, EXPERIMENT, TOKEN = (os.environ["MLFLOW_" + name] for name in ("TRACKING_URI", "RUN_ID", "EXPERIMENT_ID", "TRACKING_TOKEN"))

def ask(method, path, body, status=200):
    url = f"{URI}/api/2.0/{path}"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            got, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        got, text = error.code, error.read()
    assert got == status, (path, got, text)
    return json.loads(text)

if RUN.endswith("1"):  # of the other trial
    raise SystemExit
PLACE = f"{EXPERIMENT}/{RUN}/artifacts"
ask("PUT", f"mlflow-artifacts/artifacts/{PLACE}/model/weights", b"weights of it")
# log_model(registered_model_name="fruit") of MLflow 2: the trial's program registers its own files
ask("POST", "mlflow/registered-models/create", {"name": "fruit", "description": "for the shop"})
made = ask("POST", "mlflow/model-versions/create", {"name": "fruit", "source": f"mlflow-artifacts:/{PLACE}/model", "run_id": RUN,
                                                    "tags": [{"key": "kind", "value": "apple"}]})["model_version"]
assert (made["version"], made["status"], made["run_id"]) == ("1", "READY", RUN), made
ask("POST", "mlflow/registered-models/alias", {"name": "fruit", "alias": "challenger", "version": "1"})
other = RUN[:24] + "00000001"
for body in ({"name": "fruit", "source": f"mlflow-artifacts:/{EXPERIMENT}/{other}/artifacts/model"},):
    ask("POST", "mlflow/model-versions/create", body, 403)
ask("DELETE", "mlflow/registered-models/delete", {"name": "fruit"}, 403)
ask("DELETE", "mlflow/model-versions/delete", {"name": "fruit", "version": "1"}, 403)
ask("PATCH", "mlflow/registered-models/update", {"name": "fruit", "description": "mine"}, 403)
model = ask("POST", "mlflow/logged-models", {"experiment_id": EXPERIMENT, "name": "net", "source_run_id": RUN})["model"]
print(json.dumps(model["info"]["model_id"]))
"""


@case(limit_s=180)
def models_are_registered_by_mlflows_requests(lab):
    mesh = lab.mesh(3, slots="cpu:1", options=DOOR)
    found = lab.submit(mesh.nodes[0], {"name": "fruits", "entrypoint": "python3 client.py", "max_restarts": 0,
                                       "searcher": {"name": "random", "metric": "loss", "max_trials": 2}, "hyperparameters": {"x": 1},
                                       "checkpoint": {"save_trial_best": 0, "save_trial_latest": 0, "save_experiment_best": 0}}, {"client.py": LOGS})
    over_with_logs(mesh, found)
    run, decimal = f"{found}{0:016x}", str(int(found, 16) & (1 << 63) - 1)
    source = f"mlflow-artifacts:/{decimal}/{run}/artifacts/model"
    doors = [Door(node) for node in mesh.nodes]
    birch = doors[1]
    def seen_by_birch():  # record by record
        answer = birch.get("/api/2.0/mlflow/registered-models/get?name=fruit")
        model = answer.json().get("registered_model")
        return model if model and model["description"] and model["aliases"] and model["latest_versions"] and model["latest_versions"][0]["tags"] else None

    model = wait_until(seen_by_birch, 20, "the model at another node")
    expect(model["name"] == "fruit" and model["description"] == "for the shop" and model["aliases"] == [{"alias": "challenger", "version": "1"}]
           and model["latest_versions"][0]["tags"] == [{"key": "kind", "value": "apple"}] and model["creation_timestamp"] > 1_600_000_000_000, f"{model}")
    error = ask(birch, "POST", "registered-models/create", {"name": "fruit"}, status=400)
    expect(error["error_code"] == "RESOURCE_ALREADY_EXISTS", f"twice: {error}")
    for body in ({"name": "a/b"}, {"name": ""}, {}, {"name": "n" * 256}):
        expect(ask(birch, "POST", "registered-models/create", body, status=400)["error_code"] == "INVALID_PARAMETER_VALUE", f"{body}")
    made = [ask(door, "POST", "model-versions/create", {"name": "fruit", "source": source, "run_id": run, "description": f"by {door.node.name}"})
            for door in doors]
    numbers = [row["model_version"]["version"] for row in made]
    expect(numbers == ["2", "3", "4"], f"three nodes make versions: {numbers}")
    for bad in ("file:///etc/passwd", "s3://bucket/model", f"mlflow-artifacts:/{decimal}/{run}/artifacts/../..", "models:/m-1"):
        error = ask(birch, "POST", "model-versions/create", {"name": "fruit", "source": bad}, status=400)
        expect(error["error_code"] == "INVALID_PARAMETER_VALUE", f"{bad}: {error}")
    expect(ask(birch, "POST", "model-versions/create", {"name": "none", "source": source}, status=404)["error_code"] == "RESOURCE_DOES_NOT_EXIST", "no model")
    logged = json.loads(mesh.nodes[0].run("logs", f"{found}/0").splitlines()[-1])
    made = ask(birch, "POST", "model-versions/create", {"name": "fruit", "source": f"models:/{logged}", "model_id": logged})["model_version"]
    expect((made["version"], made["run_id"], made["model_id"]) == ("5", run, logged), f"of a logged model: {made}")
    expect(ask(birch, "GET", "model-versions/get-download-uri?name=fruit&version=5")["artifact_uri"]
           == f"mlflow-artifacts:/{decimal}/models/{logged}/artifacts", "the address of a logged model")
    ask(birch, "PATCH", f"logged-models/{logged}/tags", {"tags": [{"key": "mlflow.modelVersions", "value": "[]"}]})
    ask(birch, "PATCH", f"logged-models/{logged}/tags", {"tags": [{"key": "other", "value": "x"}]}, status=501)
    ask(birch, "DELETE", "model-versions/delete", {"name": "fruit", "version": "5"})
    cedar = doors[2]
    def known(version):
        return cedar.get(f"/api/2.0/mlflow/model-versions/get?name=fruit&version={version}").status == 200

    wait_until(lambda: all(known(version) for version in range(1, 5)) and not known(5), 20, "all versions")
    ask(cedar, "POST", "registered-models/alias", {"name": "fruit", "alias": "champion", "version": "3"})
    expect(ask(cedar, "GET", "registered-models/alias?name=fruit&alias=champion")["model_version"]["version"] == "3", "by the alias")
    ask(cedar, "POST", "model-versions/set-tag", {"name": "fruit", "version": "3", "key": "checked", "value": "yes\nby ada"})
    ask(cedar, "POST", "registered-models/set-tag", {"name": "fruit", "key": "team", "value": "shop"})
    ask(cedar, "PATCH", "registered-models/update", {"name": "fruit", "description": "all fruit"})
    version = ask(cedar, "PATCH", "model-versions/update", {"name": "fruit", "version": "3", "description": "good"})["model_version"]
    expect((version["description"], version["aliases"], version["tags"]) == ("good", ["champion"], [{"key": "checked", "value": "yes\nby ada"}]), f"{version}")
    expect(ask(cedar, "GET", "model-versions/get-download-uri?name=fruit&version=3") == {"artifact_uri": source}, "the address")
    for query, wanted in (("", ["4", "3", "2", "1"]), ("filter=name%3D'fruit'&order_by=version_number%20ASC", ["1", "2", "3", "4"]),
                          ("filter=tags.checked%20LIKE%20'yes%25'", ["3"]), (f"filter=run_id%3D'{run}'%20and%20version_number%20%3E%203", ["4"]),
                          ("filter=name%3D'other'", [])):
        rows = ask(cedar, "GET", f"model-versions/search?{query}")["model_versions"]
        expect(sorted(row["version"] for row in rows) == sorted(wanted) and (query == "" or [row["version"] for row in rows] == wanted), f"{query}: {rows}")
    page = ask(cedar, "GET", "model-versions/search?max_results=3&order_by=version_number%20ASC")
    rest = ask(cedar, "GET", f"model-versions/search?max_results=3&order_by=version_number%20ASC&page_token={page['next_page_token']}")
    expect([row["version"] for row in page["model_versions"] + rest["model_versions"]] == ["1", "2", "3", "4"] and "next_page_token" not in rest, f"pages: {rest}")
    ask(cedar, "POST", "registered-models/create", {"name": "vegetable"})
    names = [row["name"] for row in ask(cedar, "GET", "registered-models/search?filter=name%20LIKE%20'%25e%25'")["registered_models"]]
    expect(names == ["vegetable"], f"names: {names}")
    # The client leaves prompts out so, and means models without the tag, too.
    names = [row["name"] for row in ask(cedar, "GET", "registered-models/search?filter=tag.%60mlflow.prompt.is_prompt%60%20!%3D%20'true'")["registered_models"]]
    expect(names == ["fruit", "vegetable"], f"no prompts: {names}")
    expect([row["name"] for row in ask(cedar, "GET", "registered-models/search?filter=tags.team%3D'shop'")["registered_models"]] == ["fruit"], "by tag")
    expect(ask(cedar, "GET", "registered-models/search?filter=nonsense", status=400)["error_code"] == "INVALID_PARAMETER_VALUE", "a bad filter")
    latest = ask(cedar, "POST", "registered-models/get-latest-versions", {"name": "fruit", "stages": ["None"]})["model_versions"]
    expect([row["version"] for row in latest] == ["4"], f"latest: {latest}")
    for path in ("registered-models/rename", "model-versions/transition-stage"):
        error = ask(cedar, "POST", path, {"name": "fruit", "new_name": "x", "version": "1", "stage": "Production"}, status=501)
        expect(error["error_code"] == "NOT_IMPLEMENTED", f"{path}: {error}")
    reader = Door(mesh.nodes[2], new_token(mesh.nodes[2], "reader", "--read-only"))
    expect(ask(reader, "POST", "registered-models/create", {"name": "mine"}, status=403)["error_code"] == "PERMISSION_DENIED", "a reader writes")
    expect(ask(reader, "GET", "registered-models/get?name=fruit")["registered_model"]["description"] == "all fruit", "a reader reads")
    ask(cedar, "DELETE", "registered-models/alias", {"name": "fruit", "alias": "champion"})
    expect(ask(cedar, "GET", "registered-models/alias?name=fruit&alias=champion", status=404)["error_code"] == "RESOURCE_DOES_NOT_EXIST", "an alias taken back")
    ask(cedar, "DELETE", "model-versions/delete-tag", {"name": "fruit", "version": "3", "key": "checked"})
    ask(cedar, "DELETE", "model-versions/delete", {"name": "fruit", "version": "4"})
    place = mesh.nodes[0].tree / "got"
    mesh.nodes[0].run("model", "get", "fruit/3", place)
    file = next(place.rglob("weights"))
    expect(file.read_bytes() == b"weights of it", f"the files in {place}")
    ask(cedar, "DELETE", "registered-models/delete", {"name": "fruit"})
    wait_until(lambda: birch.get("/api/2.0/mlflow/registered-models/get?name=fruit").status == 404, 20, "the model to be gone")


TRAINS = """
import mlflow
import numpy
from sklearn.linear_model import LogisticRegression

generator = numpy.random.default_rng(1)
features = generator.normal(size=(200, 4))
labels = (features.sum(axis=1) > 0).astype(int)
with mlflow.start_run() as run:
    model = LogisticRegression(C=0.5).fit(features, labels)
    mlflow.log_metric("loss", 0.5)
    mlflow.sklearn.log_model(model, name="model", serialization_format="cloudpickle", registered_model_name="fruit")
"""

SERVES = """
import hashlib, json
import mlflow
import numpy
client = mlflow.MlflowClient()
version = client.get_model_version("fruit", "1")
client.set_registered_model_alias("fruit", "champion", "1")
client.set_model_version_tag("fruit", "1", "checked", "yes")
client.update_registered_model("fruit", description="for the shop")
model = mlflow.sklearn.load_model("models:/fruit@champion")
again = mlflow.register_model(f"models:/{version.model_id}" if version.model_id else version.source, "fruit")
newest = mlflow.sklearn.load_model(f"models:/fruit/{again.version}")
print(json.dumps({
    "guess": model.predict(numpy.array([[1.0, 1, 1, 1]])).tolist(), "again": newest.predict(numpy.array([[-1.0, -1, -1, -1]])).tolist(),
    "version": again.version, "status": version.status, "run": version.run_id,
    "found": [row.version for row in client.search_model_versions("name = 'fruit'", order_by=["version_number ASC"])],
    "models": [[row.name, row.description] for row in client.search_registered_models("name = 'fruit'")],
    "by": client.get_model_version_by_alias("fruit", "champion").version, "tags": client.get_model_version("fruit", "1").tags}))
client.delete_registered_model_alias("fruit", "champion")
client.delete_model_version("fruit", "1")
assert [row.version for row in client.search_model_versions("name = 'fruit'")] == [again.version]
client.delete_registered_model("fruit")
assert [row.name for row in client.search_registered_models()] == ["net"]
with open(mlflow.artifacts.download_artifacts("models:/net/1") + "/checkpoint", "rb") as file:
    print(hashlib.sha256(file.read()).hexdigest())
"""


@case(limit_s=700, whole=True)
def the_official_client_registers_loads_and_removes_models(lab):
    python = python_with("mlflow-sklearn-venv", "mlflow-skinny==3.17.2", "scikit-learn==1.7.2", "pandas==2.3.3", limit_s=500)
    mesh = lab.mesh(3, slots="cpu:1", options=DOOR)
    doors = [Door(node) for node in mesh.nodes]
    found = lab.submit(mesh.nodes[0], {"name": "script", "entrypoint": f"{python} script.py", "max_restarts": 0,
                                       "searcher": {"name": "single", "metric": "loss"}}, {"script.py": TRAINS})
    over_with_logs(mesh, found, 200)
    net = train(lab, mesh.nodes[2], "net")
    wait_over(mesh, net, 60)
    mesh.nodes[2].run("model", "register", net)
    mesh.nodes[2].run("model", "get", "net", mesh.nodes[2].tree / "got")
    wait_until(lambda: versions(mesh.nodes[1], "net") == [1], 20, "the checkpoint at another node")
    wait_until(lambda: doors[1].get("/api/2.0/mlflow/model-versions/get?name=fruit&version=1").status == 200, 20, "the version at another node")
    done = subprocess.run([python, "-c", SERVES], capture_output=True, text=True, timeout=200, env={
        "PATH": "/usr/bin:/bin", "HOME": str(lab.dir), "MLFLOW_TRACKING_URI": f"http://{doors[1].host}:{doors[1].port}",
        "MLFLOW_TRACKING_TOKEN": doors[1].token, "GIT_PYTHON_REFRESH": "quiet"})
    expect(done.returncode == 0, f"the client fails: {done.stderr[-3000:]}")
    told = json.loads(done.stdout.splitlines()[-2])
    expect(done.stdout.split()[-1] == digest(mesh.nodes[2].tree / "got"), "the client has another checkpoint")
    expect(told["guess"] == [1] and told["again"] == [0] and told["status"] == "READY" and told["run"] == f"{found}{0:016x}", f"{told}")
    expect(told["found"] == ["1", "2"] and told["version"] == "2" and told["by"] == "1" and told["tags"] == {"checked": "yes"}
           and told["models"] == [["fruit", "for the shop"]], f"{told}")
