"""The demo (tools/demo): a mesh of three on this machine, a random search, and the death of the coordinator."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from mesh import ROOT, Mesh, Refused, wait_until

BOLD, DIM, RED, GREEN, END = ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("",) * 5


def say(text=""):
    print(text, flush=True)


def metric(trial, group, name):
    return (trial.get("metrics") or {}).get(group, {}).get(name)


def number(value, form="{:.4f}"):
    return form.format(value) if value is not None else "-"


def parameters_of(trial):
    return ", ".join(f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}"
                     for name, value in trial["hyperparameters"].items())


def trial_line(trial, of_best):
    where = " ".join(f"{slot['node_name']}/{slot['index']}" for slot in trial.get("slots") or [])
    value = metric(trial, "validation", of_best)
    shown = "validation" if value is not None else "training"
    return (f"  trial {trial['index']}  {trial['state']:<10} attempt {trial['attempt'] or 0}  step {trial['step'] or 0:>6}  "
            f"{shown} {of_best} {number(metric(trial, shown, of_best))}  "
            f"{DIM}{parameters_of(trial)}{'  on ' + where if trial['state'] == 'running' else ''}{END}")


class Screen:
    """Shows the experiment: redrawn in place on a terminal, changes only in a pipe."""

    def __init__(self, of_best):
        self.of_best = of_best
        self.lines = 0
        self.shown = {}

    def show(self, mesh, experiment):
        counts = experiment["counts"]
        alive = ", ".join(f"{n.name}{'' if n.is_running() else RED + ' dead' + END}" for n in mesh.nodes)
        head = (f"{BOLD}{experiment['state']}{END}  nodes: {alive}  coordinator: {experiment['coordinator_name'] or '-'} "
                f"(term {experiment['term']})  trials: {counts['completed']} of {counts['total']} completed, "
                f"{counts['running']} running")
        if not sys.stdout.isatty():
            self.plain(head, experiment)
            return
        out = [head, *(trial_line(trial, self.of_best) for trial in experiment["trials"])]
        sys.stdout.write(f"\033[{self.lines}F" if self.lines else "")
        sys.stdout.write("".join(f"\033[2K{line}\n" for line in out))
        sys.stdout.flush()
        self.lines = len(out)

    def plain(self, head, experiment):
        if self.shown.get("head") != head:
            self.shown["head"] = head
            say(head)
        for trial in experiment["trials"]:
            key = (trial["state"], trial["attempt"], metric(trial, "validation", self.of_best))
            if self.shown.get(trial["index"]) != key and trial["state"] != "queued":
                self.shown[trial["index"]] = key
                say(trial_line(trial, self.of_best))

    def interrupt(self, text):
        self.lines = 0
        say(text)


def follow(mesh, identity, screen, limit_s):
    """Watches until the experiment is over; kills the coordinator's machine when some trials are done."""
    began = time.monotonic()
    killed = None
    while time.monotonic() - began < limit_s:
        viewer = next(node for node in mesh.nodes if node.is_running())
        try:
            experiment = viewer.json("show", identity)["experiment"]
        except Refused as error:
            screen.interrupt(f"{viewer.name}: {error.text}")
            time.sleep(0.5)
            continue
        screen.show(mesh, experiment)
        if experiment["state"] in ("completed", "failed", "cancelled"):
            return experiment, killed
        coordinator = experiment["coordinator_name"]
        half_way = experiment["counts"]["completed"] >= 2 and experiment["counts"]["running"] > 0
        if killed is None and half_way and coordinator:
            killed = coordinator
            mesh.by_name(coordinator).kill_machine()
            screen.interrupt(f"\n{RED}{BOLD}SIGKILL{END} to {coordinator}, which coordinates: its daemon, its workers, "
                             f"everything. Nobody is told.\n")
        time.sleep(0.5)
    return experiment, killed


def main():
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("--torch", action="store_true", help="search with PyTorch")
    parser.add_argument("--keep", action="store_true", help="leave the mesh running")
    arguments = parser.parse_args()
    example, file, options, of_best = "mlp-fashion", "random.yaml", [], "accuracy"
    if arguments.torch:
        example, file, of_best = "pytorch-shoal", "search.yaml", "loss"
        options = ["--set", "entrypoint=/usr/bin/python3 train.py --steps 400"]  # Debian's PyTorch, whichever python3 is first
    base = Path(tempfile.mkdtemp(prefix="shoal-demo-"))
    mesh = Mesh(base, ["alder", "birch", "cedar"], options=["--http", "127.0.0.1:7412"])
    code = 1
    try:
        say(f"{BOLD}==>{END} Three nodes in {base}: each with a key, ports, slots and a working tree of its own")
        mesh.start()
        say(mesh.nodes[0].run("nodes").rstrip())
        context = mesh.nodes[0].tree / "search"
        shutil.copytree(ROOT / "examples" / example, context, ignore=shutil.ignore_patterns("__pycache__", "shoal-runs"))
        say(f"\n{BOLD}==>{END} shoal submit {file}: 8 trials, each data-parallel over 2 workers")
        identity = mesh.nodes[0].run("submit", context / file, *options).split()[-1]
        shutil.rmtree(context)  # the mesh has its own copies
        for node in mesh.nodes:
            link = node.run("open", "--print", check=False).strip()
            say(f"  {node.name}'s dashboard, for one browser within a minute: {link}" if link else "")
        began = time.monotonic()
        experiment, killed = follow(mesh, identity, Screen(of_best), 480)
        seconds = time.monotonic() - began
        viewer = mesh.living()[0]
        say(f"\n{BOLD}==>{END} {experiment['state']} after {seconds:.0f} s"
            + (f", although {killed} died on the way; {experiment['coordinator_name']} took over" if killed else ""))
        say(f"\n{'trial':>5} {'state':<10} {'attempts':>8} {'steps':>7} {'validation':>10} {'test':>7}  hyperparameters")
        for trial in experiment["trials"]:
            say(f"{trial['index']:>5} {trial['state']:<10} {trial['attempt'] or 0:>8} {trial['step'] or 0:>7} "
                f"{number(metric(trial, 'validation', of_best)):>10} {number(metric(trial, 'test', of_best)):>7}  "
                f"{parameters_of(trial)}")
        best = experiment["best"]
        if best is not None:
            group = "validation" if arguments.torch else "test"
            value = metric(experiment["trials"][best["trial"]], group, of_best)
            say(f"\n{GREEN}{BOLD}Best: trial {best['trial']}, {group} {of_best} {number(value)}{END}")
        code = 0 if experiment["state"] == "completed" and killed is not None else 1
        say("\nLook further:")
        for command, what in (("open", identity), ("show", identity), ("metrics", f"{identity}/0"), ("logs", f"{identity}/0"),
                              ("checkpoint ls", identity), ("events", "")):
            say(f"  build/release/shoal {command} {what} --dir {viewer.dir}".replace("  --dir", " --dir"))
        if not arguments.keep:
            say(f"{DIM}(with tools/demo --keep; now the mesh is ended and removed){END}")
    except (Refused, TimeoutError) as error:
        say(f"{RED}The demo failed: {error}{END}")
        for node in mesh.nodes:
            if node.log.exists():
                say(f"--- {node.log}\n{node.log.read_text(errors='replace')[-1500:]}")
        say(f"The logs are in {base}.")
        mesh.end()
        return 1
    except KeyboardInterrupt:
        code = 130
    if arguments.keep:
        say(f"The mesh runs on in {base}; end it with: kill {' '.join(str(n.daemon.pid) for n in mesh.living())}")
    else:
        mesh.remove()
    return code


sys.exit(main())
