"""Profiles of trials: what their ranks use, where the time of their steps goes, and traces of a few steps of all ranks."""

import json

from case_python import PYTHON, refuse_sanitizers
from lab import case, expect, wait_over, wait_until

BUSY_AND_IDLE = """import os, time
import shoal
run = shoal.init()
room = bytearray(os.urandom(1 << 20) * (200 if run.rank == 0 else 1))
began, step = time.monotonic(), 0
while time.monotonic() - began < 9:
    step += 1
    until = time.monotonic() + 0.05
    while run.rank == 0 and time.monotonic() < until:
        pass
    if run.rank == 1:
        time.sleep(0.05)
    run.report({"loss": step}, step=step)
"""


def profile(node, identity, *more):
    """The points of a trial's profile, by group and name."""
    found = {}
    for point in node.json_lines("metrics", f"{identity}/0", "--profile", *more):
        for name, value in point["metrics"].items():
            found.setdefault(f"{point['group']}/{name}", []).append(value)
    return found


@case(limit_s=90, pairs=True)
def a_profile_tells_a_busy_rank_from_an_idle_one(lab):
    refuse_sanitizers(lab)
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    identity = lab.submit(mesh.nodes[0], {"name": "profile", "entrypoint": f"exec {PYTHON} busy.py", "resources": {
        "slots_per_trial": 2}, "searcher": {"name": "single", "metric": "loss"}}, {"busy.py": BUSY_AND_IDLE})
    wait_over(mesh, identity, 60)
    for node in mesh.nodes:
        seen = profile(node, identity)
        busy, idle = seen["system/rank0/cpu_percent"], seen["system/rank1/cpu_percent"]
        expect(max(busy) > 3 * max(idle) and 1 < max(busy) < 150, f"percent of a processor: {busy}, {idle}")
        memory = max(seen["system/rank0/memory_bytes"]), max(seen["system/rank1/memory_bytes"])
        expect(memory[0] > memory[1] + (100 << 20) and memory[1] > 1 << 20, f"resident bytes: {memory}")
        for name in ("disk_read_bytes_s", "disk_written_bytes_s", "network_sent_bytes_s", "network_received_bytes_s"):
            expect(all(value >= 0 for value in seen[f"system/rank0/{name}"]), f"{name}: {seen}")
        steps = seen["time/rank0/step_s"]
        expect(steps and all(0.04 < value < 5 for value in steps), f"seconds of a step of at least 0.05 s: {steps}")
    plain = mesh.nodes[0].json_lines("metrics", f"{identity}/0")
    expect({point["group"] for point in plain} == {"training"}, "the profile is among the reported metrics")
    row = mesh.nodes[0].run("show", identity, "--json")
    expect("cpu_percent" not in row, "the profile is in show")
    sums = mesh.nodes[1].json_lines("metrics", f"{identity}/0", "--profile", "--points", "2")
    cpu = [each for each in sums if "rank0/cpu_percent" in each["metrics"]]
    expect(cpu and all(each["metrics"]["rank0/cpu_percent"]["max"] > 0 for each in cpu), f"sums of the profile: {sums}")
    counts = [json.loads(mesh.nodes[0].run("tensorboard", identity, "--json", "--logdir", str(lab.dir / word), *more))["points"]
              for word, more in (("board", []), ("board-profile", ["--profile"]))]
    expect(counts[1] > counts[0], f"points for TensorBoard without and with the profile: {counts}")
