"""environment.requirements: the packages of a program, made ready on each node. The package index is a wheel in the context."""

import shutil
import tempfile
import zipfile
from pathlib import Path

from lab import case, expect, show, wait_over

PYTHON = "/usr/bin/python3"
REQUIREMENTS = "--no-index\n--find-links .\nshoaltiny==1.0\n"
WHEEL = "shoaltiny-1.0-py3-none-any.whl"


def wheel(directory):
    """Writes a package of one module that pip can install without a network."""
    info = "shoaltiny-1.0.dist-info"
    files = {"shoaltiny.py": "NUMBER = 42\n",
             f"{info}/METADATA": "Metadata-Version: 2.1\nName: shoaltiny\nVersion: 1.0\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(Path(directory) / WHEEL, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)


def submit(node, entrypoint, slots=1, requirements=REQUIREMENTS, **more):
    context = Path(tempfile.mkdtemp(prefix="context-", dir=node.tree))
    try:
        wheel(context)
        (context / "requirements.txt").write_text(requirements)
        (context / "logging.py").write_text("raise ImportError('a module of the program')\n")  # in the way of the standard library's
        lines = [f"entrypoint: {entrypoint}", f"resources: {{slots_per_trial: {slots}}}",
                 f"environment: {{requirements: requirements.txt, python: {PYTHON}}}", *(f"{key}: {value}" for key, value in more.items())]
        (context / "experiment.yaml").write_text("\n".join(lines))
        return node.run("submit", context / "experiment.yaml").split()[-1]
    finally:
        shutil.rmtree(context)


def environments(node):
    return sorted(path for path in (Path(node.dir) / "packages").glob("*") if path.is_dir())


@case(limit_s=120)
def a_script_runs_on_the_node_that_lacks_its_module(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    node = mesh.nodes[0]
    identity = submit(node, "python3 -c 'import os, shoaltiny; print(os.environ[\"VIRTUAL_ENV\"], shoaltiny.NUMBER)'", slots=2)
    wait_over(mesh, identity, 90)
    for rank in (0, 1):
        text = node.run("logs", f"{identity}/0", "--rank", str(rank))
        expect("makes the packages of requirements.txt ready" in text, f"pip's output is not in the log of rank {rank}: {text}")
        expect(text.rstrip().endswith(" 42"), f"rank {rank}: {text}")
    for each in mesh.nodes:
        expect(len(environments(each)) == 1, f"{each.name} has {environments(each)}")


@case(limit_s=120)
def two_experiments_share_one_environment_and_a_broken_one_is_made_anew(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    both = [submit(node, "python3 -c 'import shoaltiny'") for _ in range(2)]
    for identity in both:
        wait_over(mesh, identity, 60)
    logs = [node.run("logs", f"{identity}/0") for identity in both]
    expect(sum("shoal: makes the packages of" in text for text in logs) == 1, f"it was not made once: {logs}")
    (environments(node)[0] / "shoal-whole").unlink()
    again = submit(node, "python3 -c 'import shoaltiny'")
    wait_over(mesh, again, 60)
    expect("shoal: makes the packages of" in node.run("logs", f"{again}/0"), "the broken environment was used")


@case(limit_s=120)
def what_pip_says_is_the_end_of_the_trial_and_no_node_is_avoided(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    node = mesh.nodes[0]
    bad = submit(node, "python3 -c pass", requirements=REQUIREMENTS.replace("1.0", "2.0"), max_restarts=3)
    wait_over(mesh, bad, 90, "failed")
    trial = show(mesh, bad)["trials"][0]
    expect("shoaltiny==2.0" in trial["tail"] and "pip cannot install" in trial["tail"], f"show does not say it: {trial}")
    expect(trial["restarts"] <= 1, f"the same failure on two nodes was tried again: {trial}")
    avoided = [each["label"] for each in node.json("nodes")["nodes"] if each["quarantined"] is not None]
    expect(not avoided, f"{avoided} are in quarantine")
