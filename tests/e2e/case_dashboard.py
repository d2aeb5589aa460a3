"""The dashboard in a browser, and the mesh in MLflow's client: both by packages that a virtual environment gets."""

import json
import os
import shutil
import signal
import subprocess

from door import DOOR, Door, new_token, python_with
from lab import Skip, case, expect, show, wait_over, wait_until
from mesh import ROOT

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAbElEQVR42g3JQQEAMAgDMZSgpEqqhOepQAlKqmjLN1VFFypcTLHFFSmqmm7UuJlmm2vSP0QLCYsRK05EP0wbGZsxa87EP4YeNHiYYYcbMj+WXrR4mWWXW7I/jj50+JhjjztyP0IHBYcJGy4kPLAsVIH5pgt5AAAAAElFTkSuQmCC"
LEAVES = (f'echo {PICTURE} | base64 -d > $SHOAL_OUTPUT_DIR/picture.png; echo "a,b\n1,2" > $SHOAL_OUTPUT_DIR/table.csv; '
          'echo "<svg xmlns=\'http://www.w3.org/2000/svg\'><script>alert(1)</script></svg>" > $SHOAL_OUTPUT_DIR/drawing.svg; ')
REPORTS = LEAVES + 'for i in 1 2 3; do echo "::shoal metric validation accuracy=0.$i$SHOAL_TRIAL step=$i"; done'
SEARCH = {"name": "search", "entrypoint": REPORTS, "metrics_from_output": True,
          "hyperparameters": {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1}, "opt": {"type": "categorical", "vals": ["sgd", "adam"]}},
          "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 6}}
RUNS = {"name": "runs", "entrypoint": 'i=0; while sleep 1; do i=$((i+1)); echo "::shoal metric training loss=0.$i step=$i"; done',
        "metrics_from_output": True, "searcher": {"name": "single", "metric": "loss"}}
FAILS = {"name": "fails", "entrypoint": "echo no; exit 3", "max_restarts": 0, "searcher": {"name": "single", "metric": "loss"}}

MLFLOW = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient()
experiment = client.get_experiment_by_name("search")
every = client.search_runs([experiment.experiment_id], order_by=["metrics.accuracy DESC"])
good = client.search_runs([experiment.experiment_id], "metrics.`validation/accuracy` > 0.32 and params.opt IN ('sgd', 'adam') and "
                          "attributes.status = 'FINISHED'", order_by=["metrics.accuracy ASC"], max_results=2)
best = client.get_run(every[0].info.run_id)
history = client.get_metric_history(best.info.run_id, "validation/accuracy")
refused = None
try:
    client.create_experiment("mine")
except Exception as error:
    refused = str(error)
print(json.dumps({"experiments": sorted(one.name for one in client.search_experiments()), "none": client.get_experiment_by_name("nope"),
    "all": [run.data.metrics["validation/accuracy"] for run in every], "good": [run.data.metrics["validation/accuracy"] for run in good],
    "more": good.token is not None, "params": sorted(best.data.params), "trial": best.data.tags["shoal.trial"],
    "history": [(point.step, point.value) for point in history], "refused": refused}))
"""


def with_work(lab, nodes=1):
    """A mesh with a finished search, a trial that runs, and one that has failed."""
    mesh = lab.mesh(nodes, slots="cpu:2", options=DOOR)
    found = lab.submit(mesh.nodes[0], SEARCH)
    wait_over(mesh, found, 120)
    runs, fails = lab.submit(mesh.nodes[0], RUNS), lab.submit(mesh.nodes[0], FAILS)
    wait_over(mesh, fails, 60, "failed")
    wait_until(lambda: show(mesh, runs)["trials"][0]["state"] == "running", 60, "a trial to run")
    return mesh, found


@case(limit_s=300, whole=True)
def mlflows_client_finds_the_experiments_and_their_trials(lab):
    mesh, found = with_work(lab)
    door = Door(mesh.nodes[0])
    python = python_with("mlflow-venv", "mlflow-skinny==3.17.2")
    environment = {"PATH": os.environ["PATH"], "HOME": str(lab.dir), "MLFLOW_TRACKING_TOKEN": new_token(mesh.nodes[0], "mlflow", "--read-only")}
    for prefix in ("", "/mlflow"):
        environment["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{door.port}{prefix}"
        done = subprocess.run([python, "-c", MLFLOW], capture_output=True, text=True, timeout=120, env=environment)
        expect(done.returncode == 0, done.stderr[-2000:])
        told = json.loads(done.stdout.splitlines()[-1])
        values = [round(0.3 + trial / 100, 2) for trial in range(6)]
        expect(told["all"] == values[::-1], f"all runs, the best first: {told}")
        expect(told["good"] == values[3:5] and told["more"], f"runs by a filter: {told}")
        expect(told["experiments"] == ["fails", "runs", "search"] and told["none"] is None, f"experiments: {told}")
        expect(told["params"] == ["lr", "opt"] and told["trial"] == "5", f"the best run: {told}")
        expect(told["history"] == [[1, 0.15], [2, 0.25], [3, 0.35]], f"its history: {told}")
        expect("PERMISSION_DENIED" in told["refused"] and "read-only" in told["refused"], f"what writes: {told['refused']}")
    environment["MLFLOW_TRACKING_TOKEN"] = "shoal_" + 64 * "0"
    done = subprocess.run([python, "-c", MLFLOW], capture_output=True, text=True, timeout=120, env=environment)
    expect("UNAUTHENTICATED" in done.stderr and "shoal token create" in done.stderr, done.stderr[-1000:])


@case(limit_s=1900, whole=True)
def every_page_of_the_dashboard_is_whole_in_a_browser(lab):
    """In both themes and at two widths, before and after another node has died."""
    if shutil.which("chromium") is None:
        raise Skip("there is no program chromium (Debian's package chromium)")
    python = python_with("web-venv", "playwright==1.65.2", "axe-playwright-python==0.1.8")
    mesh, _ = with_work(lab, 3)
    node = mesh.nodes[0]
    door = Door(node)
    for _ in range(2):
        link = node.json("open")["url"]
        done = subprocess.run([python, str(ROOT / "tests/web/pages.py"), "--base", f"http://127.0.0.1:{door.port}", "--login", link,
                               "--shots", str(lab.dir / "shots")], capture_output=True, text=True, timeout=900)
        expect(done.returncode == 0, (done.stdout + done.stderr)[-3000:])
        told = json.loads(done.stdout.splitlines()[-1])
        expect(told["failures"] == 0 and told["pages"] >= 48, f"pages: {told}")
        if mesh.nodes[2].is_running():
            mesh.nodes[2].kill_daemon(signal.SIGKILL)
    return f"{told['pages']} pages"


@case(limit_s=600, whole=True)
def every_action_of_the_dashboard_does_what_it_says(lab):
    """In a browser, over three daemons with free slots; at the end the node that serves the page goes and comes back."""
    if shutil.which("chromium") is None:
        raise Skip("there is no program chromium (Debian's package chromium)")
    python = python_with("web-venv", "playwright==1.65.2", "axe-playwright-python==0.1.8")
    mesh, found = with_work(lab, 3)
    node = mesh.nodes[0]
    wait_until(lambda: node.run("output", "ls", f"{found}/0", check=False), 30, "the files of the search")
    door = Door(node)
    node.options[:] = ["--http", f"127.0.0.1:{door.port}"]  # the same port after its return
    stop, start = lab.dir / "stop", lab.dir / "start"
    hand = "touch {0}; while [ -e {0} ]; do sleep 0.1; done"
    actions = subprocess.Popen([python, str(ROOT / "tests/web/actions.py"), "--base", f"http://127.0.0.1:{door.port}", "--login",
                                node.json("open")["url"], "--stop", hand.format(stop), "--start", hand.format(start)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lab.at_end.append(actions.kill)

    def step():
        if stop.exists():
            node.kill_daemon(signal.SIGKILL)
            stop.unlink()
        if start.exists():
            node.start()
            start.unlink()
        return actions.poll() is not None

    wait_until(step, 500, "all actions")
    said = actions.stdout.read()
    expect(actions.returncode == 0, said[-3000:])
    return said.strip()
