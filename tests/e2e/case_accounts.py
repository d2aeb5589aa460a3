"""Another account of a machine on which a node runs: what it finds open. docs/threats.md has the list."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from door import DOOR, Door
from lab import Skip, case, expect, wait_until
from mesh import processes_naming

HERE = Path(__file__).resolve().parent
OWNER, STRANGER = 31001, 31002  # accounts of no name and no group


def as_account(number):
    return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--"]


def of_account(number, pids):
    """Those of these processes that run under the account."""
    found = []
    for pid in pids:
        try:
            found += [pid] * (f"\nUid:\t{number}\t" in Path(f"/proc/{pid}/status").read_text())
        except OSError:
            pass  # it has ended
    return found


def attack(number, directory, pids, port):
    """What programs/other_account.py got at under an account: one sentence for each thing."""
    words = [*as_account(number), sys.executable, HERE / "programs" / "other_account.py", directory, str(port), *map(str, pids)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    expect(done.returncode == 0, f"the attack could not be tried: {done.stderr}")
    return json.loads(done.stdout)


@case(limit_s=120)
def another_account_of_the_machine_gets_at_nothing(lab):
    """Files, sockets, memory, environment and signals of a daemon, its door, and a group of two workers. The same attack under the
    node's own account succeeds, so that it is known to be one."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        raise Skip("two accounts take root and setpriv")
    mesh = lab.mesh(["alder"], start=False, slots="cpu:3", options=DOOR, wrap=as_account(OWNER))
    alder = mesh.nodes[0]
    for place in (lab.dir, *lab.dir.rglob("*")):
        os.chown(place, OWNER, OWNER)
        place.chmod(0o755)
    os.umask(0o022)
    mesh.start()
    subprocess.Popen([*alder.wrap, alder.bin / "shoal", "run", "--slots", "2", "--dir", alder.dir, "--", "shoal-train", "mlp"],
                     cwd=alder.tree, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: "running" in alder.run("ls"), 40, "a group of two")
    wait_until(lambda: len(of_account(OWNER, processes_naming(lab.dir))) >= 6, 20, "the daemon, its door, two keepers and two workers")
    pids = of_account(OWNER, processes_naming(lab.dir))
    port = Door(alder).port
    own = attack(OWNER, alder.dir, pids, port)
    for what in ("file", "socket", "environment", "memory", "signal"):
        expect(any(line.startswith(what) for line in own), f"the attack under the node's account got no {what}, but {len(own)} other things")
    got = attack(STRANGER, alder.dir, pids, port)
    expect(got == [], f"another account got at {got}")
    expect("running" in alder.run("ls"), "the attack has ended the group")
