"""What programs leave: kept files outlive their worker, its node, the coordinator and the submitter."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from lab import Skip, case, expect, show, wait_over, wait_until
from look import workers_of
from mesh import ROOT

PYTHON = "/usr/bin/python3"
SCRIPTS = Path(__file__).parent / "scripts"


def submit(node, entrypoint, script, **more):
    """Submits a script of scripts/ from a context that is gone afterwards."""
    context = node.tree / f"context-{script}"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir()
    shutil.copy(SCRIPTS / script, context / script)
    config = {"name": script.split(".")[0].replace("_", "-"), "entrypoint": entrypoint, **more}
    (context / "experiment.yaml").write_text(json.dumps(config))
    identity = node.run("submit", context / "experiment.yaml").split()[-1]
    shutil.rmtree(context)
    return identity


def logs(node, identity):
    return node.run("logs", f"{identity}/0", check=False)


@case(limit_s=60)
def a_killed_program_goes_on_from_its_own_newest_file(lab):
    """A script that knows nothing of Shoal keeps checkpoints/; its process is killed, and its next attempt goes on."""
    mesh = lab.mesh(2, slots="cpu:1")
    alder = mesh.nodes[0]
    identity = submit(alder, f"{PYTHON} plain_save.py 25 0.3", "plain_save.py", keep=["checkpoints/"])
    wait_until(lambda: "epoch 12 is saved" in logs(alder, identity), 30, "twelve epochs")
    victims = [pid for pid, environment in workers_of(identity) if environment.get("RANK") == "0"]
    os.kill(max(victims), signal.SIGKILL)
    wait_over(mesh, identity, 40)
    log = logs(alder, identity)
    expect("goes on from checkpoints/epoch_" in log, f"the next attempt began anew: {log}")
