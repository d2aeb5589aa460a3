"""The cost of idle nodes: for tools/bench/idle and the end-to-end test of the same limits."""

import json
import re
import shutil
import tempfile
import time
from pathlib import Path

from mesh import wait_until

LIMITS = {"memory_mb": 20.0, "processor_percent": 1.0, "sent_kb_s": 2.0}


def anonymous_bytes(pid):
    """RssAnon: memory that is this process' own."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^RssAnon:\s+(\d+) kB", text, re.M).group(1)) * 1024


def processor_ns(pid):
    """Time that all threads have run so far: first field of schedstat, which ticks in ns where stat ticks in 10 ms."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def idle_costs(mesh, wire, seconds):
    """{name: {memory_mb, processor_percent, sent_kb_s}} of each node, over this time. MB and kB are 10^6 and 10^3 bytes."""
    def read():
        return [(time.monotonic(), processor_ns(node.daemon.pid), wire.sent_bytes(index))
                for index, node in enumerate(mesh.nodes)]

    before = read()
    time.sleep(seconds)
    costs = {}
    for node, (at, ran, sent), (at_end, ran_end, sent_end) in zip(mesh.nodes, before, read()):
        costs[node.name] = {"memory_mb": anonymous_bytes(node.daemon.pid) / 1e6,
                            "processor_percent": (ran_end - ran) / 1e7 / (at_end - at),
                            "sent_kb_s": (sent_end - sent) / 1e3 / (at_end - at)}
    return costs


def over_limits(costs, limits):
    return [f"{name}: {what} is {cost[what]:.2f}, over {limit:g}" for name, cost in costs.items()
            for what, limit in limits.items() if cost[what] >= limit]


def table(costs):
    rows = [f"{name:<10} {cost['memory_mb']:>10.1f} {cost['processor_percent']:>12.2f} {cost['sent_kb_s']:>12.2f}"
            for name, cost in costs.items()]
    return "\n".join([f"{'node':<10} {'RssAnon MB':>10} {'% of a core':>12} {'sent kB/s':>12}", *rows])


def run_search(mesh, trials=8, epochs=1, timeout=180):
    """A random search as the demo's, over two slots each, until it is completed."""
    node = mesh.nodes[0]
    context = Path(tempfile.mkdtemp(prefix="search-", dir=node.tree))
    config = {"name": "search", "entrypoint": "shoal-train mlp", "resources": {"slots_per_trial": 2},
              "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": trials},
              "hyperparameters": {"hidden": {"type": "categorical", "vals": [64, 128]}, "epochs": epochs,
                                  "learning_rate": {"type": "log", "base": 10, "minval": -2.5, "maxval": -1}}}
    (context / "search.yaml").write_text(json.dumps(config))
    identity = node.run("submit", context / "search.yaml").split()[-1]
    shutil.rmtree(context)
    wait_until(lambda: node.json("show", identity)["experiment"]["state"] == "completed", timeout, "the search")
