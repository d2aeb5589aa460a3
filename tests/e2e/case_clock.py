"""Machines whose wall clocks are wrong: they join, they work, and what is told of it is which clock is off, and by how much."""

import shutil
import subprocess
from pathlib import Path

from lab import Refused, Skip, case, expect, wait_over, wait_until


def wrong_by(lab, offset):
    if "-fsanitize" in Path(lab.build, "CMakeCache.txt").read_text():
        raise Skip("a sanitizer's library has to be loaded first, and so has faketime's")
    if shutil.which("faketime") is None:
        raise Skip("faketime is not installed")
    return ["faketime", "-f", offset]


def join(lab, node, token):
    """What `shoal join` says on standard error."""
    done = subprocess.run([*node.wrap, f"{lab.build}/shoal", "join", token, "--name", node.name, "--dir", str(node.dir)],
                          capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Refused(done.returncode, done.stderr.strip())
    return done.stderr


def submit(lab, node):
    return lab.submit(node, {"name": "c", "entrypoint": "true", "searcher": {"name": "single", "metric": "loss"},
                             "resources": {"slots_per_trial": 2}})


@case(limit_s=90)
def the_clock_of_the_one_who_joins_does_not_judge_the_invite(lab):
    mesh = lab.mesh(["alder", "birch", "cedar", "dogwood"], start=False, slots="cpu:1")
    alder, birch, cedar, dogwood = mesh.nodes
    birch.wrap, cedar.wrap = wrong_by(lab, "+2d"), wrong_by(lab, "-1825d")
    alder.run("init", "--name", "lab")
    alder.start()
    for node, apart in ((birch, "2 d 0 h ahead of alder's"), (cedar, "1825 d 0 h behind alder's")):
        said = join(lab, node, alder.run("invite").split()[-1])
        expect(apart in said, f"{node.name} joins, and says {said!r}")
    expect(join(lab, dogwood, alder.run("invite").split()[-1]) == "", "a right clock is worth a line")


@case(limit_s=90)
def a_member_with_a_wrong_clock_works_and_its_invites_go_by_the_mesh(lab):
    mesh = lab.mesh(["alder", "birch", "cedar", "dogwood"], start=False, slots="cpu:1")
    alder, birch, cedar, dogwood = mesh.nodes
    birch.wrap = wrong_by(lab, "+730d")
    alder.run("init", "--name", "lab")
    alder.start()
    for node in (birch, cedar):
        join(lab, node, alder.run("invite").split()[-1])
        node.start()
    mesh.wait_alive(3)
    wait_over(mesh, submit(lab, birch), 40, viewer=alder)
    apart = "730 d 0 h"
    wait_until(lambda: f"birch's clock is {apart} ahead of this node's" in alder.run("nodes"), 20, "alder to know birch's clock")
    lines = wait_until(lambda: (text := birch.run("nodes")).count(f"{apart} behind this node's") == 2 and text, 20, "birch to know two clocks")
    expect("ahead" not in lines, f"birch says of the clocks: {lines}")
    expect(not any(word in cedar.run("nodes") for word in ("alder's clock is", "cedar's clock is")), "a right clock is shown")
    expect(f"{apart} ahead of most members'" in birch.run("status"), "birch does not say that its own clock is wrong")
    ahead = {row["name"]: row["clock_ahead_s"] for row in alder.json("nodes")["nodes"]}
    expect(ahead["alder"] is None and abs(ahead["cedar"]) < 10 and abs(ahead["birch"] - 730 * 86400) < 60, f"clocks {ahead}")

    made = birch.json("invite", "--expires", "1h")
    now = int(subprocess.run(["date", "+%s"], capture_output=True, text=True, check=True).stdout)
    expect(abs(made["expires_s"] - now - 3600) < 60, f"an invite of one hour ends {made['expires_s'] - now} s from now")
    join(lab, dogwood, made["token"])
    dogwood.start()
    mesh.wait_alive(4)
