"""The Debian package on machines that have nothing yet. (tests/package_test.py looks into it.)"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from lab import Skip, case, expect

ROOT = Path(__file__).resolve().parents[2]


def mirror():
    """Where this machine's own packages come from."""
    for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) +(\S+)", path.read_text(), re.MULTILINE) if path.exists() else None
        if found:
            return found[1]
    raise Skip("this machine names no mirror of Debian")


@case(limit_s=1500, whole=True)
def the_package_installs_runs_and_goes_in_bare_roots(lab):
    if os.geteuid() != 0 or shutil.which("debootstrap") is None or shutil.which("dpkg-deb") is None:
        raise Skip("needs root, debootstrap and dpkg-deb")
    made = subprocess.run([ROOT / "tools/package", "--build", lab.build, "--out", lab.dir], capture_output=True, text=True, timeout=300)
    expect(made.returncode == 0, made.stderr)
    for suite in ("bookworm", "trixie"):
        root = lab.dir / suite
        subprocess.run(["debootstrap", "--variant=minbase", suite, root, mirror()], capture_output=True, timeout=600, check=True)
        tried = subprocess.run([ROOT / "tools/package", "--try", root, made.stdout.strip()], capture_output=True, text=True, timeout=600)
        lab.note(tried.stdout)
        expect(tried.returncode == 0, f"in {suite}: {tried.stdout[-1500:]}{tried.stderr[-1500:]}")
        shutil.rmtree(root)
