"""Checkpoints of Python programs: what did not change is not stored again."""

import json
import subprocess
from pathlib import Path

from lab import Skip, case, expect, wait_over

PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).resolve().parent / "programs" / "save_again.py"


@case(limit_s=120)
def an_array_that_did_not_change_is_not_stored_again(lab):
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode != 0:
        raise Skip(f"{PYTHON} has no NumPy")
    cache = Path(lab.build) / "CMakeCache.txt"
    if cache.exists() and "-fsanitize" in cache.read_text():
        raise Skip("the system's Python cannot open a library that was built for a sanitizer")
    mesh = lab.mesh(["alder"])
    node = mesh.nodes[0]
    identity = lab.submit(node, {
        "name": "saves", "entrypoint": f"exec {PYTHON} save_again.py {lab.dir}/log", "max_restarts": 0,
        "searcher": {"name": "single", "metric": "loss"}, "checkpoint": {"replicas": 1},
    }, {"save_again.py": PROGRAM.read_text()})
    wait_over(mesh, identity, 60)
    first, second = map(int, (lab.dir / "log").read_text().split())
    expect(first > 40_000_000, f"the first save has added {first} bytes")
    expect(second <= 0.12 * first, f"the second save has added {second} bytes, the first {first}")
    verified = json.loads(node.run("checkpoint", "verify", f"{identity}/0", "--json"))["checkpoints"][0]
    expect(verified["step"] == 100_000 and verified["holders"][0]["state"] == "ok", f"the second checkpoint: {verified}")
