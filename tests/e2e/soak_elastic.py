#!/usr/bin/python3
"""A storm of deaths over one elastic group: four workers on four nodes, real daemons; every five seconds a worker is killed,
or a whole node with all that runs there, which comes back some seconds later. Training must outlast it, and end with every
sample of each epoch used exactly once and as good a network as runs have to which nothing happens. All is drawn from one
seed. Prints each death, and at the end one line: ok|FAILED soak_elastic (SECONDS) REASON.

With --torch the workers are a PyTorch program (programs/elastic_soak.py), and slots are withheld from it for a while, too.

First, four workers train for some seconds, to know how many epochs last as long as the storm, and five undisturbed trials
(three with --torch) of as many epochs, each with a seed of its own and on one slot, show how far apart their networks'
accuracies are. If training is over before the storm is (the machine got faster meanwhile), the next one begins, with another
seed; all are judged."""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "chaos")]

from case_ddp import is_python  # noqa: E402
from lab import Lab, expect, over, show, step_log, trial_states, wait_over, wait_until  # noqa: E402
from look import program_of, workers_of  # noqa: E402
from watch import Watch  # noqa: E402

NAMES = ["alder", "birch", "cedar", "dogwood"]
DOWN_MAX = 2           # nodes that are away, or whose slot is, at a time
CLOSE = 0.003          # how far outside of the undisturbed runs' test accuracies that of the soak may be
CALIBRATE_STEPS = 1500
STORM_SHARE = 0.7      # of what four workers do in as long a calm: with deaths it is about a third


class Native:
    """Shoal's own trainer. Small batches of a small network: steps are many and cost little, so that a storm lasts few epochs."""

    name, samples, batch = "mlp", 55_000, 32
    every_s = 5.0          # between two deaths
    down_s = (3.0, 12.0)   # how long a node is away
    kinds = ("worker", "node")
    undisturbed = 5        # runs
    epochs_per_minute = 8  # at least, however slow the machine was when it was measured
    hyperparameters = {"hidden": 64, "learning_rate": 0.01, "learning_rate_decay": 1.0, "batch_size": batch,  # noqa: RUF012
                       "checkpoint_every": 1000, "report_every": 500}

    def submit(self, lab, node, log, epochs, seed, slots):
        config = self.config(log, seed, slots)
        config["entrypoint"] += "shoal-train mlp"
        config["hyperparameters"] = {**self.hyperparameters, "epochs": epochs}
        return lab.submit(node, config)

    def config(self, log, seed, slots):
        return {
            "name": f"soak-{seed}-{slots}",
            "entrypoint": f"{step_log(log)} exec ",
            "searcher": {"name": "single", "metric": "accuracy", "smaller_is_better": False},
            "resources": {"slots_per_trial": slots, "min_slots": 1, "max_slots": slots},
            "max_restarts": 1000,  # a worker that is killed counts as the program's own failure
            "seed": seed,
        }

    def is_worker(self, pid):
        return program_of(pid) == "shoal-train"


class Torch(Native):
    """An elastic PyTorch program. Its ranks need seconds to import PyTorch, so deaths come less often."""

    name, samples, batch = "torch", 60_000, 128
    every_s, down_s = 10.0, (5.0, 20.0)
    kinds = ("worker", "node", "withheld")
    undisturbed = 3
    epochs_per_minute = 1

    def __init__(self, python):
        self.python = python

    def submit(self, lab, node, log, epochs, seed, slots):
        config = self.config(log, seed, slots)
        config["entrypoint"] += f"{self.python} elastic_soak.py {epochs} {self.batch}"
        return lab.submit(node, config, {"elastic_soak.py": (HERE / "programs" / "elastic_soak.py").read_text()})

    def is_worker(self, pid):
        return is_python(pid)


class Death:
    def __init__(self, at_s, kind, victim, down_s):
        self.at_s, self.kind, self.victim, self.down_s = at_s, kind, victim, down_s


def plan(seed, seconds, trainer):
    """What happens when; `victim` is an index among the nodes, the next one that is whole if it is away."""
    stream = random.Random(f"{seed} deaths")
    count = int(seconds / trainer.every_s)
    return [Death(trainer.every_s * i + stream.uniform(0, trainer.every_s), stream.choice(trainer.kinds),
                  stream.randrange(len(NAMES)), stream.uniform(*trainer.down_s)) for i in range(count)]


class Soak:
    def __init__(self, lab, minutes, say, trainer=None, undisturbed=None, epochs_max=None):
        """undisturbed: how many such runs the accuracy is compared with; 0: it is not judged. epochs_max: of each training."""
        self.lab, self.seconds, self.say = lab, minutes * 60, say
        self.trainer, self.epochs_max = trainer or Native(), epochs_max
        self.undisturbed_count = self.trainer.undisturbed if undisturbed is None else undisturbed
        self.steps_per_epoch = -(-self.trainer.samples // self.trainer.batch)
        self.mesh = lab.mesh(NAMES, slots="cpu:1")
        self.watch = Watch(self.mesh.base)
        lab.at_end.append(self.watch.end)
        self.log = lab.dir / "steps"
        self.trainings = []  # identities; the last one is under way
        self.away = []  # (when it comes back, node, whether it is the node itself: else its slot)
        self.deaths = {"worker": 0, "node": 0, "withheld": 0, "nobody": 0}

    # ---- before ----

    def steps_per_s(self):
        """Of a group of four to which nothing happens."""
        log = self.lab.dir / "calibrate"
        identity = self.trainer.submit(self.lab, self.mesh.nodes[0], log, 1000, 0, 4)

        def steps():
            lines = [line.split() for file in self.lab.dir.glob("calibrate.*")
                     for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            made = {int(f[5]): int(f[12]) for f in lines if f[7] == "4"}
            return made if len(made) > CALIBRATE_STEPS else None

        made = wait_until(steps, 240, "a group of four to train")
        self.mesh.nodes[0].run("cancel", identity)
        self.wait_free()
        for file in self.lab.dir.glob("calibrate.*"):
            file.unlink()
        return (max(made) - min(made)) / ((made[max(made)] - made[min(made)]) / 1e6)

    def undisturbed(self, epochs):
        """Their test accuracies."""
        log = self.lab.dir / "undisturbed"
        runs = [self.trainer.submit(self.lab, self.mesh.nodes[0], log, epochs, self.lab.seed + 1 + i, 1)
                for i in range(self.undisturbed_count)]
        for identity in runs:
            wait_over(self.mesh, identity, 60 + 2 * self.seconds)
        for file in self.lab.dir.glob("undisturbed.*"):
            file.unlink()
        return sorted(self.accuracy(identity) for identity in runs)

    def accuracy(self, identity):
        found = [point["metrics"]["accuracy"] for point in self.mesh.living()[0].json_lines("metrics", identity)
                 if point["group"] == "test"]
        expect(found, f"experiment {identity} has no test accuracy")
        return found[-1]

    def wait_free(self):
        wait_until(lambda: all(slot["state"] == "free" for node in self.mesh.living() for slot in node.json("slots")["slots"]),
                   90, "all slots to be free")

    # ---- the storm ----

    def come_back(self, until):
        """Starts those nodes again whose time has come before this moment."""
        for item in sorted(self.away, key=lambda item: item[0]):
            when, node, is_down = item
            if when <= until:
                time.sleep(max(0.0, self.began + when - time.monotonic()))
                self.away.remove(item)
                if not is_down:
                    node.run("withhold", "--return")
                    continue
                node.start()
                asked = time.monotonic()
                wait_until(lambda node=node: node.json("show", self.trainings[-1]), 30, f"{node.name} to hear of what began meanwhile")
                self.began += time.monotonic() - asked  # the storm waits for it

    def kill(self, death):
        index, away = death.victim, [node for _, node, _ in self.away]
        while self.mesh.nodes[index] in away:
            index = (index + 1) % len(NAMES)
        node = self.mesh.nodes[index]
        if death.kind != "worker" and len(self.away) < DOWN_MAX:
            is_down = death.kind == "node"
            if is_down:
                node.kill_machine()
            else:
                node.run("withhold", "0")
            self.away.append((death.at_s + death.down_s, node, is_down))
            self.deaths[death.kind] += 1
            self.say(f"{node.name} is killed for {death.down_s:.1f} s" if is_down else
                     f"the slot of {node.name} is withheld for {death.down_s:.1f} s")
            return
        programs = [pid for pid, environment in workers_of(self.trainings[-1])
                    if environment.get("SHOAL_SOCKET", "").startswith(f"{node.dir}/") and self.trainer.is_worker(pid)]
        for pid in programs:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has just ended by itself
        self.deaths["worker" if programs else "nobody"] += 1
        self.say(f"the worker on {node.name} is killed" if programs else f"{node.name} has no worker to kill")

    def must_be_well(self):
        expect(not self.watch.problems, "; ".join(self.watch.problems))
        away = [node for _, node, _ in self.away]
        ended = [node.name for node in self.mesh.nodes if not node.is_running() and node not in away]
        expect(not ended, f"the daemon of {', '.join(ended)} ended by itself")

    def begin_training(self):
        seed = self.lab.seed + 1000 * len(self.trainings)
        self.trainings.append(self.trainer.submit(self.lab, self.mesh.living()[0], self.log, self.epochs, seed, 4))
        wait_until(lambda: show(self.mesh, self.trainings[-1])["trials"][0]["state"] == "running", 60, "training to begin")

    def storm(self):
        for death in plan(self.lab.seed, self.seconds, self.trainer):
            self.come_back(death.at_s)
            time.sleep(max(0.0, self.began + death.at_s - time.monotonic()))
            self.must_be_well()
            state = show(self.mesh, self.trainings[-1])
            if over(state):
                self.say(f"training is over, the next one begins: {trial_states(state)}")
                began = time.monotonic()
                self.begin_training()
                self.began += time.monotonic() - began  # the storm waits for it
            self.kill(death)
        self.come_back(float("inf"))

    # ---- after ----

    def prove_samples(self):
        files = sorted(map(str, self.lab.dir.glob("steps.*")))
        done = subprocess.run([f"{self.lab.build}/shoal-train", "ledger", "--samples", str(self.trainer.samples),
                               *files], capture_output=True,
                              text=True, timeout=300)
        expect(done.returncode == 0, done.stderr.strip())
        return done.stdout.strip()

    def judge(self, identity):
        """Waits for its end; its attempts and test accuracy."""
        final = wait_over(self.mesh, identity, 120 + 3 * self.seconds)
        trial = final["trials"][0]
        steps = self.epochs * self.steps_per_epoch
        expect(trial["step"] == steps, f"training ended with step {trial['step']}, not {steps}")
        accuracy = self.accuracy(identity)
        expect(not self.accuracies or self.accuracies[0] - CLOSE <= accuracy <= self.accuracies[-1] + CLOSE,
               f"test accuracy {accuracy:.4f}; {self.spread()}")
        wait_until(lambda: all(over(node.json("show", identity)["experiment"]) for node in self.mesh.nodes), 60,
                   "all nodes to show that it is over")
        return f"{trial['attempt']} attempts, test accuracy {accuracy:.4f}"

    def run(self):
        """Returns what is to be said."""
        rate = self.steps_per_s()
        self.epochs = max(1, round(self.trainer.epochs_per_minute * self.seconds / 60),
                          round(rate * STORM_SHARE * self.seconds / self.steps_per_epoch))
        self.epochs = min(self.epochs, self.epochs_max or self.epochs)
        self.say(f"{rate:.0f} steps/s: {self.epochs} epochs, {self.epochs * self.steps_per_epoch} steps")
        self.accuracies = self.undisturbed(self.epochs)
        self.say(self.spread())
        self.begin_training()
        self.began = time.monotonic()
        self.storm()
        self.say(f"the storm is over; {trial_states(show(self.mesh, self.trainings[-1]))}")
        judged = [self.judge(identity) for identity in self.trainings]
        self.wait_free()
        self.watch.end()
        self.must_be_well()
        self.say(self.prove_samples())
        withheld = f", {self.deaths['withheld']} slots withheld" if "withheld" in self.trainer.kinds else ""
        return (f"seed {self.lab.seed}: {self.deaths['node']} nodes and {self.deaths['worker']} workers killed{withheld} in "
                f"{self.seconds:.0f} s, {self.epochs} epochs in {'; and in '.join(judged)} "
                f"({self.spread()})")

    def spread(self):
        return "undisturbed runs: test accuracy " + (", ".join(f"{a:.4f}" for a in self.accuracies) or "not measured")


def main():
    parser = argparse.ArgumentParser(prog="tests/e2e/soak_elastic.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="how long there are deaths (default 10)")
    parser.add_argument("--torch", nargs="?", const="/usr/bin/python3", metavar="PYTHON",
                        help="the workers are a PyTorch program, by this interpreter (default /usr/bin/python3)")
    parser.add_argument("--epochs", type=int, default=None, metavar="N",
                        help="of each training at most; several follow one another then (default: one training lasts as long as the storm)")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of everything that is drawn; else from the clock")
    parser.add_argument("--build", default="build/release", metavar="DIR", help="where shoald, shoal, ... are")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' directories and the logs of steps")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    print(f"seed {seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    lab = Lab("soak_elastic", Path(arguments.build).resolve(), seed)
    verdict = "FAILED"
    try:
        trainer = Torch(arguments.torch) if arguments.torch else Native()
        reason = Soak(lab, arguments.minutes, lambda text: print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True),
                      trainer, epochs_max=arguments.epochs).run()
        verdict = "ok"
    except Exception as error:  # whatever it is, it must not look like a success
        print(traceback.format_exc(limit=-6) + lab.log_tails(), flush=True)
        reason = f"seed {seed}: {error or type(error).__name__}"
    finally:
        lab.end()
        report = lab.sanitizer_report()
        if report is not None:
            verdict, reason = "FAILED", f"seed {seed}: {report}"
        if arguments.keep:
            print(f"    everything is in {lab.dir}", flush=True)
        else:
            lab.remove()
    print(f"{verdict} soak_elastic ({time.monotonic() - began:.1f}) {reason}", flush=True)
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
