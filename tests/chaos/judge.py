"""After a storm: what users see, from outside. Every wait is bounded, by much more than a slow machine needs."""

import json
import shutil
import subprocess
import time

from mesh import Refused, wait_until
from watch import workers

ALIVE_S = 90      # until all nodes see each other again: links, syncing
OVER_S = 300      # until all experiments are over: leases of 30 s, restarts, the queue
FREE_S = 90       # until all slots are free: a lease, and the grace of what it ends
VERIFIED_S = 120  # until lost copies of checkpoints are made again
READ_S = 150      # until a checkpoint can be read
DROPPED_S = 90    # until all know that retention has dropped a checkpoint


class Broken(Exception):
    """A promise that was not kept."""


def wait(condition, timeout, what):
    """As wait_until. `condition` returns what is still missing: a text, or "" when all is well."""
    missing = [""]

    def is_met():
        missing[0] = condition()
        return missing[0] == ""

    try:
        wait_until(is_met, timeout, what)
    except TimeoutError as error:
        raise Broken(f"{error}: {missing[0]}") from None


class Judge:
    def __init__(self, mesh, workload, watch, say, stream):
        self.mesh = mesh
        self.workload = workload
        self.watch = watch
        self.say = say
        self.stream = stream
        self.judged = set()  # identities
        self.checkpoints = 0  # read back
        self.dropped = 0  # between being listed and being read
        self.elastic = 0  # completed trials of elastic programs
        self.regrouped = 0  # those among them whose last attempt's group changed

    def judge(self):
        """Raises Broken."""
        began = time.monotonic()
        wait(self.not_settled, ALIVE_S, "what is left of a copied node to be gone")
        wait(self.not_together, ALIVE_S, "all nodes to see each other after the storm")
        together = time.monotonic()
        wait(self.not_over, OVER_S, "every experiment to be over and the same on all nodes")
        over = time.monotonic()
        self.check_presence()
        wait(self.not_free, FREE_S, "all slots to be free")
        for identity in sorted(self.all_over - self.judged):
            self.check_experiment(identity)
        checked = time.monotonic()
        for identity in sorted(self.all_over - self.judged):
            self.check_checkpoints(identity)
        self.watch.forbid(self.all_over - self.judged)
        self.judged |= self.all_over
        if self.watch.problems:
            raise Broken("; ".join(self.watch.problems))
        self.say(f"healed: together after {together - began:.1f} s, all over and the same after {over - began:.1f} s, "
                 f"checkpoints verified after {time.monotonic() - began:.1f} s, of it {time.monotonic() - checked:.1f} s for them")

    def not_settled(self):
        """A copy of a node is taken away again: the administrator evicts what is left of the pair."""
        own = set()
        for node in self.mesh.nodes:
            status = node.json("status", timeout=10)
            if status["twin"] is not None:
                return f"{node.name} has a twin at {status['twin']['address']}"
            if status["syncing"]:
                return f"{node.name} is catching up"
            own.add(status["node"]["id"])
        for row in self.mesh.nodes[0].json("nodes", timeout=10)["nodes"]:
            if row["id"] not in own and row["state"] != "evicted":
                if row["state"] != "dead":
                    return f"{row['name']} ({row['id']}) is {row['state']}"
                self.mesh.nodes[0].run("evict", row["id"], "--yes")
        self.members = own
        return ""

    def not_together(self):
        count = len(self.mesh.nodes)
        for node in self.mesh.nodes:
            status = node.json("status", timeout=10)
            if status["nodes_alive"] < count or status["syncing"] or status["disk_full"]:
                return f"{node.name} sees {status['nodes_alive']}" + (", syncing" if status["syncing"] else "") + (
                    ", disk full" if status["disk_full"] else "")
        return ""

    def give_up(self, node, identity):
        """What nobody has promised to keep may be there without its code, if the one disk that had that went back in time: users
        read why it does not begin, and cancel it."""
        experiment = self.workload.experiments.get(identity)
        if experiment is not None and not experiment.excused:
            return
        trials = node.json("show", identity, timeout=20)["experiment"]["trials"]
        if any("its code cannot be fetched" in (trial.get("reason") or "") for trial in trials):
            node.run("cancel", identity)
            self.say(f"{identity} was not promised, and its code is lost: cancelled")
            if experiment is not None:
                experiment.cancel_tried = True

    def not_over(self):
        views = []
        for node in self.mesh.nodes:
            listed = node.json("ls", timeout=20)["experiments"]
            live = [e for e in listed if e["state"] not in ("completed", "failed", "cancelled")]
            running = [f"{e['name']} {e['state']}" for e in live]
            for e in live:
                self.give_up(node, e["id"])
            if running:
                return f"{node.name} shows {', '.join(running)}"
            views.append({e["id"]: e["state"] for e in listed})
        for node, view in zip(self.mesh.nodes, views):
            if view != views[0]:
                different = {i: (views[0].get(i), view.get(i)) for i in views[0].keys() | view.keys() if views[0].get(i) != view.get(i)}
                return f"{self.mesh.nodes[0].name} and {node.name} show different states: {different}"
        self.all_over = set(views[0])
        for identity in sorted(self.all_over - self.judged):
            shown = [self.stable(node.json("show", identity, timeout=20)["experiment"]) for node in self.mesh.nodes]
            for node, document in zip(self.mesh.nodes, shown):
                if document != shown[0]:
                    return f"{self.mesh.nodes[0].name} and {node.name} show {identity} differently: {shown[0]} and {document}"
        return ""

    @staticmethod
    def stable(experiment):
        """What must be the same everywhere."""
        trials = [{name: trial.get(name) for name in ("index", "state", "attempt", "step", "hyperparameters", "metrics", "restarts")}
                  for trial in experiment["trials"]]
        return {"state": experiment["state"], "name": experiment["name"], "trials": trials}

    def not_free(self):
        busy = [f"{environment['SHOAL_EXPERIMENT'][:8]} in process {pid}" for pid, environment in workers(self.mesh.base)]
        if busy:
            return f"workers run: {', '.join(busy)}"
        for node in self.mesh.nodes:
            taken = [f"{s['node_name']}/{s['index']} {s['state']}" for s in node.json("slots", timeout=10)["slots"] if s["state"] != "free"]
            if taken:
                return f"{node.name} shows {', '.join(taken)}"
        return ""

    def check_experiment(self, identity):
        """As it was asked for: completed with the values that follow from its configuration, or cancelled."""
        experiment = self.workload.experiments.get(identity)
        document = self.mesh.nodes[0].json("show", identity)["experiment"]
        states = ", ".join(f"trial {t['index']} {t['state']} attempt {t['attempt']} step {t['step']} restarts {t['restarts']}"
                           f" {t.get('reason') or ''}" for t in document["trials"])
        told = f"{document['name']} ({identity}) is {document['state']}: {states}"
        if experiment is None:  # its submit was not acknowledged: then it is there or not, but whole
            if document["state"] not in ("completed", "cancelled"):
                raise Broken(told)
            return
        allowed = {"completed", "cancelled"} if experiment.cancel_tried else {"completed"}
        done = [t for t in document["trials"] if t["state"] == "completed"]
        if document["state"] not in allowed:
            raise Broken(told)
        if experiment.cancelled_on > 0 and document["state"] != "cancelled" and len(done) < experiment.trials:
            raise Broken(f"its cancellation was acknowledged on {experiment.cancelled_on} nodes, but {told}")
        if document["state"] == "completed" and len(done) != experiment.trials:
            raise Broken(f"not all {experiment.trials} trials are completed: {told}")
        if experiment.is_elastic:
            self.elastic += len(done)
            self.regrouped += sum(trial["generation"] > 1 for trial in done)
        steps = experiment.values["steps"]
        for trial in done:
            wanted = {"digest": experiment.digest(trial["index"], steps) >> 40}
            if trial["step"] != steps or trial["metrics"].get("training") != wanted:
                raise Broken(f"trial {trial['index']} should be at step {steps} with {wanted}: {trial}")

    def check_presence(self):
        """Every acknowledged experiment is there."""
        for identity, experiment in sorted(self.workload.experiments.items()):
            if identity not in self.all_over and not experiment.excused:
                raise Broken(f"{experiment.name} ({identity}) was acknowledged as stored on {experiment.stored_on} nodes and is gone")

    def check_checkpoints(self, identity):
        """Every durable one gives the bytes that follow from the configuration; the newest of each trial has good copies only."""
        newest = {}
        for trial, step in self.durable(identity):
            newest[trial] = max(step, newest.get(trial, 0))
        experiment = self.workload.experiments.get(identity)
        for trial, step in sorted(newest.items()):
            wait(lambda: self.not_verified(identity, trial, step), VERIFIED_S,
                 f"the copies of the checkpoint of {identity}/{trial} at step {step} to be good")
        if experiment is not None:
            for trial, step in self.durable(identity):
                self.read_checkpoint(experiment, trial, step)

    @staticmethod
    def listed(node, identity, only_durable=False):
        """Its checkpoints, as this node lists them: sorted pairs of trial and step."""
        listed = node.json("checkpoint", "ls", identity)["checkpoints"]
        return sorted((checkpoint["trial"], checkpoint["step"]) for checkpoint in listed if checkpoint["durable"] or not only_durable)

    def durable(self, identity):
        return self.listed(self.mesh.nodes[0], identity, only_durable=True)

    def not_verified(self, identity, trial, newest):
        node = self.stream.choice(self.mesh.nodes)
        try:
            document = json.loads(node.run("checkpoint", "verify", f"{identity}/{trial}", "--json", check=False, timeout=60))
        except subprocess.TimeoutExpired:
            return f"checkpoint verify at {node.name} did not answer within 60 s"
        seen = False
        for checkpoint in document["checkpoints"]:
            states = [holder["state"] for holder in checkpoint["holders"] if holder["node"] in self.members]
            told = f"{node.name} shows the copies of step {checkpoint['step']} as " + ", ".join(
                f"{holder['name']}: {holder['state']}" for holder in checkpoint["holders"])
            seen |= checkpoint["step"] == newest
            if checkpoint["durable"] and "ok" not in states or "corrupt" in states:
                return told
            if checkpoint["durable"] and checkpoint["step"] == newest and (len(states) < 2 or set(states) != {"ok"}):
                return told
        return "" if seen else f"{node.name} does not show step {newest}"

    def read_checkpoint(self, experiment, trial, step):
        node = self.stream.choice(self.mesh.nodes)
        out, told = None, ""  # why it cannot be read

        def is_read_or_not_listed():
            nonlocal out, told
            out = node.tree / f"checkpoint-{time.monotonic_ns()}"
            try:
                node.run("checkpoint", "get", f"{experiment.identity}/{trial}@{step}", out, timeout=60)
                told = ""
            except (Refused, subprocess.TimeoutExpired) as error:
                told = f"the checkpoint of {experiment.identity}/{trial} at step {step} cannot be read at {node.name}: {error}"
            return told if told and (trial, step) in self.listed(node, experiment.identity) else ""

        # Those who have it may not be connected at this moment, or be slow.
        wait(is_read_or_not_listed, READ_S, f"{node.name} to read a checkpoint that it lists")
        if told:
            wait(lambda: self.not_dropped(experiment.identity, trial, step, told), DROPPED_S,
                 "a checkpoint that one node does not list to be dropped by all")
            self.dropped += 1
            return
        if (out / "checkpoint").read_bytes() != experiment.checkpoint(trial, step):
            raise Broken(f"the checkpoint of {experiment.identity}/{trial} at step {step}, read at {node.name}, has wrong bytes")
        shutil.rmtree(out)
        self.checkpoints += 1

    def not_dropped(self, identity, trial, step, told):
        """Retention drops what was listed before, at all nodes, and only for a later one of the trial."""
        for node in self.mesh.nodes:
            listed = self.listed(node, identity)
            if (trial, step) in listed:
                return f"{told}; {node.name} lists it"
            if not any(other == trial and later > step for other, later in listed):
                return f"{told}; {node.name} lists no later one"
        return ""
