"""An ordinary PyTorch DDP script, without any code of Shoal, on two slots of two nodes."""

import os
import shutil
import signal
import subprocess

from lab import Skip, case, expect, show, wait_over, wait_until
from look import workers_of
from mesh import ROOT

PYTHON = "/usr/bin/python3"


def is_python(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python3")
    except OSError:
        return False


@case(limit_s=180)
def pytorch_ddp_restarts_when_a_rank_dies(lab):
    """Torchrun's environment variables suffice; a killed rank restarts the attempt; the experiment completes."""
    if subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True).returncode != 0:
        raise Skip("PyTorch is not installed: tools/setup --torch installs it")
    mesh = lab.mesh(2, slots="cpu:1")
    alder = mesh.nodes[0]
    context = alder.tree / "ddp"
    shutil.copytree(ROOT / "examples" / "pytorch-ddp", context, ignore=shutil.ignore_patterns("__pycache__"))
    identity = alder.run("submit", context / "ddp.yaml", "--set", f"entrypoint={PYTHON} train.py --epochs 2").split()[-1]
    shutil.rmtree(context)

    wait_until(lambda: "rank 0 of 2 begins" in alder.run("logs", f"{identity}/0", check=False), 60, "training to begin")
    first = show(mesh, identity)["trials"][0]
    expect(first["attempt"] == 1, f"this is not the first attempt any more: {first}")
    expect(sorted(slot["node_name"] for slot in first["slots"]) == ["alder", "birch"], f"not one slot of each node: {first}")
    victims = [pid for pid, environment in workers_of(identity) if environment.get("RANK") == "1" and is_python(pid)]
    expect(len(victims) == 1, f"processes that are rank 1: {victims}")
    os.kill(victims[0], signal.SIGKILL)
    wait_until(lambda: (show(mesh, identity)["trials"][0]["attempt"] or 0) >= 2, 60, "a second attempt")
    last = wait_over(mesh, identity, 120)["trials"][0]
    expect(last["attempt"] == 2 and last["restarts"] == 1, f"not completed by the second attempt: {last}")
    log = alder.run("logs", f"{identity}/0")
    accuracies = [float(line.split()[-1]) for line in log.splitlines() if "epoch 2 loss" in line]
    expect(len(accuracies) == 1 and accuracies[0] > 0.8, f"accuracies in the log: {accuracies}")
