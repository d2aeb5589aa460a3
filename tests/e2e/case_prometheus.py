"""/metrics for Prometheus: what it says of work, of GPUs and of links, and that Prometheus' own programs take it, with the dashboard
and the alerts of tools/."""

import json
import math
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from door import DOOR, Door
from lab import Skip, case, expect, wait_over, wait_until
from mesh import ROOT

OPEN = "application/openmetrics-text; version=1.0.0"
SAMPLE = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})? (\S+)')
GPU = "GPU-11111111-2222-3333-4444-555555555555"


def labels_of(text):
    return {name: value.encode().decode("unicode_escape") for name, value in re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', text or "")}


class Page:
    """A page of /metrics: its samples, and what its heads say."""

    def __init__(self, door, **fields):
        answer = door.get("/metrics", **fields)
        expect(answer.status == 200, f"/metrics: {answer}")
        self.text = answer.body.decode()
        self.samples = [(name, labels_of(labels), float(value)) for name, labels, value in
                        (SAMPLE.fullmatch(line).groups() for line in self.text.splitlines() if not line.startswith("#"))]
        self.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.M))
        self.helps = dict(re.findall(r"^# HELP (\S+) (.+)$", self.text, re.M))

    def all(self, metric, /, **labels):
        return [value for sample, of, value in self.samples if sample == metric and labels.items() <= of.items()]

    def one(self, metric, /, **labels):
        values = self.all(metric, **labels)
        expect(len(values) == 1, f"{metric} {labels} has the values {values}")
        return values[0]


def tool(name):
    found = shutil.which(name)
    if found is None:
        raise Skip(f"{name} is not installed (the package prometheus)")
    return found


def with_gpus_and_a_restart(lab):
    """alder has two GPUs that never were, birch a processor, on which a trial saves, fails and goes on."""
    library = Path(lab.build) / "libfake_nvml.so"
    if not library.exists():
        raise Skip("libfake_nvml.so is not built")
    errors = lab.dir / "errors"
    errors.write_text("0 79\n0 48\n")
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "auto", "cpu:1"
    alder.options, birch.options = [*DOOR, "--nvml", str(library)], DOOR
    alder.wrap = ["env", "FAKE_NVML=whole", f"FAKE_NVML_XID_FILE={errors}"]
    mesh.start()
    saved, go_on = lab.dir / "saved", lab.dir / "go_on"
    script = f"""if [ $SHOAL_ATTEMPT = 1 ]; then
    set -- report:training:loss:10:1 report:training:loss:20:2 save:20:5000000 flush await:{saved} exit:3
else
    set -- report:training:loss:25:1 flush await:{go_on} report:training:loss:40:1 flush
fi
exec {lab.build}/scripted_worker "$@"
"""
    identity = lab.submit(birch, {
        "name": 'a "name" \\ with', "entrypoint": script, "max_restarts": 1, "resources": {"slot_kind": "cpu"},
        "searcher": {"name": "single", "metric": "loss"}})
    return mesh, identity, saved, go_on


@case(limit_s=90)
def metrics_say_what_nodes_have_done_and_what_they_are(lab):
    mesh, identity, saved, go_on = with_gpus_and_a_restart(lab)
    here, there = (Door(node) for node in mesh.nodes)
    wait_until(lambda: Page(there).all("shoal_checkpoints_durable_total") == [1], 60, "a checkpoint to be durable")
    saved.touch()
    wait_until(lambda: Page(there).all("shoal_trial_restarts_total", reason="failed") == [1], 60, "the second attempt")
    wait_until(lambda: Page(there).all("shoal_trial_steps_total"), 20, "the steps of the trial")
    go_on.touch()
    wait_over(mesh, identity, 40)
    wait_until(lambda: Page(here).all("shoal_gpu_xid_errors_total", uuid=GPU) == [2], 30, "the errors of the GPU")
    wait_until(lambda: Page(there).all("shoal_link_rtt_seconds"), 20, "a probe that was answered")
    pages = [Page(here), Page(there)]
    for page, node in zip(pages, mesh.nodes, strict=True):
        expect(set(page.types) == set(page.helps), f"without a type or a help: {set(page.types) ^ set(page.helps)}")
        expect(page.one("shoal_node_info", name=node.name) == 1 and page.one("shoal_nodes", state="alive") == 2, "nodes")
        expect(page.one("shoal_slots", kind="cpu", state="free") == 1 and page.one("shoal_slots", kind="cuda", state="free") == 2, "slots")
        expect(page.one("shoal_experiments", state="completed") == 1 and page.one("shoal_trials", state="completed") == 1, "trials")
        expect(page.one("shoal_link_sent_bytes_total") > 1000 and page.one("shoal_link_received_bytes_total") > 1000, "link bytes")
        expect(0 < page.one("shoal_link_rtt_seconds") < 5, "round trip")
        expect(page.one("process_open_fds") > 10 and page.one("process_resident_memory_bytes") > 1e6, "the process")
        expect(abs(page.one("process_start_time_seconds") - time.time()) < 600, "the begin of the process")
        expect(page.one("shoal_metrics_dropped_total") == 0, "dropped")
    gpus, work = pages
    expect(gpus.one("shoal_gpu_utilization_ratio", uuid=GPU) == 0.37 and gpus.one("shoal_gpu_temperature_celsius", uuid=GPU) == 61, "GPU")
    expect(gpus.one("shoal_gpu_power_watts") == 212.5 and gpus.one("shoal_gpu_energy_joules_total") == 7000.5, "power of the first GPU alone")
    expect(gpus.one("shoal_gpu_memory_total_bytes", slot="0", model="NVIDIA RTX A6000") == 51527024640, "memory of a GPU")
    expect(gpus.one("shoal_gpu_memory_used_bytes", slot="0") == 51527024640 / 4, "used memory of a GPU")
    expect(not work.all("shoal_gpu_utilization_ratio") and not gpus.all("shoal_trial_steps_total"), "what is another node's")
    steps = work.one("shoal_trial_steps_total", experiment=identity, trial="0", name='a "name" \\\\ with')
    expect(steps == 40, f"{steps} steps, not the 20 of each attempt")
    expect(work.one("shoal_queue_wait_seconds_count") == 1 and gpus.one("shoal_queue_wait_seconds_count") == 0, "waits")
    expect(work.one("shoal_checkpoint_bytes_sum") == 5000000 and work.one("shoal_checkpoint_bytes_count") == 1, "bytes of checkpoints")
    expect(work.one("shoal_checkpoints_durable_total") == 1 and work.one("shoal_checkpoint_seconds_count") == 1, "durable checkpoints")
    expect(work.one("shoal_checkpoint_waiting_seconds") == 0 and work.one("shoal_slot_seconds_total", kind="cpu") > 0, "waiting, slot time")
    buckets = work.all("shoal_checkpoint_bytes_bucket")
    expect(buckets == sorted(buckets) and buckets[-1] == 1, f"buckets {buckets}")
    began = time.monotonic()
    for _ in range(50):
        Page(there)
    return f"{len(work.samples)} series, {1000 * (time.monotonic() - began) / 50:.1f} ms a scrape with its parsing"


def queries(dashboard):
    """The PromQL expressions of a dashboard, its variable replaced as Grafana does."""
    found = []

    def walk(value):
        if isinstance(value, dict):
            found.extend(value[key] for key in ("expr",) if key in value)
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(dashboard["panels"])
    return [query.replace("$node", ".*").replace("$__rate_interval", "5m") for query in found]


def promtool(*arguments, text=None):
    done = subprocess.run([tool("promtool"), *arguments], input=text, capture_output=True, timeout=60, text=True)
    expect(done.returncode == 0, f"promtool {arguments}: {done.stdout} {done.stderr}")
    return done


@case(limit_s=60)
def the_dashboard_and_the_alerts_read_what_is_exported(lab):
    door = Door(lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0])
    plain, opened = Page(door), Page(door, Accept=OPEN)
    expect(opened.text.endswith("# EOF\n") and "# UNIT shoal_uptime_seconds seconds\n" in opened.text, "OpenMetrics")
    expect(not plain.text.count("# UNIT") and not plain.text.count("# EOF"), "text 0.0.4")
    known = set(plain.types) | {f"{name}_{part}" for name, kind in plain.types.items() if kind == "histogram"
                                for part in ("bucket", "sum", "count")}
    dashboard = json.loads((ROOT / "tools/grafana/shoal.json").read_text())
    expect(dashboard["__inputs"][0]["name"] == "DS_PROMETHEUS" and len(dashboard["uid"]) <= 40 and dashboard["id"] is None, "its head")
    expect([variable["name"] for variable in dashboard["templating"]["list"]] == ["node"], "its variable")
    asked = queries(dashboard)
    rules = (ROOT / "tools/prometheus/shoal.rules.yml").read_text()
    names = set(re.findall(r"\b(?:shoal|process)_[a-z_]+", "\n".join([*asked, *re.findall(r"expr: (.*)", rules)])))
    expect(names and names <= known, f"named, and not exported: {names - known}")
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expect(all(panel["datasource"]["uid"] == "${DS_PROMETHEUS}" and panel["title"] for panel in panels), "data sources and titles")
    generated = lab.dir / "queries.yml"
    generated.write_text(json.dumps({"groups": [{"name": "queries", "rules": [
        {"record": f"query:{number}", "expr": query} for number, query in enumerate(asked)]}]}))
    promtool("check", "rules", str(generated))
    promtool("check", "rules", str(ROOT / "tools/prometheus/shoal.rules.yml"))
    promtool("test", "rules", str(ROOT / "tools/prometheus/shoal.rules.test.yml"))
    checked = promtool("check", "metrics", text=plain.text)
    expect(not checked.stdout.strip() and not checked.stderr.strip(), f"promtool check metrics: {checked.stdout} {checked.stderr}")
    return f"{len(asked)} queries of {len(panels)} panels, {len(names)} names"


PARSE = """
import sys
from prometheus_client.parser import text_string_to_metric_families as plain
from prometheus_client.openmetrics.parser import text_string_to_metric_families as opened
a = {f.name: f for f in plain(open(sys.argv[1]).read())}
b = {f.name: f for f in opened(open(sys.argv[2]).read())}
assert set(a) == set(b), set(a) ^ set(b)
assert {n: f.type for n, f in a.items()} == {n: f.type for n, f in b.items()}
assert all(f.documentation for f in [*a.values(), *b.values()])
print(len(a), "metrics,", sum(len(f.samples) for f in b.values()), "samples")
"""


@case(limit_s=60)
def prometheus_client_reads_both_formats(lab):
    if subprocess.run(["/usr/bin/python3", "-c", "import prometheus_client.openmetrics.parser"], capture_output=True).returncode != 0:
        raise Skip("the package python3-prometheus-client is not installed")
    door = Door(lab.mesh(2, slots="cpu:1", options=DOOR).nodes[0])
    wait_until(lambda: Page(door).all("shoal_link_rtt_seconds"), 20, "a probe that was answered")
    (lab.dir / "plain").write_text(Page(door).text)
    (lab.dir / "opened").write_text(Page(door, Accept=OPEN).text)
    done = subprocess.run(["/usr/bin/python3", "-c", PARSE, lab.dir / "plain", lab.dir / "opened"], capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, f"a parser refuses it: {done.stderr[-1500:]}")
    return done.stdout.strip()


@case(limit_s=120, whole=True)
def prometheus_itself_scrapes_three_nodes(lab):
    """Debian's Prometheus with the targets that `shoal scrape-config` prints, and the rules of tools/."""
    prometheus = tool("prometheus")
    mesh = lab.mesh(3, slots="cpu:1", options=DOOR)
    doors = [Door(node) for node in mesh.nodes]
    (lab.dir / "shoal.token").write_text(doors[0].token)
    targets = [target for node in mesh.nodes for target in node.json("scrape-config")]
    config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(ROOT / "tools/prometheus/shoal.rules.yml")],
              "scrape_configs": [{"job_name": "shoal", "authorization": {"credentials_file": "shoal.token"}, "static_configs": targets}, {
                                      "job_name": "shoal by http_sd", "authorization": {"credentials_file": "shoal.token"},
                                      "http_sd_configs": [{"url": f"http://{doors[0].host}:{doors[0].port}/api/v1/prometheus/targets",
                                                           "authorization": {"type": "Bearer", "credentials_file": "shoal.token"}}]}]}
    (lab.dir / "prometheus.yml").write_text(json.dumps(config))
    (lab.dir / "printed.yml").write_text(mesh.nodes[1].run("scrape-config"))
    promtool("check", "config", str(lab.dir / "printed.yml"))
    with open(lab.dir / "said", "wb") as said:
        server = subprocess.Popen([prometheus, f"--config.file={lab.dir / 'prometheus.yml'}", f"--storage.tsdb.path={lab.dir / 'tsdb'}",
                                   "--web.listen-address=127.0.0.1:19471"], stdout=said, stderr=said)
    try:
        def ask(query):
            url = f"http://127.0.0.1:19471/api/v1/query?query={urllib.request.quote(query)}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]

        def value(query):
            try:
                rows = ask(query)
            except OSError:
                return math.nan
            return float(rows[0]["value"][1]) if rows else math.nan

        wait_until(lambda: value('sum(up{job="shoal"})') == 3, 40, "three targets that are up")
        wait_until(lambda: value('up{job="shoal by http_sd"}') == 1, 40, "the target of http_sd")
        wait_until(lambda: value('count(shoal_node_info{job="shoal"})') == 3 and value('min(shoal_nodes{state="alive"})') == 3, 20, "three nodes that see three")
        mesh.nodes[2].kill_machine()
        wait_until(lambda: value('max(shoal_nodes{state="dead"})') == 1, 30, "a node that is dead")
        wait_until(lambda: value('count(ALERTS{alertname="ShoalNodeLost"})') == 1, 20, "an alert that is pending")
    except TimeoutError as error:
        said = (lab.dir / "said").read_text()[-1500:]
        raise AssertionError(f"{error}; Prometheus says: {said}") from error
    finally:
        server.terminate()
        server.wait(timeout=20)
