"""What a worker prints: all of it is kept, however fast it comes."""

from lab import case, expect, wait_over


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
