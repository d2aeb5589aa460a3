"""A population without a configuration file, and the rounds that it has had: shoal run --searcher pbt, shoal rungs."""

import re
import subprocess

from lab import case, expect, show

# The higher x the worse; a child of a program that saves nothing begins anew, and trains up to the same length.
LOOP = 'for i in $(seq 60); do echo "::shoal metric validation loss=$2 step=$i"; sleep 0.1; done'


@case(limit_s=150)
def rounds_are_derived_for_a_run_and_shown_with_their_places(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    alder, birch = mesh.nodes
    (lab.dir / "code").mkdir()
    said = subprocess.run(
        [
            alder.bin / "shoal",
            "run",
            "--dir",
            alder.dir,
            "--context",
            lab.dir / "code",
            "--searcher",
            "pbt",
            "--metric",
            "loss",
            "--trials",
            "8",
            "--max-length",
            "9",
            "--set",
            "searcher.num_rounds=2",
            "--seed",
            "5",
            "--hp",
            "x=double:0.1:10",
            "--",
            "sh",
            "-c",
            LOOP,
            "loop",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    expect(said.returncode == 0, f"the run ended with {said}")
    [row] = alder.json("ls")["experiments"]
    trials = show(mesh, row["id"])["trials"]
    expect(len(trials) == 8 and {t["state"] for t in trials} == {"completed"}, f"the trials are {trials}")
    search = birch.json("rungs", row["id"])["search"]
    expect(
        [search[key] for key in ("population", "rounds", "length_per_round", "unit")] == [4, 2, 4, "steps"],
        f"the search is {search}",
    )
    members = {m["trial"]: m for m in search["members"]}
    order = sorted(range(4), key=lambda i: trials[i]["hyperparameters"]["x"])
    for place, trial in enumerate(order, 1):
        member = members[trial]
        parent = order[0] if trial == order[-1] else trial
        expect(
            [member[key] for key in ("round", "place", "parent", "next", "next_parent")]
            == [1, place, None, trial + 4, parent],
            f"{member}, of {order}",
        )
        expect(abs(member["metric"] - trials[trial]["hyperparameters"]["x"]) < 1e-6, f"{member}")
    expect(
        all(
            m["round"] == 2 and m["next"] is None and m["parent"] == members[t - 4]["next_parent"]
            for t, m in members.items()
            if t >= 4
        ),
        f"the second round is {members}",
    )
    lines = [line.split(None, 6) for line in birch.run("rungs", row["id"]).splitlines()]
    expect(lines[0][:4] == ["ROUND", "steps", "PLACE", "TRIAL"], f"the head is {lines[0]}")
    expect(
        [line[:4] for line in lines[1:5]] == [["1", "4", str(i + 1), str(t)] for i, t in enumerate(order)],
        f"the first round is {lines}",
    )
    expect(
        lines[4][6] == f"replaced by {order[3] + 4}, a copy of {order[0]}" and lines[1][6] == f"goes on as {order[0] + 4}",
        f"the first round is {lines}",
    )
    expect(re.fullmatch(r"-\s*", lines[5][6]) is not None, f"the last round goes on: {lines[5]}")
