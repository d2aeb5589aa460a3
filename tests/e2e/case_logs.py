"""What a worker prints: all of it is kept, however fast it comes."""

import subprocess

from lab import case, expect, over, wait_over, wait_until


@case(limit_s=60)
def the_end_of_a_long_log_is_kept(lab):
    """Ten megabytes in less than a second or two, and the end at once behind them."""
    lines = 1_400_000
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "talker", "entrypoint": f"seq 1 {lines}; echo the last words",
                                 "searcher": {"name": "single", "metric": "accuracy"}})
    wait_over(mesh, identity, 40)
    said = node.run("logs", f"{identity}/0").splitlines()
    numbers = [line for line in said if line.isdigit()]
    expect(said[-1].endswith("the last words"), f"the end is lost: {said[-1][:80]}")
    expect(len(said) == lines + 1, f"{len(said)} of {lines + 1} lines, {len(numbers)} of them numbers")
    return f"{sum(len(line) + 1 for line in said) / 1e6:.1f} MB"


@case(limit_s=90)
def who_cannot_be_reached_is_named_where_nobody_else_has_what_was_said(lab):
    """birch ran it, and one of the two others has a copy: asked alone, that one has everything and the other one says what it lacks."""
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.slots, birch.slots, cedar.slots = "none", "cpu:1", "none"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": "echo the last words", "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40)
    wait_until(lambda: all(over(node.json("show", identity)["experiment"]) for node in mesh.nodes), 20, "all to know its end")
    birch.kill_daemon()
    silent = []
    for asked, other in ((alder, cedar), (cedar, alder)):
        other.kill_daemon()
        said = subprocess.run([asked.bin / "shoal", "logs", f"{identity}/0", "--dir", asked.dir], capture_output=True, text=True, timeout=60)
        expect(said.returncode == 0, f"{asked.name}: {said}")
        has_all, lacks = "the last words" in said.stdout, "what only birch may have is not shown" in said.stderr
        expect(has_all != lacks, f"{asked.name}: {said}")
        silent += [] if has_all else [asked.name]
        other.start()
    expect(len(silent) == 1, f"two of three nodes are to have a copy; these have none: {silent}")
