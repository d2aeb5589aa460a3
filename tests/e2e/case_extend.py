"""Searches that go on: what a program sees of its budget, and further trials for an experiment that runs or is over."""

from case_search import search
from lab import case, expect, wait_over


@case(limit_s=120)
def a_program_sees_how_far_its_trial_may_go(lab):
    """By run.until and by variables; a program of an experiment without rungs may go as far as it likes."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    told = ("echo rungs=$SHOAL_RUNGS unit=$SHOAL_RUNG_UNIT; python3 -c 'import shoal; run = shoal.init(); "
            "print([run.until(step) for step in (0, 1, 2.5, 3, 9, 12)])'")
    early = search(lab, 2, max_length={"epochs": 9})
    early["entrypoint"] = told
    early["searcher"]["max_concurrent_trials"] = 2
    identity = lab.submit(node, early)
    wait_over(mesh, identity, 60)
    lines = node.run("logs", f"{identity}/1").splitlines()
    expect("rungs=1 3 9 unit=epochs" in lines and "[1, 3, 3, 9, 9, 9]" in lines, f"the program wrote {lines}")
    other = lab.submit(node, {"name": "alone", "entrypoint": told})
    wait_over(mesh, other, 60)
    lines = node.run("logs", f"{other}/0").splitlines()
    expect("rungs= unit=" in lines and "[None, None, None, None, None, None]" in lines, f"the program wrote {lines}")
