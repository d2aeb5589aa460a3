"""examples/pytorch-shoal: the same networks as plain PyTorch and with `import shoal`, beside torchrun."""

import re
import shutil
import tempfile
from pathlib import Path

from case_environment import PYTHON, debian_hosts, has, of_rank, under_torchrun
from lab import Skip, case, expect, wait_over
from mesh import ROOT
from torch_venv import python_with

EXAMPLE = ROOT / "examples" / "pytorch-shoal"
STEPS = 100


def losses_of(text):
    """{step: loss} of the lines `step N loss X`."""
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}


def agree(lab, mesh, python, net):
    """Torchrun's losses, those of plain.py and those of train.py under Shoal: the same to a relative 1e-5."""
    context = Path(tempfile.mkdtemp(prefix=f"example-{net}-", dir=lab.dir))
    shutil.copytree(EXAMPLE, context, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    words = ["--net", net, "--steps", str(STEPS)]
    theirs = losses_of(under_torchrun(lab, mesh, python, context, 1, ["plain.py", *words]))
    expect(sorted(theirs) == list(range(1, STEPS + 1)), f"torchrun has the steps {sorted(theirs)}")
    files = {path.name: path.read_text() for path in EXAMPLE.glob("*.py")}
    for script in ("plain.py", "train.py"):
        identity = lab.submit(mesh.nodes[0], {"entrypoint": " ".join([python, script, *words]), "max_restarts": 5,
                                              "resources": {"slots_per_trial": 2}, "searcher": {"name": "single", "metric": "loss"}}, files)
        final = wait_over(mesh, identity, 150)["trials"][0]
        expect(sorted(slot["node_name"] for slot in final["slots"]) == ["alder", "birch"], f"not on both hosts: {final}")
        ours = losses_of(of_rank(mesh.nodes[0], identity, 0))
        worst = max((abs(ours.get(step, 9e9) - loss) / loss, step) for step, loss in theirs.items())
        expect(worst[0] <= 1e-5, f"{net}, {script}: step {worst[1]} is {ours.get(worst[1])}, under torchrun {theirs[worst[1]]}")
        if script == "train.py":
            expect(abs(final["metrics"]["validation"]["loss"] / theirs[STEPS] - 1) <= 1e-5 and final["checkpoint"]["step"] == STEPS,
                   f"what was reported and saved: {final}")


@case(limit_s=300, pairs=True)
def a_program_with_shoal_learns_as_the_plain_one_under_torchrun(lab):
    if not has(PYTHON, "torch.distributed"):
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    agree(lab, debian_hosts(lab, "cpu:1"), PYTHON, "mlp")


@case(limit_s=1500, whole=True)
def three_networks_learn_as_under_torchrun_with_old_and_new_pytorch(lab):
    if shutil.which("bible") is None:
        raise Skip("the text is missing: apt-get install bible-kjv")
    pythons = [PYTHON] if has(PYTHON, "torch.distributed") else []
    pythons.append(python_with())
    mesh = debian_hosts(lab, "cpu:1")
    for python in pythons:
        for net in ("mlp", "cnn", "gpt"):
            agree(lab, mesh, python, net)
            lab.note(f"{python}, {net}: as under torchrun")
