"""The users: experiments that are submitted, some of them cancelled, from any node, all through a storm; and what must be
true of them afterwards."""

import json
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time

from mesh import Refused

MASK = (1 << 64) - 1
COMMAND_S = 20  # how long a user waits for an answer during a storm
ELASTIC_SHARE = 0.35  # of the experiments


def mix(x):
    """As in chaos_worker.c."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Experiment:
    def __init__(self, identity, config, stored_on, node):
        self.identity = identity
        self.name = config["name"]
        self.trials = config["searcher"].get("max_trials", 1)
        self.values = config["hyperparameters"]
        self.is_elastic = "min_slots" in config["resources"]
        self.stored_on = stored_on  # so many nodes, as it was acknowledged
        self.node = node            # the index of the one that acknowledged it
        self.cancelled_on = 0       # so many nodes, as the cancellation was acknowledged; 0: it was not
        self.cancel_node = None
        self.cancel_tried = False
        self.cancel_at = None
        self.excused = ""           # why it need not be there

    def digest(self, trial, step):
        digest = mix(self.values["nonce"] * 1000 + trial)
        for s in range(1, step + 1):
            digest = mix(digest ^ s)
        return digest

    def checkpoint(self, trial, step):
        digest = self.digest(trial, step)
        words = [digest] + [mix((digest + i) & MASK) for i in range(1, self.values["checkpoint_words"])]
        return struct.pack(f">{len(words)}Q", *words)


class Submit:
    """A `shoal submit` under way."""

    def __init__(self, workload, index, config, code):
        self.workload = workload
        self.index = index
        self.config = config
        node = workload.mesh.nodes[index]
        self.context = tempfile.mkdtemp(prefix="context-", dir=node.tree)
        with open(f"{self.context}/code.bin", "wb") as file:
            file.write(code)
        with open(f"{self.context}/experiment.yaml", "w") as file:
            json.dump(config, file)
        self.command = subprocess.Popen(
            [*node.wrap, str(node.bin / "shoal"), "submit", f"{self.context}/experiment.yaml", "--dir", str(node.dir)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=node.tree)

    def wait(self):
        """The experiment, if it was acknowledged: the answer's text says so, and on how many nodes it is."""
        try:
            told, error = self.command.communicate(timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            self.command.kill()
            told, error = self.command.communicate()
            error = f"no answer within {COMMAND_S} s"
        finally:
            shutil.rmtree(self.context, ignore_errors=True)
        if self.command.returncode != 0:
            self.workload.refused += 1
            self.workload.say(f"submit at {self.workload.mesh.nodes[self.index].name} was not acknowledged: "
                              f"{brief(error.strip() or f'exit {self.command.returncode}')}")
            return None
        experiment = Experiment(told.split()[-1], self.config, stored_on(told), self.index)
        self.workload.experiments[experiment.identity] = experiment
        self.workload.live.add(experiment.identity)
        return experiment


class Workload:
    """A thread that keeps `wanted` experiments under way while it is not resting."""

    def __init__(self, mesh, streams, wanted, worker, say):
        self.mesh = mesh
        self.stream = streams["users"]
        self.elastic = streams["elastic"]
        self.wanted = wanted
        self.wrong = mesh.base / "wrong"  # what workers found wrong themselves
        self.worker = f"CHAOS_WRONG={self.wrong} exec {worker}"
        self.say = say
        self.experiments = {}  # identity -> Experiment, all that were acknowledged
        self.live = set()      # identities
        self.refused = 0
        self.serial = 0
        self.problems = []
        self.busy = threading.Lock()  # held while a user acts: to rest is to take it
        self.over = threading.Event()
        self.unusable = set()  # indices of nodes whose daemon is down or stopped, as the faults know
        self.thread = threading.Thread(target=self.run, name="users", daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.3):
            with self.busy:
                if self.over.is_set():
                    return
                try:
                    self.act()
                except Exception as error:  # users that vanish would prove nothing
                    self.problems.append(f"the users' thread failed: {error!r}")
                    return

    def node(self):
        """Any node that a user could be at: its daemon runs, whatever its links are like."""
        usable = [i for i, node in enumerate(self.mesh.nodes) if i not in self.unusable and node.is_running()]
        return self.stream.choice(usable) if usable else None

    def act(self):
        index = self.node()
        if index is None:
            return
        try:
            listed = self.mesh.nodes[index].json("ls", timeout=COMMAND_S)["experiments"]
        except (Refused, ValueError, subprocess.TimeoutExpired):
            return
        over = {e["id"] for e in listed if e["state"] in ("completed", "failed", "cancelled")}
        self.live -= over
        for identity in sorted(self.live & self.experiments.keys()):
            experiment = self.experiments[identity]
            if experiment.cancel_at is not None and time.monotonic() >= experiment.cancel_at:
                self.cancel(index, experiment)
        if len(self.live) < self.wanted:
            self.submit(index)

    def config(self, stream=None):
        stream = stream or self.stream
        self.serial += 1
        trials = stream.choice([1, 1, 2, 3])
        config = {
            "name": f"chaos-{self.serial}",
            "entrypoint": self.worker,
            "hyperparameters": {"nonce": stream.randrange(1 << 40), "steps": stream.randrange(60, 300), "step_ms": 40,
                                "checkpoint_every": stream.choice([10, 25, 60]),
                                "checkpoint_words": stream.choice([512, 4096, 16384])},
            "searcher": {"name": "single" if trials == 1 else "random", "metric": "digest"}
                        | ({} if trials == 1 else {"max_trials": trials}),
            "resources": {"slots_per_trial": stream.choice([1, 1, 2, 3])},
            "seed": self.serial,
        }
        return config | (self.elasticity() if self.elastic.random() < ELASTIC_SHARE else {})

    def elasticity(self):
        """Of a group of 2 or 3 that may lose members, and in half of all cases win one."""
        slots = self.elastic.choice([2, 3])
        return {"entrypoint": f"{self.worker} elastic",
                "resources": {"slots_per_trial": slots, "min_slots": self.elastic.randrange(1, slots),
                              "max_slots": slots + self.elastic.randrange(2)}}

    def submit(self, index):
        wants_cancel = self.stream.random() < 0.25
        cancel_after_s = self.stream.uniform(1, 15)
        code = self.stream.randbytes(self.stream.choice([100, 20_000, 500_000]))
        experiment = Submit(self, index, self.config(), code).wait()
        if experiment is not None and wants_cancel:
            experiment.cancel_at = time.monotonic() + cancel_after_s

    def cancel(self, index, experiment):
        node = self.mesh.nodes[index]
        experiment.cancel_tried, experiment.cancel_at = True, None
        try:
            experiment.cancelled_on = stored_on(node.run("cancel", experiment.identity, timeout=COMMAND_S))
            experiment.cancel_node = index
        except (Refused, subprocess.TimeoutExpired) as error:
            self.refused += 1
            self.say(f"cancel of {experiment.name} at {node.name} was not acknowledged: {brief(error)}")

    def disk_went_back(self, index):
        """Node `index` has an old disk: what only it had acknowledged may be gone, the rest not."""
        for experiment in list(self.experiments.values()):  # their users go on
            if experiment.stored_on < 2 and experiment.node == index:
                experiment.excused = "only a disk that went back in time had it"
            if experiment.cancelled_on == 1 and experiment.cancel_node == index:
                experiment.cancelled_on = 0

    def end(self):
        self.over.set()
        self.thread.join(2 * COMMAND_S + 10)


def stored_on(text):
    return int(re.search(r"stored on (\d+) node", text).group(1))


def brief(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
