"""The Debian package on machines that have nothing yet. (tests/package_test.py looks into it.)"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from lab import Skip, case, expect, wait_over

ROOT = Path(__file__).resolve().parents[2]


def mirror():
    """Where this machine's own packages come from."""
    for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) +(\S+)", path.read_text(), re.MULTILINE) if path.exists() else None
        if found:
            return found[1]
    raise Skip("this machine names no mirror of Debian")


@case(limit_s=600, whole=True)
def a_program_of_an_environment_with_the_wheel_reports_and_saves(lab):
    """The wheel needs no network and no compiler; its libshoal is the one that the program opens."""
    done = subprocess.run(["ninja", "-C", lab.build, "libshoal_wheel"], capture_output=True, text=True, timeout=400)
    expect(done.returncode == 0, done.stdout[-1500:])
    made = subprocess.run([ROOT / "tools/package", "--wheel", "--build", lab.build, "--out", lab.dir], capture_output=True, text=True,
                          timeout=60)
    expect(made.returncode == 0, made.stderr)
    python = lab.dir / "venv/bin/python"
    for words in [["/usr/bin/python3", "-m", "venv", lab.dir / "venv"], [python, "-m", "pip", "install", "-q", "--no-index", made.stdout.strip()]]:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        expect(done.returncode == 0, f"{words}: {done.stderr[-1500:]}")
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    program = ("import shoal; run = shoal.init(); run.report({'loss': 1.0}, step=3, group='validation'); run.save({'a': 1}, step=3); "
               "run.flush(); print(shoal.__file__, run._link._library._name)")
    identity = lab.submit(node, {"entrypoint": f'env -u PYTHONPATH {python} -c "{program}"', "searcher": {"name": "single", "metric": "loss"}})
    trial = wait_over(mesh, identity, 60)["trials"][0]
    said = node.run("logs", f"{identity}/0")
    expect(said.count(str(lab.dir / "venv")) == 2 and trial["metrics"]["validation"]["loss"] == 1.0 and trial["checkpoint"]["step"] == 3,
           f"{said} {trial}")


@case(limit_s=5400, whole=True)
def the_package_installs_runs_and_goes_in_bare_roots(lab):
    if os.geteuid() != 0 or shutil.which("debootstrap") is None or shutil.which("dpkg-deb") is None:
        raise Skip("needs root, debootstrap and dpkg-deb")
    made = subprocess.run([ROOT / "tools/package", "--build", lab.build, "--out", lab.dir], capture_output=True, text=True, timeout=300)
    expect(made.returncode == 0, made.stderr)
    for suite in ("bookworm", "trixie"):
        root = lab.dir / suite
        subprocess.run(["debootstrap", "--variant=minbase", suite, root, mirror()], capture_output=True, timeout=600, check=True)
        tried = subprocess.run([ROOT / "tools/package", "--try", root, made.stdout.strip()], capture_output=True, text=True, timeout=1900)
        lab.note(tried.stdout)
        expect(tried.returncode == 0, f"in {suite}: {tried.stdout[-1500:]}{tried.stderr[-1500:]}")
        shutil.rmtree(root)
