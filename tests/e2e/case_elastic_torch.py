"""Elastic PyTorch programs on real daemons: they learn as PyTorch's own DistributedDataParallel, and go on when slots are
withheld and nodes join."""

import re
import shutil
import subprocess
from pathlib import Path

from case_elastic import generation_of, steps_of_all
from case_environment import has, of_rank
from case_examples import EXAMPLE, STEPS, losses_of
from case_owners import slots_of
from case_python import PYTHON, refuse_sanitizers
from lab import Skip, case, expect, step_log, wait_over, wait_until
from mesh import ROOT, Node
from torch_venv import python_with

PROGRAMS = Path(__file__).resolve().parent / "programs"
PAUSE_S = 60  # a rank imports PyTorch before it joins


def debians():
    if not has(PYTHON, "torch.distributed"):
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    return PYTHON


def train(lab, mesh, python, words, ranks, **resources):
    """The losses of an example's script with so many ranks, by steps."""
    files = {path.name: path.read_text() for path in [*EXAMPLE.glob("*.py"), PROGRAMS / "plain_in_order.py"]}
    identity = lab.submit(mesh.nodes[0], {"entrypoint": f"exec {python} {words} --steps {STEPS}", "max_restarts": 5,
                                          "resources": {"slots_per_trial": ranks, **resources},
                                          "searcher": {"name": "single", "metric": "loss"}}, files)
    wait_over(mesh, identity, 200)
    return losses_of(of_rank(mesh.nodes[0], identity, 0))


def compare(lab, what, ours, theirs, limit):
    expect(sorted(theirs) == list(range(1, STEPS + 1)), f"{what}: the plain program has the steps {sorted(theirs)}")
    worst = max((abs(ours.get(step, 9e9) - loss) / loss, step) for step, loss in theirs.items())
    expect(worst[0] <= limit, f"{what}: step {worst[1]} is {ours.get(worst[1])}, plainly {theirs[worst[1]]}")
    lab.note(f"{what}: at most {worst[0]:.1e} apart")


def agree(lab, mesh, python, net, sizes):
    """elastic.py has the losses of plain.py, to a relative 1e-5. Sums of more than two gradients depend on their order, which is
    another in gloo: there plain.py with Shoal's order is the one that is equal. PyTorch's own losses with that order are as far from
    gloo's, those of the convolutional network 1.3e-5 after 100 steps."""
    for ranks in sizes:
        what = f"{python}, {net}, {ranks} ranks"
        ours = train(lab, mesh, python, f"elastic.py --net {net}", ranks, min_slots=ranks, max_slots=ranks)
        theirs = train(lab, mesh, python, f"plain.py --net {net}", ranks)
        compare(lab, what, ours, theirs, 1e-5 if ranks <= 2 else 3e-5)
        if ranks > 2:
            in_order = train(lab, mesh, python, f"plain_in_order.py --net {net}", ranks)
            compare(lab, f"{what}, summed in order", ours, in_order, 1e-5)


@case(limit_s=300, pairs=True)
def an_elastic_program_learns_as_the_plain_one(lab):
    refuse_sanitizers(lab)
    python = debians()
    agree(lab, lab.mesh(["alder", "birch"], slots="cpu:1"), python, "mlp", [2])


@case(limit_s=3600, whole=True)
def three_elastic_programs_learn_as_the_plain_ones_with_old_and_new_pytorch(lab):
    """One, two and four ranks, of two on each node."""
    refuse_sanitizers(lab)
    if shutil.which("bible") is None:
        raise Skip("the text is missing: apt-get install bible-kjv")
    mesh = lab.mesh(["alder", "birch"], slots="cpu:2")
    for python in ([PYTHON] if has(PYTHON, "torch.distributed") else []) + [python_with()]:
        for net in ("mlp", "cnn", "gpt"):
            agree(lab, mesh, python, net, [1, 2, 4])


@case(limit_s=1500, whole=True)
def the_tests_of_elastic_runs_pass_with_new_pytorch(lab):
    """Those that ctest runs with Debian's: deaths at each moment of a step, joins, and all that PyTorch's wrapper can do."""
    refuse_sanitizers(lab)
    done = subprocess.run([python_with("numpy"), "-B", "-m", "unittest", "test_elastic"], cwd=ROOT / "train" / "python" / "tests",
                          env={"SHOAL_LIBRARY": f"{lab.build}/libshoal.so.0", "PATH": "/usr/bin:/bin", "HOME": str(lab.dir)},
                          capture_output=True, text=True, timeout=1400)
    expect(done.returncode == 0, done.stderr[-4000:])
    lab.note(done.stderr.strip().splitlines()[-1])


def beginnings(node, identity, ranks):
    """(step, epoch, step of Adam, of the scheduler, whether the generator is right) of each rank that has begun."""
    texts = {node.run("logs", f"{identity}/0", "--rank", str(rank), check=False) for rank in range(ranks)}
    lines = {line for text in texts for line in re.findall(r"BEGINS (\d+) (\d+) (\d+) (\d+) (True|False)", text)}
    return [(*map(int, line[:4]), line[4] == "True") for line in lines]


def shrink_and_grow(lab, python):
    """Two ranks; a node joins and brings a third; a slot is withheld, and given back: the first attempt, the group's state, and
    each sample of each epoch once."""
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    alder, birch = mesh.nodes
    log, gate = lab.dir / "steps", lab.dir / "gate"
    identity = lab.submit(alder, {
        "entrypoint": f"{step_log(log)} exec {python} elastic_train.py {gate} 60", "searcher": {"name": "single", "metric": "loss"},
        "resources": {"slots_per_trial": 2, "min_slots": 1, "max_slots": 3},
    }, {"elastic_train.py": (PROGRAMS / "elastic_train.py").read_text()})
    pair = wait_until(lambda: generation_of(log, identity, 2), PAUSE_S, "two to train")
    mesh.add(Node(mesh.base, "cedar", slots="cpu:1", build=lab.build))
    three = wait_until(lambda: generation_of(log, identity, 3, after=pair), PAUSE_S, "a third to join them")
    birch.json("withhold", "0")
    wait_until(lambda: slots_of(alder, "birch") == {0: "withheld"}, PAUSE_S, "the slot to be withheld")
    rest = wait_until(lambda: generation_of(log, identity, 2, after=three), PAUSE_S, "two to go on")
    birch.run("withhold", "--return")
    wait_until(lambda: generation_of(log, identity, 3, after=rest), PAUSE_S, "three to train again")
    gate.touch()
    final = wait_over(mesh, identity, 120)["trials"][0]
    expect(final["attempt"] == 1, f"attempt {final['attempt']} completed, not the first")
    sizes = {step.generation: step.size for step in steps_of_all(log, identity, 4)}
    begun = sorted(beginnings(alder, identity, 4))
    lab.note(f"sizes by generation {sizes}, begun (step, epoch, Adam's, the scheduler's, generator) {begun}")
    expect(begun[0][0] == 0 and begun[-1][0] > 0, f"who joins begins where the group is: {begun}")
    wrong = [each for each in begun if each[0] not in range(20 * each[1], 20 * each[1] + 21) or {each[0], True} != set(each[2:])]
    expect(not wrong, f"not the state of that step (step, epoch, Adam's, the scheduler's, generator): {wrong}")
    done = subprocess.run([alder.bin / "shoal-train", "ledger", "--samples", "480", *log.parent.glob(f"{log.name}.*")],
                          capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, done.stderr)
    lab.note(done.stdout.strip())


@case(limit_s=300, pairs=True)
def a_pytorch_group_grows_by_a_node_and_gives_a_slot_back(lab):
    shrink_and_grow(lab, debians())


@case(limit_s=300, pairs=True, whole=True)
def a_group_of_new_pytorch_grows_by_a_node_and_gives_a_slot_back(lab):
    shrink_and_grow(lab, python_with())
