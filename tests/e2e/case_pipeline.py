"""examples/pytorch-pipeline: a network in two stages on two hosts, whose checkpoints are in parts."""

import re

from case_environment import debian_hosts
from case_python import refuse_sanitizers
from lab import case, expect, show, wait_over, wait_until
from mesh import ROOT
from torch_venv import python_with

STEPS = 160


def losses_of(text):
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}


@case(limit_s=600, whole=True)
def a_pipeline_over_two_hosts_goes_on_from_the_parts_of_its_stages(lab):
    """The host of the second stage dies; both stages go on from the newest checkpoint of which both parts are held, the second on the third
    host. The losses are those of the whole network on one slot."""
    refuse_sanitizers(lab)
    python = python_with("numpy")
    mesh = debian_hosts(lab, "cpu:1", ("alder", "birch", "cedar"))
    for node in mesh.nodes:
        wait_until(lambda node=node: node.json("status")["slots_free"] == 3, 60, f"three free slots as {node.name} sees it")
    program = (ROOT / "examples" / "pytorch-pipeline" / "train.py").read_text()
    slow = program.replace("    stops = ", "    __import__('time').sleep(0.05)\n    stops = ")  # so that there is time for a death

    def submit(slots, text):
        return lab.submit(mesh.nodes[0], {
            "name": f"stages-{slots}", "entrypoint": f"exec {python} train.py --width 64 --save-every 20 --steps {STEPS}",
            "hyperparameters": {"lr": 0.001}, "resources": {"slots_per_trial": slots}, "searcher": {"name": "single", "metric": "loss"},
            "max_restarts": 5, "seed": 1}, {"train.py": text})

    whole = submit(1, program)
    wait_over(mesh, whole, 120)
    wanted = losses_of(mesh.nodes[0].run("logs", f"{whole}/0"))
    expect(sorted(wanted) == list(range(10, STEPS + 1, 10)), f"on one slot there are the steps {sorted(wanted)}")
    identity = submit(2, slow)
    trial = wait_until(lambda: (lambda shown: shown if (shown["checkpoint"] or {}).get("durable") and shown["step"] >= 50 else None)(
        show(mesh, identity)["trials"][0]), 120, "a durable checkpoint of both stages")
    hosts = [slot["node_name"] for slot in trial["slots"]]
    expect(len(set(hosts)) == 2, f"the stages are on {hosts}")
    mesh.by_name(hosts[1]).kill_machine()
    lab.note(f"killed {hosts[1]}, with the second stage, at step {trial['step']}")
    final = wait_over(mesh, identity, 150)["trials"][0]
    expect(final["attempt"] == 2 and final["checkpoint"]["step"] == STEPS, f"it ended so: {final}")
    node = mesh.living()[0]
    begun = [int(step) for step in re.findall(r"stage \d of 2 begins at step (\d+)", node.run("logs", f"{identity}/0", "--attempt", "2"))]
    expect(len(begun) == 2 and begun[0] == begun[1] >= 20 and begun[0] % 20 == 0, f"the stages began again at the steps {begun}")
    found = losses_of(node.run("logs", f"{identity}/0", "--rank", "0", "--attempt", "2"))
    expect(sorted(found) == list(range(begun[0] + 10 - begun[0] % 10, STEPS + 1, 10)), f"the second attempt has the steps {sorted(found)}")
    worst = max((abs(found[step] - wanted[step]) / wanted[step], step) for step in found)
    expect(worst[0] <= 1e-5, f"step {worst[1]} has the loss {found[worst[1]]}, and on one slot {wanted[worst[1]]}")
    lab.note(f"began again at step {begun[0]}; the worst difference of a loss is {worst[0]:.1e}")
