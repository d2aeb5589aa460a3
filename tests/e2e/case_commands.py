"""Every command about searches and their trials: what it says as JSON, and what stands of it in the manual page."""

import csv
import io
import json
import re

from case_completion import commands_of
from lab import Refused, case, expect, show, wait_over, wait_until
from look import refusal
from mesh import ROOT

PROGRAM = (
    'for step in 1 2 3; do echo "::shoal metric validation loss=0.$SHOAL_TRIAL$step accuracy=0.5 step=$step"; done; '
    "echo trial $SHOAL_TRIAL is done; [ ! -e wait ] || exec sleep 600"
)


def search(called, trials=3, **more):
    return {
        "name": called,
        "entrypoint": ["sh", "-c", PROGRAM],
        "metrics_from_output": True,
        "max_restarts": 0,
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": trials, **more},
    }


def documents(node, *words):
    """What a command says with --json: one document, or one a line."""
    text = node.run(*words, "--json")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


@case(limit_s=200)
def every_command_of_a_search_speaks_json(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    alder, birch = mesh.nodes
    first, second = lab.submit(alder, search("first")), lab.submit(birch, search("second", trials=2))
    halving = lab.submit(alder, search("halving", trials=4, name="adaptive_asha", max_time=3, divisor=3))
    for identity in (first, second, halving):
        wait_over(mesh, identity, 60)
        wait_until(
            lambda identity=identity: all(
                any(row["id"] == identity for row in node.json("ls")["experiments"]) for node in mesh.nodes
            ),
            20,
            "both to know it",
        )
    live = lab.submit(alder, search("live", trials=2), {"wait": ""})
    wait_until(lambda: all(trial["state"] == "running" for trial in show(mesh, live)["trials"]), 30, "the last one to run")
    file = lab.dir / "preview.yaml"
    file.write_text(json.dumps(search("preview")))
    trial = f"{first}/0"
    table = {
        ("preview", file): "hyperparameters",
        ("ls", "--state", "completed", "--sort=-best"): "experiments",
        ("show", first): "experiment",
        ("show", trial): "trial",
        ("why", trial): "why",
        ("rungs", halving): "search",
        ("compare", first, second): "rows",
        ("config", first): "config",
        ("metrics", trial): "metrics",
        ("metrics", first, "--points", "2"): "metrics",
        ("logs", trial, "--tail", "1"): "text",
        ("logs", trial, "--grep", "done", "--since", "1h", "--rank", "0"): "text",
        ("label", first, "kind=quick"): "stored_on",
        ("describe", first, "a try"): "stored_on",
        ("describe", trial, "a note"): "stored_on",
        ("archive", second): "stored_on",
        ("unarchive", second): "stored_on",
        ("pin", second): "stored_on",
        ("unpin", second): "stored_on",
        ("code", first, lab.dir / "code"): "directory",
        ("fork", first, "--set", "name=forked"): "experiment",
        ("reproduce", trial): "experiment",
        ("extend", second, "--max-trials", "3"): "stored_on",
        ("set", live, "priority=7"): "stored_on",
        ("set", live, "max_trials=3"): "stored_on",
        ("set", live, "max_slots=1"): "stored_on",
        ("stop", f"{live}/0"): "stored_on",
        ("wait", first): "state",
        ("watch", first): "experiment",
        ("slots",): "slots",
        ("queue",): "queue",
        ("usage", "--by", "user,day"): "usage",
        ("top",): "slots",
        ("checkpoint", "ls", first): "checkpoints",
        ("pause", live): "stored_on",
        ("resume", live): "stored_on",
        ("cancel", live): "stored_on",
        ("delete", live): "stored_on",
    }
    wrong = []
    for words, key in table.items():
        try:
            said = documents(alder, *words)
        except (Refused, ValueError) as error:
            said = [str(error)]
        if not said or key not in said[-1]:
            wrong.append(f"shoal {' '.join(map(str, words))} --json has no {key}: {said}")
    expect(not wrong, "\n".join(wrong))
    expect(alder.json("wait", first)["state"] == "completed", "wait tells no state")


@case(limit_s=120)
def experiments_are_found_and_compared_as_tables(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    alder, birch = mesh.nodes
    first, second = lab.submit(alder, search("first")), lab.submit(alder, search("second", trials=2))
    for identity in (first, second):
        wait_over(mesh, identity, 60)
    wait_until(lambda: len(birch.json("ls")["experiments"]) == 2, 20, "birch to know both")

    def listed(*words):
        return [
            row["name"] for row in csv.DictReader(io.StringIO(birch.run("ls", "--csv", "--columns", "name,trials", *words)))
        ]

    expect(
        listed("--since", "1h", "--sort=-total") == ["first", "second"] and listed("--since", "2099-01-01") == [],
        "--since finds others",
    )
    expect(
        listed("--state", "completed,running", "--sort", "name") == ["first", "second"]
        and listed("--state", "failed") == [],
        "--state finds others",
    )
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(birch.run("compare", first, second, "--csv")))}
    expect(rows["searcher.max_trials"] == ["3", "2"] and "entrypoint" not in rows, f"compare has {rows}")
    same = lab.submit(birch, {**search("first", trials=1), "resources": {"slots_per_trial": 2}})
    wait_over(mesh, same, 60)
    named = birch.run("compare", first, same).splitlines()
    expect(f"first/0 ({first[:8]})" in named[0] or f"first ({first[:8]})" in named[0], f"columns of one name are not told apart: {named[0]}")
    expect(any(line.startswith("slots ") and "2 x " in line for line in named), f"slots of one model are not counted: {named}")
    whole = {row[0]: row[1:] for row in csv.reader(io.StringIO(birch.run("compare", first, second, "--csv", "--all")))}
    expect(whole["searcher.metric"] == ["loss", "loss"], f"compare --all has {whole}")
    for words in (("ls", "--since", "soon"), ("ls", "--columns", "colour"), ("ls", "--state", "asleep")):
        refusal(birch, *words, code=2)
    order = [
        line.split()[0]
        for line in birch.run("show", first, "--sort=-best", "--columns", "trial,best").splitlines()
        if re.match(r"[*\s]*\d", line)
    ]
    expect([name.strip("*") for name in order] == ["2", "1", "0"], f"show --sort=-best has the trials {order}")


@case(limit_s=60)
def the_manual_page_has_every_command_with_its_options(lab):
    commands = commands_of(lab)
    common = set.intersection(*commands.values())
    page = re.sub(r"\\f[BIR]|\\(?=-)", "", (ROOT / "tools" / "man" / "shoal.1").read_text())
    heads = {}  # a command to the paragraphs that begin with its name
    for paragraph in page.split("\n.TP\n"):
        line = re.sub(r'^\.BR? |"', "", paragraph.split("\n")[0])
        for part in re.split(r", +", line):
            name = next((name for name in sorted(commands, key=len, reverse=True) if re.match(rf"{name}\b", part)), None)
            heads.setdefault(name, []).append(paragraph)
    for name, options in commands.items():
        expect(name in heads, f"the page has no {name}")
        lacking = {option for option in options - common if not any(re.search(rf"{option}\b", text) for text in heads[name])}
        expect(not lacking, f"of {name} the page lacks {lacking}")
