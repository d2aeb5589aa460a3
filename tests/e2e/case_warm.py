"""environment.warm: trials are forked from one process that has done their imports, and are otherwise like any others."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from case_client import command_of, shoal
from lab import Skip, case, expect, show, wait_over, wait_until

PYTHON = "/usr/bin/python3"
PROGRAMS = Path(__file__).resolve().parent / "programs"
PROBE = (PROGRAMS / "warm_probe.py").read_text()


def submit(lab, node, files, entrypoint, space=None, is_warm=True, **more):
    searcher = {"name": "grid", "metric": "loss"} if space else {"name": "single", "metric": "loss"}
    return lab.submit(node, {"name": "warm", "entrypoint": entrypoint, "environment": {"warm": is_warm}, "searcher": searcher,
                             "hyperparameters": space or {}, **more}, files)


def values(name, *all_of_them):
    return {name: {"type": "categorical", "vals": list(all_of_them)}}


def log(node, identity, trial=0):
    return node.run("logs", f"{identity}/{trial}")


def warm(node):
    return node.json("slots")["warm"]


def is_cold(text):
    found = re.search(r"^shoal: this trial is not warm, since (.*)$", text, re.MULTILINE)
    return found and found[1]


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def workers_of(node):
    """The processes below the shoal-keeps of a node."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = Path(f"/proc/{parent(entry.name)}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if command[0] == b"shoal-keep" and command[1].startswith(os.fsencode(node.dir)):
            found.append(int(entry.name))
    return sorted(found)


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


@case(limit_s=120)
def trials_of_one_warm_process_are_apart_and_as_fresh_ones(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    ends = ["0", "kill", "segfault", "exit", "sysexit", "raise", "interrupt", "0"]
    probes, trials = {}, {}
    for is_warm in (True, False):
        identity = submit(lab, node, {"probe.py": PROBE}, f"{PYTHON} probe.py --end {{{{hp.end}}}} 'two words'",
                          {**values("end", *ends[:-1]), **values("again", 0, 1)}, is_warm, max_restarts=0)
        final = wait_over(mesh, identity, 90)
        trials[is_warm] = {trial["index"]: trial for trial in final["trials"]}
        logs = {trial: log(node, identity, trial) for trial in trials[is_warm]}
        expect(not any(is_cold(text) for text in logs.values()), f"a trial began cold: {logs}")
        probes[is_warm] = {trial: (json.loads(text.split("\n", 1)[0]), text.split("\n", 1)[1]) for trial, text in logs.items()}
    expect(len(trials[True]) == 14 and len({probe["cwd"] for probe, _ in probes[True].values()}) == 14, "each has its directory")
    expect(len({probe["random"] for probe, _ in probes[True].values()}) == 14, "two have drawn the same number")

    def alike(text, run):
        """Without what differs between any two trials."""
        for name in ("SHOAL_TOKEN", "SHOAL_SEED", "SHOAL_EXPERIMENT"):
            text = text.replace(json.dumps(run["environment"][name])[1:-1], name)
        return re.sub(r"slot-\d", "slot-N", re.sub(r"runs/[^/\"]*/", "runs/RUN/", text))

    def descriptors(run):
        return [*(run["descriptors"].pop(fd) for fd in "012"), *sorted(run["descriptors"].values())]

    for index, (probe, rest) in probes[True].items():
        fresh, fresh_rest = probes[False][index]
        for run in (probe, fresh):
            run["random"], run["descriptors"] = None, descriptors(run)
            expect(run["environment"].pop("MASTER_PORT").isdecimal(), f"{run['environment']}")
        mine, theirs = (json.loads(alike(json.dumps(run), run)) for run in (probe, fresh))
        differ = {key: (mine[key], theirs[key]) for key in mine if mine[key] != theirs[key]}
        expect(not differ, f"trial {index} finds what a fresh process does not: {differ}")
        expect(alike(rest, probe) == alike(fresh_rest, fresh), f"trial {index} wrote {rest!r}, and not {fresh_rest!r}")
        one, other = ({key: trials[is_warm][index].get(key) for key in ("state", "exit_code", "reason")} for is_warm in (True, False))
        expect(one == other, f"trial {index} ended with {one}, and not {other}")


@case(limit_s=90)
def one_process_serves_the_slots_and_ends_with_its_experiment(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    program = "import time\nimport decimal, os\nprint(os.getppid(), flush=True)\ntime.sleep(0.3)\n"
    identity = submit(lab, node, {"train.py": program}, f"{PYTHON} train.py", values("x", *range(12)))
    seen = wait_until(lambda: [each for each in warm(node) if each["trials"] > 4], 30, "the warm process in slots")
    expect(len(seen) == 1 and seen[0]["slots"] == [0, 1] and seen[0]["state"] == "ready", f"slots shows {seen}")
    expect(seen[0]["experiment"] == identity and seen[0]["memory_bytes"] > 0 and seen[0]["idle_s"] < 60, f"slots shows {seen}")
    text = node.run("slots")
    expect(f"warm: process {seen[0]['pid']} of alder for {identity[:8]}, slots 0,1: ready" in text, f"slots prints {text}")
    commands = [Path(f"/proc/{worker}/cmdline").read_bytes() for worker in workers_of(node)]
    expect(all(re.fullmatch(rb"[^\0]*python3\0train.py\0*", command) for command in commands), f"ps shows {commands}")
    wait_over(mesh, identity, 60)
    expect(not any(is_cold(log(node, identity, trial)) for trial in range(12)), "a trial began cold")
    wait_until(lambda: not warm(node) and is_gone(seen[0]["pid"]), 20, "the end of the warm process")


@case(limit_s=90)
def a_cancel_ends_a_warm_trial_and_what_it_has_started(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    pids = lab.dir / "pids"
    program = ("import os, subprocess, sys, time\nchild = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
               "fork = os.fork()\nif fork == 0:\n    os.setsid()\n    time.sleep(600)\n"
               f"open('{pids}.new', 'w').write(f'{{os.getpid()}} {{child.pid}} {{fork}}')\nos.rename('{pids}.new', '{pids}')\n"
               "time.sleep(600)\n")
    identity = submit(lab, node, {"train.py": program}, f"{PYTHON} train.py")
    wait_until(pids.exists, 30, "the trial's processes")
    of_trial = [int(word) for word in pids.read_text().split()]
    process = warm(node)[0]["pid"]
    for pid in of_trial:  # as the daemon looks for them when their shoal-keep is gone
        tokens = re.findall(rb"(?:^|\0)SHOAL_TOKEN=([0-9a-f]{32})(?=\0|$)", Path(f"/proc/{pid}/environ").read_bytes())
        expect(len(tokens) == 1, f"{pid} shows {len(tokens)} tokens")
    node.run("cancel", identity)
    wait_over(mesh, identity, 30, "cancelled")
    wait_until(lambda: all(is_gone(pid) for pid in of_trial), 20, "the end of the cancelled trial's processes")
    wait_until(lambda: is_gone(process), 20, "the end of the warm process")


@case(limit_s=90)
def a_killed_shoal_keep_leaves_nothing_of_a_warm_trial(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    pids = lab.dir / "pids"
    program = ("import os, time\nfork = os.fork()\nif fork == 0:\n    os.setsid()\n    time.sleep(600)\n"
               f"name = '{pids}.' + os.environ['SHOAL_ATTEMPT']\nopen(name + 'new', 'w').write(f'{{os.getpid()}} {{fork}}')\n"
               "os.rename(name + 'new', name)\ntime.sleep(600)\n")
    submit(lab, node, {"train.py": program}, f"{PYTHON} train.py")
    first, second = (Path(f"{pids}.{attempt}") for attempt in (1, 2))
    wait_until(first.exists, 30, "the trial's processes")
    of_trial = [int(word) for word in first.read_text().split()]
    os.kill(parent(of_trial[0]), signal.SIGKILL)
    wait_until(second.exists, 40, "the next attempt")
    expect(all(is_gone(pid) for pid in of_trial), "a process of the first attempt lives beside the second")


@case(limit_s=120)
def a_daemon_that_is_killed_finds_its_warm_trials_again(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    done = lab.dir / "done"
    program = ("import os, sys, time\nprint('begun by', os.environ['SHOAL_ATTEMPT'], flush=True)\n"
               f"while not os.path.exists('{done}'):\n    time.sleep(0.05)\nprint('goes on')\nsys.exit(3 if os.environ['SHOAL_TRIAL'] == '1' else 0)\n")
    identity = submit(lab, node, {"train.py": program}, f"{PYTHON} train.py", values("x", 0, 1), max_restarts=0)
    wait_until(lambda: all("begun by 1" in log(node, identity, trial) for trial in (0, 1)), 30, "the first lines")
    before, process = workers_of(node), warm(node)[0]["pid"]
    node.kill_daemon(signal.SIGKILL)
    wait_until(lambda: is_gone(process), 20, "the warm process to end with its daemon")
    expect(len(before) == 2 and not any(is_gone(pid) for pid in before), "a trial has ended with the daemon")
    node.start()
    expect(workers_of(node) == before, "the workers are others")
    done.touch()
    final = wait_over(mesh, identity, 60)
    expect([(trial["attempt"], trial["state"]) for trial in final["trials"]] == [(1, "completed"), (1, "failed")], f"{final['trials']}")
    expect(final["trials"][1]["exit_code"] == 3 and log(node, identity, 1).endswith("goes on\n"), f"{final['trials'][1]}")


THREADED = "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), name='background', daemon=True).start()\n"
OPENED = "import socket\nSERVER = socket.socket()\nSERVER.bind(('127.0.0.1', 0))\n"
COLD = [  # files, entrypoint, why, and what the program writes nevertheless
    ({}, "echo begins | cat", "its entrypoint runs echo, which is no python", "begins"),
    ({"train.py": "print('begins')"}, f"{PYTHON} train.py | cat", "its entrypoint needs a shell (for the |)", "begins"),
    ({"train.py": "import threading, sys\nimport helper\nprint('begins')"}, f"{PYTHON} train.py", None, "begins"),
    ({"train.py": "import colorsys\nprint('begins')", "colorsys.py": "OWN = 1"}, f"{PYTHON} train.py", None, "begins"),
    ({"train.py": "import socket\nprint('begins')", "socket.py": "OWN = 1"}, f"{PYTHON} train.py",
     "its file socket.py stands in the place of the module socket", "begins"),
    ({"train.py": "import nowhere\nprint('begins')"}, f"{PYTHON} train.py", None, "ModuleNotFoundError"),
    ({"train.py": "print('begins')"}, f"PYTHONPATH=more {PYTHON} train.py", "its entrypoint runs PYTHONPATH=more", "begins"),
    ({"train.py": "syntax error\n"}, f"{PYTHON} train.py", None, "SyntaxError: invalid syntax"),
    ({}, f"{PYTHON} nothing.py", "nothing.py is no file of Python", "can't open file"),
    ({}, "python3.99 train.py", "its warm process has ended during its imports", "not found"),
]


@case(limit_s=150)
def a_program_that_cannot_be_warm_runs_cold_and_says_why(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    packages = lab.dir / "packages"
    for name, text in {"broken": "raise RuntimeError('as a package does')", "helper": "", "threaded": THREADED, "opened": OPENED,
                       "started": "import subprocess\nCHILD = subprocess.Popen(['sleep', '5'])\n", "leaves": "import sys\nsys.exit(4)",
                       "file": "FILE = open('/dev/null')\n"}.items():
        packages.mkdir(exist_ok=True)
        (packages / f"{name}.py").write_text(text)
    cases = [*COLD, *(({"train.py": f"import {name}\nprint('begins')"}, f"{PYTHON} train.py", why, wrote) for name, why, wrote in (
        ("broken", "the import of broken has failed (RuntimeError: as a package does)", "RuntimeError: as a package does"),
        ("threaded", "its imports have started a thread (background)", "begins"),
        ("opened", "its imports have opened a socket", "begins"),
        ("started", "its imports have started a process", "begins"),
        ("leaves", "the import of leaves ends the program", ""),
        ("file", None, "begins")))]
    begun = []
    for files, entrypoint, why, wrote in cases:
        begun.append((submit(lab, node, files, entrypoint, max_restarts=0, environment={
            "warm": True, "variables": {"PYTHONPATH": f"{packages}:more"}}), entrypoint, why, wrote))
    for identity, entrypoint, why, wrote in begun:
        wait_until(lambda: show(mesh, identity)["state"] in ("completed", "failed"), 60, f"{identity} to be over")
        text = log(node, identity)
        found = is_cold(text)
        expect(found == why or (why and found and why in found), f"{entrypoint} is cold since {found}, not {why}: {text}")
        expect(wrote in text, f"{entrypoint} wrote {text}")


@case(limit_s=90)
def the_own_modules_of_a_trial_come_from_its_own_directory(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    files = {"train.py": "import decimal\nimport model\nprint('import model', model.__file__)\nprint('decimal', decimal.WARM)\n",
             "model.py": "import fractions\nprint('model is imported')\n"}
    packages = lab.dir / "packages"
    packages.mkdir()
    (packages / "fractions.py").write_text("import os, sys\nprint('fractions is imported by', os.getpid(), file=sys.stderr)\n")
    files["train.py"] = files["train.py"].replace("decimal.WARM", "'_decimal' in sys.modules").replace("import decimal", "import decimal, sys")
    identity = submit(lab, node, files, f"{PYTHON} -u train.py", values("x", 0, 1, 2),
                      environment={"warm": True, "variables": {"PYTHONPATH": packages.as_posix()}})
    wait_over(mesh, identity, 60)
    logs = [log(node, identity, trial) for trial in range(3)]
    expect(len({re.search("fractions is imported by (.*)", text)[1] for text in logs}) == 1, f"not one process has imported it: {logs}")
    places = {re.search("import model (.*)", text)[1] for text in logs}
    expect(len(places) == 3, f"the modules come from {places}")
    expect(all(text.count("model is imported") == 1 for text in logs), f"{logs}")


@case(limit_s=90)
def a_cancel_does_not_wait_for_slow_imports(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    packages = lab.dir / "packages"
    packages.mkdir()
    (packages / "slow.py").write_text("import time\ntime.sleep(60)\n")
    identity = submit(lab, node, {"train.py": "import slow\n"}, f"{PYTHON} train.py",
                      environment={"warm": True, "variables": {"PYTHONPATH": packages.as_posix()}})
    wait_until(lambda: warm(node), 30, "the warm process")
    expect(warm(node)[0]["state"] == "importing", f"slots shows {warm(node)}")
    node.run("cancel", identity)
    wait_over(mesh, identity, 30, "cancelled")
    wait_until(lambda: not workers_of(node) and not warm(node), 20, "the end of the processes")


def slow_imports(lab):
    """A package whose import lasts until the file is there. Returns the file, and what lets programs find the package."""
    packages, done = lab.dir / "packages", lab.dir / "done"
    packages.mkdir()
    (packages / "slow.py").write_text(f"import os, time\nwhile not os.path.exists('{done}'):\n    time.sleep(0.05)\n")
    return done, {"warm": True, "variables": {"PYTHONPATH": packages.as_posix()}}


@case(limit_s=120)
def a_stop_of_one_trial_that_waits_for_imports_leaves_the_others_warm(lab):
    mesh = lab.mesh(1, slots="cpu:3")
    node = mesh.nodes[0]
    done, environment = slow_imports(lab)
    identity = submit(lab, node, {"train.py": "import slow\nprint('done')\n"}, f"{PYTHON} train.py", values("x", 0, 1, 2),
                      environment=environment)
    wait_until(lambda: warm(node) and warm(node)[0]["trials"] == 3, 30, "three trials to wait")
    first = warm(node)[0]["pid"]
    node.run("stop", f"{identity}/1")
    wait_until(lambda: show(mesh, identity)["trials"][1]["state"] == "stopped", 40, "the stop")
    wait_until(lambda: warm(node) and warm(node)[0]["pid"] != first and warm(node)[0]["trials"] == 2, 30, "another warm process")
    done.touch()
    final = wait_over(mesh, identity, 60)
    expect([(trial["state"], trial["attempt"]) for trial in final["trials"]] == [("completed", 1), ("stopped", 1), ("completed", 1)],
           f"{final['trials']}")
    logs = [log(node, identity, trial) for trial in (0, 2)]
    expect(all(text == "done\n" for text in logs), f"{logs}")


@case(limit_s=120)
def a_daemon_that_ends_during_imports_begins_the_trial_again(lab):
    """It costs an attempt, and none of the failures that max_restarts allows."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    done, environment = slow_imports(lab)
    identity = submit(lab, node, {"train.py": "import slow\nprint('done')\n"}, f"{PYTHON} train.py", values("x", 0, 1),
                      environment=environment, max_restarts=0)
    wait_until(lambda: warm(node) and warm(node)[0]["trials"] == 2, 30, "two trials to wait")
    process = warm(node)[0]["pid"]
    node.kill_daemon(signal.SIGKILL)
    wait_until(lambda: is_gone(process), 20, "the warm process to end with its daemon")
    node.start()
    done.touch()
    final = wait_over(mesh, identity, 80)
    expect([(trial["state"], trial["restarts"]) for trial in final["trials"]] == [("completed", 0), ("completed", 0)], f"{final['trials']}")
    logs = [log(node, identity, trial) for trial in (0, 1)]
    expect(all(text.endswith("done\n") and is_cold(text) is None for text in logs), f"{logs}")
    expect(not workers_of(node), "a worker is left")


@case(limit_s=120)
def imports_that_failed_are_tried_again_after_some_trials(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    packages, seen = lab.dir / "packages", lab.dir / "seen"
    packages.mkdir()
    (packages / "late.py").write_text(f"import os\nif not os.path.exists('{seen}'):\n    open('{seen}', 'w').close()\n    raise OSError('it is away')\n")
    identity = submit(lab, node, {"train.py": "import late\nprint('done')\n"}, f"{PYTHON} train.py", values("x", *range(11)),
                      environment={"warm": True, "variables": {"PYTHONPATH": packages.as_posix()}})
    final = wait_over(mesh, identity, 80)
    order = sorted(final["trials"], key=lambda trial: trial["started_s"])
    reasons = [is_cold(log(node, identity, trial["index"])) for trial in order]
    failed = "the import of late has failed (OSError: it is away)"
    expect(sum(reason is not None for reason in reasons) == 9, f"{reasons}")
    expect(sum(reason == failed for reason in reasons) == 1, f"{reasons}")
    for left in range(1, 8):
        expect(f"{failed}; after {left} more trials on this node its imports are tried again" in reasons, f"{left}: {reasons}")
    expect(f"{failed}; with the next trial on this node its imports are tried again" in reasons, f"{reasons}")


@case(limit_s=120)
def the_trials_of_a_searched_function_are_warm(lab):
    if subprocess.run([sys.executable, "-c", "import cloudpickle"], capture_output=True).returncode != 0:
        raise Skip("cloudpickle is not installed: apt-get install python3-cloudpickle")
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    own = lab.dir / "files"
    own.mkdir()
    (own / "beside.py").write_text("import fractions\nPLACE = __file__\n")

    def objective(run):
        import sys

        was_there = "colorsys" in sys.modules
        import beside
        import colorsys

        print("beside is", beside.PLACE, colorsys.__name__, flush=True)
        return {"loss": run.hparams["x"], "warm": float(was_there)}

    with command_of(node):
        experiment = shoal.search(objective, {"x": values("x", 1.0, 2.0, 3.0, 4.0)["x"]}, files=own, trials=4, wait=False, client=shoal.Client(node.dir))
    final = wait_over(mesh, experiment.id, 90)
    logs = [log(node, experiment.id, trial) for trial in range(4)]
    expect(not any(is_cold(text) for text in logs), f"a trial began cold: {logs}")
    expect([trial["metrics"]["validation"]["warm"] for trial in final["trials"]] == [1.0] * 4, f"colorsys was imported by each trial: {final['trials']}")
    expect(len({re.search("beside is (.*)", text)[1] for text in logs}) == 4, f"a module of the program comes from elsewhere: {logs}")


@case(limit_s=150, whole=True)
def an_idle_warm_process_ends_and_its_trials_go_on(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    done = lab.dir / "done"
    program = f"import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('{done}'):\n    time.sleep(0.05)\nprint('goes on')\n"
    identity = submit(lab, node, {"train.py": program}, f"{PYTHON} train.py", values("x", 0, 1))
    wait_until(lambda: "begun" in log(node, identity), 30, "the first trial")
    first = warm(node)[0]["pid"]
    wait_until(lambda: is_gone(first), 100, "the end of the idle process")
    expect(not warm(node) and len(workers_of(node)) == 1, "the trial has ended with its warm process")
    done.touch()
    wait_over(mesh, identity, 40)
    logs = [log(node, identity, trial) for trial in (0, 1)]
    expect(logs == ["begun\ngoes on\n"] * 2, f"the logs are {logs}")


@case(limit_s=120)
def a_killed_warm_process_costs_no_trial(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    identity = submit(lab, node, {"train.py": "import decimal, time\ntime.sleep(0.2)\nprint('done')\n"}, f"{PYTHON} train.py",
                      values("x", *range(16)), max_restarts=0)
    seen = []
    for _ in range(3):
        found = wait_until(lambda: [each["pid"] for each in warm(node) if each["state"] == "ready" and each["pid"] not in seen], 40,
                           "a warm process")
        seen += found
        os.kill(found[0], signal.SIGKILL)
    final = wait_over(mesh, identity, 80)
    expect(all(trial["attempt"] == 1 for trial in final["trials"]), f"a trial was begun again: {final['trials']}")
    logs = [log(node, identity, trial) for trial in range(16)]
    expect(all(text.endswith("done\n") and (is_cold(text) is None or is_cold(text).startswith("its warm process")) for text in logs), f"{logs}")


@case(limit_s=90)
def the_ranks_of_a_group_are_warm_too(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    node = mesh.nodes[0]
    program = "import os\nprint('rank', *(os.environ[name] for name in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'SHOAL_RANK')))\n"
    identity = submit(lab, node, {"train.py": program}, f"{PYTHON} train.py", values("x", 0, 1), resources={"slots_per_trial": 4})
    wait_over(mesh, identity, 60)
    for trial in (0, 1):
        logs = [node.run("logs", f"{identity}/{trial}", "--rank", str(rank)) for rank in range(4)]
        expect([text.split()[:2] + text.split()[3:] for text in logs] == [["rank", str(rank), "4", str(rank)] for rank in range(4)], f"{logs}")
