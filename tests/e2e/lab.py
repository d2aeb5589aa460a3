"""What every end-to-end case gets: a directory, meshes of real daemons in it, a seed, and an end that leaves nothing."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from mesh import Mesh, Node, Refused, processes_naming, wait_until  # noqa: E402, F401
from wire import NoNamespaces, Wire  # noqa: E402

CASES = []
SANITIZER_REPORT = re.compile(rb".*(?:[a-z]Sanitizer: |: runtime error: ).*")  # as in CMakeLists.txt
os.environ.setdefault("TSAN_OPTIONS", f"suppressions={Path(__file__).resolve().parents[1] / 'tsan.supp'}")  # of all that runs here


slowness = 1  # how many times as long a training may take here


def slowness_of(build):
    """Under ThreadSanitizer a group makes a tenth of the steps."""
    cache = Path(build) / "CMakeCache.txt"
    return 4 if cache.exists() and "-fsanitize=thread" in cache.read_text() else 1


class Skip(Exception):
    """This machine cannot run the case; the text says what it lacks."""


class Broken(AssertionError):
    """A promise that was not kept."""


def case(limit_s=60, soak=False, alone=False, pairs=False, whole=False):
    """Makes a function of one argument (a Lab) a case of tests/e2e/run.py. `soak`: --soak repeats it with other seeds.
    `alone`: no other case runs beside it, since it counts seconds or what the processor does, or needs ports back.
    `pairs`: one other of these runs beside it at most, since it counts steps. `whole`: the long form of a case, which only
    --field runs."""

    def register(function):
        beside = "alone" if alone else "pairs" if pairs else "together"
        CASES.append(Case(function.__name__, function, limit_s, soak, beside, whole))
        return function

    return register


class Case:
    def __init__(self, name, function, limit_s, soak, beside, whole):
        self.name = name
        self.full_name = f"{function.__module__}.{name}"
        self.function = function
        self.limit_s = limit_s
        self.soak = soak
        self.beside = beside
        self.whole = whole


def expect(condition, text):
    """As assert, but also under python3 -O, and with a sentence."""
    if not condition:
        raise Broken(text)


class Lab:
    def __init__(self, name, build, seed):
        self.dir = Path(tempfile.mkdtemp(prefix="shoal-e2e-"))
        self.build = str(build)
        global slowness
        slowness = slowness_of(build)
        self.seed = seed
        self.random = random.Random(f"{seed} {name}")
        self.notes = []
        self.meshes = []
        self.at_end = []  # called in reverse order, whatever happened

    def note(self, text):
        """Shown when the case fails, or with --verbose at once."""
        self.notes.append(text)

    def mesh(self, names, start=True, **options):
        """A mesh of nodes with these names (or that many), ended with the case."""
        if isinstance(names, int):
            names = ["alder", "birch", "cedar", "dogwood", "elm", "fir", "gorse", "hazel", "ivy"][:names]
        mesh = Mesh(self.dir / f"mesh{len(self.meshes)}", names, build=self.build, **options)
        self.meshes.append(mesh)
        return mesh.start() if start else mesh

    def wired(self, names, **options):
        """A mesh, not started yet, whose nodes stand in network namespaces of their own, and its Wire."""
        mesh = self.mesh(names, start=False, **options)
        try:
            wire = Wire(mesh.nodes)
        except NoNamespaces as error:
            raise Skip(str(error)) from None
        self.at_end.append(wire.end)
        return mesh, wire

    def submit(self, node, config, files=None):
        """Submits `config` (a dict: JSON is YAML) with `files` (name to text) from a context that is gone afterwards."""
        context = Path(tempfile.mkdtemp(prefix="context-", dir=node.tree))
        for name, text in (files or {}).items():
            (context / name).write_text(text)
        (context / "experiment.yaml").write_text(json.dumps(config, indent=1))
        try:
            return node.run("submit", context / "experiment.yaml").split()[-1]
        finally:
            shutil.rmtree(context)

    def end(self):
        for action in reversed(self.at_end):
            action()
        for mesh in self.meshes:
            mesh.end()
        for process in processes_naming(self.dir):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def log_tails(self, lines=40):
        text = []
        for mesh in self.meshes:
            for node in mesh.nodes:
                if node.log.exists():
                    tail = node.log.read_text(errors="replace").splitlines()[-lines:]
                    text.append("\n".join([f"--- {node.name}", *tail]))
        return "\n".join(text)

    def sanitizer_report(self):
        """The first line that a sanitizer has written into the log of a daemon; None if there is none."""
        for log in [*self.dir.glob("*/shoald.log"), *self.dir.glob("*/*/shoald.log")]:
            report = SANITIZER_REPORT.search(log.read_bytes())
            if report is not None:
                return f"{log.parent.name}'s daemon: {report[0].decode(errors='replace').strip()}"
        return None

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def show(mesh, identity):
    """The experiment as the first living node sees it."""
    return mesh.living()[0].json("show", identity)["experiment"]


def wait_over(mesh, identity, timeout, state="completed", viewer=None):
    """Waits until the experiment is over, as `viewer` (or the first living node) sees it; it must have ended in `state`."""
    def final_state():
        return over(viewer.json("show", identity)["experiment"] if viewer is not None else show(mesh, identity))

    final = wait_until(final_state, timeout * slowness, f"experiment {identity} to be {state}")
    expect(final["state"] == state, f"the experiment is {final['state']}, not {state}: {trial_states(final)}")
    return final


def over(experiment):
    return experiment if experiment["state"] in ("completed", "failed", "cancelled") else None


def trial_states(experiment):
    return ", ".join(f"trial {t['index']} {t['state']} attempt {t['attempt']} step {t['step']}"
                     + (f" ({t['reason']})" if t.get("reason") else "") for t in experiment["trials"])


class Step:
    """One line of SHOAL_STEP_LOG."""

    def __init__(self, line, life):
        fields = line.split()
        self.ms, self.trial, self.attempt, self.rank, self.step = int(fields[0]), *map(int, fields[2:6])
        self.generation, self.size = map(int, fields[6:8])
        self.batch_first, self.batch_count, self.first, self.count = map(int, fields[8:12])
        self.us = int(fields[12])  # of the monotonic clock, as time.monotonic_ns() // 1000
        self.is_balanced = fields[13] == "1"
        self.of = (self.trial, self.attempt, self.generation, self.step)
        self.experiment = fields[1]
        self.life = life


def step_log(path):
    """For the entrypoint: each worker writes its steps into a file of its own, so that two sides of a partition that run the
    same attempt can be told apart."""
    return f"SHOAL_STEP_LOG={path}.$SHOAL_TOKEN"


def read_steps(path, experiment, rank=None):
    """The steps of one rank in all its lives, in the order of time; without a rank each step once, by the first rank that wrote
    it: one that is killed between the sum and its line leaves the line to the others. A last line without an end is being written,
    or its writer was killed in the midst of it: it is not there yet."""
    steps = []
    for file in path.parent.glob(f"{path.name}.*"):
        lines = file.read_text().split("\n")[:-1]
        expect(all(re.fullmatch(r"\d+ [0-9a-f]+( \d+){11} [01]", line) for line in lines), f"{file} has a malformed line")
        steps += [step for step in (Step(line, file.suffix) for line in lines) if step.experiment == experiment]
    if rank is None:
        first = {}
        for s in steps:
            first[s.of] = min(s.rank, first.get(s.of, s.rank))
        steps = [s for s in steps if s.rank == first[s.of]]
    else:
        steps = [s for s in steps if s.rank == rank]
    return sorted(steps, key=lambda s: (s.ms, s.step))


def command(*arguments):
    """Runs a program of the system (ip, nft); its error text becomes the failure's."""
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise Broken(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
