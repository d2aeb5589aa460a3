#!/usr/bin/python3
"""Storms over a mesh of real daemons, each in a network namespace of its own: daemons and machines are killed, stopped, cut
off, given lossy, slow or long links, old or full disks, while experiments run; after each storm everything is healed, and what users
see is checked from outside. All is drawn from one seed. Needs root; where namespaces are not allowed it is skipped, with a
line that says so; where links cannot be delayed it does without that kind. Prints each fault, and at the end one line:
ok|FAILED|skipped chaos (SECONDS) REASON."""

import argparse
import math
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parents[1] / "tools")]

from faults import Faults  # noqa: E402
from judge import Broken, Judge  # noqa: E402
from lab import Lab, Skip  # noqa: E402
from mesh import Node  # noqa: E402
from plan import DISK_FAULTS, FAULTS, Planner, Streams  # noqa: E402
from watch import Watch  # noqa: E402
from wire import NoNamespaces, Wire, why_no_delays  # noqa: E402
from workload import Workload  # noqa: E402

DISK_BYTES = 512 << 20
STORM_S = (25, 45)
NAMES = ("alder", "birch", "cedar", "dogwood", "elm", "fir", "gorse", "hazel", "ivy")


class Disk:
    """A small file system of its own under a node's data directory, which can be filled to the last byte."""

    def __init__(self, lab, node):
        node.dir.mkdir(parents=True)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "shoal-chaos", str(node.dir)],
                               capture_output=True, text=True)
        if mount.returncode != 0:
            raise Skip(f"no tmpfs can be mounted here: {mount.stderr.strip()}")
        lab.at_end.append(lambda: subprocess.run(["umount", "--lazy", str(node.dir)], capture_output=True))
        self.filler = node.dir / "filler"

    def fill(self):
        try:
            with open(self.filler, "ab", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError:
            pass  # it is as full as it gets

    def free(self):
        self.filler.unlink(missing_ok=True)


class Chaos:
    def __init__(self, arguments, build, seed):
        self.arguments = arguments
        self.lab = Lab("chaos", build, seed)
        self.seed = seed
        self.began = time.monotonic()
        self.storms = 0

    def say(self, text):
        print(f"{time.monotonic() - self.began:7.1f} s  {text}", flush=True)

    def remark(self, text):
        if self.arguments.verbose:
            self.say(f"({text})")

    def build_up(self, kinds):
        why_not = why_no_delays() if "delayed" in kinds else None
        if why_not is not None:
            kinds = [kind for kind in kinds if kind != "delayed"]
            if not kinds:
                raise Skip(why_not)
            self.say(f"no fault is of the kind delayed: {why_not}")
        self.mesh = self.lab.mesh(list(NAMES[:self.arguments.nodes]), start=False)
        spare = Node(self.mesh.base, "spare", build=self.lab.build) if "clone" in kinds else None
        try:
            wire = Wire([*self.mesh.nodes, *([spare] if spare else [])], relay=f"{self.lab.build}/chaos_relay")
        except NoNamespaces as error:
            raise Skip(str(error)) from None
        self.lab.at_end.append(wire.end)
        disk_node = len(self.mesh.nodes) - 1
        disk = Disk(self.lab, self.mesh.nodes[disk_node]) if set(DISK_FAULTS) & set(kinds) else None
        self.mesh.start()
        streams = Streams(self.seed)
        self.watch = Watch(self.mesh.base)
        self.workload = Workload(self.mesh, streams, self.arguments.experiments, f"{self.lab.build}/chaos_worker", self.remark)
        self.faults = Faults(self.mesh, wire, self.workload, disk, streams, self.say, spare)
        self.planner = Planner(self.seed, len(self.mesh.nodes), kinds, disk_node)
        self.judge = Judge(self.mesh, self.workload, self.watch, self.say, streams["judge"])

    def run(self, kinds):
        """Raises Broken, Skip; returns what is to be said."""
        self.build_up(kinds)
        deadline = self.began + self.arguments.minutes * 60
        while self.storms == 0 or time.monotonic() + STORM_S[0] + 15 < deadline:
            self.storms += 1
            drawn_s = self.planner.streams["storms"].uniform(*STORM_S)
            plan, lasts_s = self.planner.storm(drawn_s)
            seconds = max(10.0, min(lasts_s, deadline - time.monotonic() - 15))
            self.say(f"storm {self.storms}, {seconds:.0f} s")
            self.faults.storm(plan, seconds)
            with self.workload.busy:  # the users rest
                self.must_be_well()
                self.judge.judge()
                self.must_be_well()
        self.workload.end()
        self.watch.end()
        self.must_be_well()
        self.must_show_something()
        done = sum(self.faults.done.values())
        cancelled = sum(e.cancelled_on > 0 for e in self.workload.experiments.values())
        return (f"seed {self.seed}: {self.storms} storms, {done} faults of {len(self.faults.done)} kinds, "
                f"{len(self.workload.experiments)} experiments acknowledged, {cancelled} of them cancelled, "
                f"{self.workload.refused} commands refused, {len(self.watch.seen)} workers, "
                f"{self.judge.checkpoints} checkpoints read ({self.judge.dropped} dropped meanwhile), {self.judge.elastic} elastic trials, "
                f"{self.judge.regrouped} of them in groups that changed")

    def must_show_something(self):
        """What nobody looked at is not called well."""
        if not self.judge.judged:
            raise Broken("no experiment was judged: this run shows nothing")
        if not self.judge.checkpoints:
            raise Broken("no checkpoint was read back: this run shows nothing of them")

    def must_be_well(self):
        self.faults.look_for_deaths()
        wrong = self.workload.wrong.read_text().splitlines()[:3] if self.workload.wrong.exists() else []
        problems = self.faults.problems + self.workload.problems + self.watch.problems + wrong
        if problems:
            raise Broken("; ".join(problems))

    def end(self):
        if hasattr(self, "workload"):
            self.workload.end()
            self.watch.end()
        for node in self.lab.meshes[0].nodes if self.lab.meshes else []:
            if node.is_running():
                os.kill(node.daemon.pid, signal.SIGCONT)
        self.lab.end()


def run(chaos, kinds):
    """(verdict, reason, details); ends everything."""
    try:
        return "ok", chaos.run(kinds), ""
    except Skip as skip:
        return "skipped", str(skip), ""
    except Broken as broken:
        return "FAILED", str(broken), ""
    except Exception as error:  # whatever it is, it must not look like a success
        return "FAILED", f"{error}" or type(error).__name__, traceback.format_exc(limit=-6)
    finally:
        chaos.end()


def main():
    parser = argparse.ArgumentParser(prog="tests/chaos/run.py", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of everything that is drawn; else from the clock")
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="how long there are new storms (default 10)")
    parser.add_argument("--nodes", type=int, default=5, metavar="N", help="2 to 9 (default 5)")
    parser.add_argument("--experiments", type=int, default=3, metavar="E", help="that are under way all the time (default 3)")
    parser.add_argument("--faults", default=",".join(FAULTS), metavar="KIND,...",
                        help="only these (default %(default)s)")
    parser.add_argument("--build", default="build/release", metavar="DIR", help="where shoald, shoal, ... are")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' directories")
    parser.add_argument("--verbose", action="store_true", help="also what users are refused, and the logs' ends after a failure")
    arguments = parser.parse_args()
    build = Path(arguments.build).resolve()
    kinds = [kind for kind in arguments.faults.split(",") if kind]
    unknown = set(kinds) - set(FAULTS)
    if unknown or not kinds:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}" if unknown else "--faults is at least one")
    if not 2 <= arguments.nodes <= len(NAMES):
        parser.error(f"--nodes is {arguments.nodes}; allowed are 2 to {len(NAMES)}")
    if not 0 <= arguments.minutes < math.inf:
        parser.error(f"--minutes is {arguments.minutes:g}; allowed are numbers from 0, which is one storm, on")
    if arguments.experiments < 1:
        parser.error(f"--experiments is {arguments.experiments}; without one under way nothing is shown: give 1 at least")
    missing = [p for p in ("shoald", "shoal", "shoal-keep", "chaos_worker", "chaos_relay") if not (build / p).exists()]
    if missing:
        print(f"run.py: {build} has no {', '.join(missing)}; build it or give --build.", file=sys.stderr)
        return 2
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    print(f"seed {seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chaos = Chaos(arguments, build, seed)
    try:
        verdict, reason, details = run(chaos, kinds)
        report = chaos.lab.sanitizer_report()
        if report is not None:
            verdict, reason = "FAILED", f"{report}; {reason}"
        if verdict == "FAILED":
            print(details + chaos.lab.log_tails(1000 if arguments.verbose else 15), flush=True)
            reason = f"seed {seed}: {reason}"
        print(f"{verdict} chaos ({time.monotonic() - chaos.began:.1f}) {reason}", flush=True)
    finally:
        if arguments.keep:
            print(f"    everything is in {chaos.lab.dir}", flush=True)
        else:
            chaos.lab.remove()
    return 1 if verdict == "FAILED" else 0


if __name__ == "__main__":
    sys.exit(main())
