#!/usr/bin/python3
"""A storm of deaths over one elastic group: four workers on four nodes, real daemons; every five seconds a worker is killed,
or a whole node with all that runs there, which comes back some seconds later. Training must outlast it, and end with every
sample of each epoch used exactly once and as good a network as runs have to which nothing happens. All is drawn from one
seed. Prints each death, and at the end one line: ok|FAILED soak_elastic (SECONDS) REASON.

First, four workers train for some seconds, to know how many epochs last as long as the storm, and five undisturbed trials of
as many epochs, each with a seed of its own and on one slot, show how far apart their networks' accuracies are. If training is
over before the storm is (the machine got faster meanwhile), the next one begins, with another seed; all are judged."""

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

from lab import Lab, expect, over, show, step_log, trial_states, wait_over, wait_until  # noqa: E402
from look import program_of, workers_of  # noqa: E402
from watch import Watch  # noqa: E402

NAMES = ["alder", "birch", "cedar", "dogwood"]
SAMPLES = 55_000
BATCH = 32
STEPS_PER_EPOCH = -(-SAMPLES // BATCH)
EVERY_S = 5.0          # between two deaths
DOWN_S = (3.0, 12.0)   # how long a node is away
DOWN_MAX = 2           # nodes that are away at a time
UNDISTURBED = 5
CLOSE = 0.003          # how far outside of the undisturbed runs' test accuracies that of the soak may be
CALIBRATE_STEPS = 1500
EPOCHS_PER_MINUTE = 8  # at least, however slow the machine was when it was measured
STORM_SHARE = 0.7      # of what four workers do in as long a calm: with deaths it is about a third


class Death:
    def __init__(self, at_s, kind, victim, down_s):
        self.at_s, self.kind, self.victim, self.down_s = at_s, kind, victim, down_s


def plan(seed, seconds):
    """What happens when; `victim` is an index among the nodes, the next living one if it is away."""
    stream = random.Random(f"{seed} deaths")
    count = int(seconds / EVERY_S)
    return [Death(EVERY_S * i + stream.uniform(0, EVERY_S), stream.choice(("worker", "node")), stream.randrange(len(NAMES)),
                  stream.uniform(*DOWN_S)) for i in range(count)]


def config(log, epochs, seed, slots):
    searcher = {"name": "single", "metric": "accuracy", "smaller_is_better": False}
    resources = {"slots_per_trial": slots, "min_slots": 1, "max_slots": slots}
    return {
        "name": f"soak-{seed}-{slots}",
        "entrypoint": f"{step_log(log)} exec shoal-train mlp",
        # Small batches of a small network: steps are many and cost little, so that a storm lasts few epochs.
        "hyperparameters": {"hidden": 64, "learning_rate": 0.01, "learning_rate_decay": 1.0, "batch_size": BATCH, "epochs": epochs,
                            "checkpoint_every": 1000, "report_every": 500},
        "searcher": searcher,
        "resources": resources,
        "max_restarts": 1000,  # a worker that is killed counts as the program's own failure
        "seed": seed,
    }


class Soak:
    def __init__(self, lab, minutes, say, undisturbed=UNDISTURBED):
        """undisturbed: how many such runs the accuracy is compared with; 0: it is not judged."""
        self.lab, self.seconds, self.say = lab, minutes * 60, say
        self.undisturbed_count = undisturbed
        self.mesh = lab.mesh(NAMES, slots="cpu:1")
        self.watch = Watch(self.mesh.base)
        lab.at_end.append(self.watch.end)
        self.log = lab.dir / "steps"
        self.trainings = []  # identities; the last one is under way
        self.away = []  # (when it comes back, node)
        self.deaths = {"worker": 0, "node": 0, "nobody": 0}

    # ---- before ----

    def steps_per_s(self):
        """Of a group of four to which nothing happens."""
        log = self.lab.dir / "calibrate"
        identity = self.lab.submit(self.mesh.nodes[0], config(log, 1000, 0, 4))

        def steps():
            lines = [line.split() for file in self.lab.dir.glob("calibrate.*")
                     for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            made = {int(f[5]): int(f[12]) for f in lines if f[7] == "4"}
            return made if len(made) > CALIBRATE_STEPS else None

        made = wait_until(steps, 120, "a group of four to train")
        self.mesh.nodes[0].run("cancel", identity)
        self.wait_free()
        for file in self.lab.dir.glob("calibrate.*"):
            file.unlink()
        return (max(made) - min(made)) / ((made[max(made)] - made[min(made)]) / 1e6)

    def undisturbed(self, epochs):
        """Their test accuracies."""
        runs = [self.lab.submit(self.mesh.nodes[0], config(self.lab.dir / "undisturbed", epochs, self.lab.seed + 1 + i, 1))
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
            when, node = item
            if when <= until:
                time.sleep(max(0.0, self.began + when - time.monotonic()))
                self.away.remove(item)
                node.start()
                asked = time.monotonic()
                wait_until(lambda node=node: node.json("show", self.trainings[-1]), 30, f"{node.name} to hear of what began meanwhile")
                self.began += time.monotonic() - asked  # the storm waits for it

    def kill(self, death):
        index = death.victim
        while not self.mesh.nodes[index].is_running():
            index = (index + 1) % len(NAMES)
        node = self.mesh.nodes[index]
        if death.kind == "node" and len(self.away) < DOWN_MAX:
            node.kill_machine()
            self.away.append((death.at_s + death.down_s, node))
            self.deaths["node"] += 1
            self.say(f"{node.name} is killed for {death.down_s:.1f} s")
            return
        programs = [pid for pid, environment in workers_of(self.trainings[-1])
                    if environment.get("SHOAL_SOCKET", "").startswith(f"{node.dir}/") and program_of(pid) == "shoal-train"]
        for pid in programs:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has just ended by itself
        self.deaths["worker" if programs else "nobody"] += 1
        self.say(f"the worker on {node.name} is killed" if programs else f"{node.name} has no worker to kill")

    def must_be_well(self):
        expect(not self.watch.problems, "; ".join(self.watch.problems))
        ended = [node.name for node in self.mesh.nodes if not node.is_running() and node not in [n for _, n in self.away]]
        expect(not ended, f"the daemon of {', '.join(ended)} ended by itself")

    def begin_training(self):
        seed = self.lab.seed + 1000 * len(self.trainings)
        self.trainings.append(self.lab.submit(self.mesh.living()[0], config(self.log, self.epochs, seed, 4)))
        wait_until(lambda: show(self.mesh, self.trainings[-1])["trials"][0]["state"] == "running", 60, "training to begin")

    def storm(self):
        for death in plan(self.lab.seed, self.seconds):
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
        done = subprocess.run([f"{self.lab.build}/shoal-train", "ledger", "--samples", str(SAMPLES), *files], capture_output=True,
                              text=True, timeout=300)
        expect(done.returncode == 0, done.stderr.strip())
        return done.stdout.strip()

    def judge(self, identity):
        """Waits for its end; its attempts and test accuracy."""
        final = wait_over(self.mesh, identity, 120 + 3 * self.seconds)
        trial = final["trials"][0]
        steps = self.epochs * STEPS_PER_EPOCH
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
        self.epochs = max(round(EPOCHS_PER_MINUTE * self.seconds / 60), round(rate * STORM_SHARE * self.seconds / STEPS_PER_EPOCH))
        self.say(f"{rate:.0f} steps/s: {self.epochs} epochs, {self.epochs * STEPS_PER_EPOCH} steps")
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
        return (f"seed {self.lab.seed}: {self.deaths['node']} nodes and {self.deaths['worker']} workers killed in "
                f"{self.seconds:.0f} s, {self.epochs} epochs in {'; and in '.join(judged)} "
                f"({self.spread()})")

    def spread(self):
        return "undisturbed runs: test accuracy " + (", ".join(f"{a:.4f}" for a in self.accuracies) or "not measured")


def main():
    parser = argparse.ArgumentParser(prog="tests/e2e/soak_elastic.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="how long there are deaths (default 10)")
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
        reason = Soak(lab, arguments.minutes, lambda text: print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)).run()
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
