"""Which account an experiment is of (shoal ls --user), and what the slots were used for (shoal usage)."""

import csv
import io
import json
import os
import pwd
import subprocess
import time

from door import DOOR, Door
from lab import Skip, case, expect, show, wait_over, wait_until
from look import refusal

PROGRAM = "exec {build}/scripted_worker report:validation:accuracy:3:0.5 flush"
OTHER = "nobody"


def config(lab, name, **more):
    return {"name": name, "entrypoint": PROGRAM.format(build=lab.build), "searcher": {"name": "single", "metric": "accuracy"}, **more}


def own_account():
    return pwd.getpwuid(os.geteuid()).pw_name


def write(node, experiment):
    """A directory of its own with the configuration of an experiment."""
    directory = node.tree / experiment["name"]
    directory.mkdir()
    (directory / "experiment.yaml").write_text(json.dumps(experiment))
    return directory / "experiment.yaml"


def users(node, *options):
    return {row["name"]: row["user"] for row in node.json("ls", *options)["experiments"]}


@case()
def an_experiment_is_of_the_account_that_submits_it(lab):
    mesh = lab.mesh(2)
    alder, birch = mesh.nodes
    mine = lab.submit(alder, config(lab, "mine"))
    wait_over(mesh, mine, 60)
    wait_until(lambda: users(birch) == {"mine": own_account()}, 20, "the other node to know the user")
    expect(show(mesh, mine)["user"] == own_account(), "show tells another user")
    expect(f"submitted by {own_account()}\n" in birch.run("show", "mine"), "show does not tell the user")
    expect(users(birch, "--user", own_account()) == {"mine": own_account()}, "--user does not find it")
    expect(users(birch, "--user", "of-no-account") == {}, "--user finds what is another's")
    expect("user" not in birch.json("config", "mine"), "a configuration that is printed could not be submitted again")
    text = refusal(alder, "submit", write(alder, config(lab, "forged", user="root")), code=1)
    expect("user cannot be used" in text, f"the key is refused otherwise: {text}")


@case()
def several_accounts_submit_to_one_daemon(lab):
    if os.geteuid() != 0:
        raise Skip("only root can become another account")
    other = pwd.getpwnam(OTHER)
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    mine = lab.submit(node, config(lab, "mine"))
    file = write(node, config(lab, "theirs"))
    for path in [lab.dir, *node.dir.relative_to(lab.dir).parents, node.dir, *file.relative_to(lab.dir).parents]:
        os.chmod(lab.dir / path, 0o755)
    os.chmod(file, 0o644)
    os.chmod(node.dir / "shoald.sock", 0o666)
    command = ["setpriv", f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups", f"{lab.build}/shoal", "--dir", node.dir]
    run = subprocess.run([*command, "submit", file], capture_output=True, text=True, timeout=60)
    expect(run.returncode == 0, f"the other account cannot submit: {run.stderr}")
    for identity in (mine, run.stdout.split()[-1]):
        wait_over(mesh, identity, 60)
    expect(users(node) == {"mine": own_account(), "theirs": OTHER}, f"the users are {users(node)}")
    expect(users(node, "--user", OTHER) == {"theirs": OTHER}, "--user does not find the other's")
    expect("USER" in node.run("ls"), "the column is not shown although there are several users")


@case()
def what_a_token_submits_is_of_the_name_of_the_token(lab):
    mesh = lab.mesh(1, options=DOOR)
    node = mesh.nodes[0]
    door = Door(node)
    answer = door.ask("POST", "/api/v1/experiments", {"config": json.dumps(config(lab, "by-token"))})
    expect(answer.status == 200, f"the door does not take it: {answer}")
    wait_over(mesh, answer.json()["experiment"], 60)
    expect(users(node) == {"by-token": "tests"}, f"the users are {users(node)}")
    rows = door.ask("GET", "/api/v1/experiments").json()["experiments"]
    expect([row["user"] for row in rows] == ["tests"], f"the door tells another user: {rows}")


def used(node, by, *options):
    """Seconds of slots, by what `by` names."""
    return {tuple(row[key] for key in by.split(",")): row["used_s"] for row in node.json("usage", "--by", by, *options)["usage"]}


def settled(look):
    """What `look` sees once it has seen the same for longer than a node waits before it writes what a worker's end has left."""
    last, since = None, time.monotonic()

    def same():
        nonlocal last, since
        now = look()
        if now != last:
            last, since = now, time.monotonic()
        return now if now is not None and time.monotonic() - since > 8 else None

    return wait_until(same, 60, "the slots' time to be counted")


@case(limit_s=120)
def slot_seconds_are_counted_and_a_deletion_takes_none_away(lab):
    mesh = lab.mesh(2, slots="cpu:2", options=DOOR)
    alder, birch = mesh.nodes
    begun = time.monotonic()
    first = lab.submit(alder, {"name": "first", "entrypoint": "sleep 6", "labels": ["project=vision", "a"]})
    second = lab.submit(birch, {"name": "second", "entrypoint": "sleep 3", "hyperparameters": {"x": {"type": "categorical", "vals": [1, 2]}},
                                "searcher": {"name": "grid", "metric": "accuracy"}})
    for identity in (first, second):
        wait_over(mesh, identity, 60)
    most = time.monotonic() - begun

    def sums(node):
        seconds = used(node, "user,label")
        return seconds if seconds.get((own_account(), "project=vision"), 0) >= 6 and seconds.get((own_account(), ""), 0) >= 6 else None

    before = settled(lambda: sums(alder))
    wait_until(lambda: sums(birch) == before, 30, "both nodes to know it")
    expect(set(before) == {(own_account(), "project=vision"), (own_account(), "")}, f"there are other sums: {before}")
    expect(6 <= before[own_account(), "project=vision"] <= most, f"one trial of 6 s in {most:.1f} s: {before}")
    expect(6 <= before[own_account(), ""] <= 2 * most, f"two trials of 3 s in {most:.1f} s: {before}")
    total = sum(before.values())
    for by in ("user", "node", "day", "month", "model"):
        expect(abs(sum(used(alder, by).values()) - total) < 0.01, f"the sums by {by} are {used(alder, by)}, not {total}")
    expect(set(used(alder, "node,day")) <= {(node.json("status")["node"]["id"], day) for node in mesh.nodes
                                            for day in (time.strftime("%Y-%m-%d", time.gmtime(time.time() - ago)) for ago in (0, 86400))},
           f"other nodes or days: {used(alder, 'node,day')}")

    alder.run("delete", "first", "--yes")
    wait_until(lambda: len(birch.json("ls")["experiments"]) == 1, 30, "the deletion")
    for node in mesh.nodes:
        expect(sums(node) == before, f"{node.name} has {used(node, 'user,label')} after the deletion, and had {before}")
    alder.kill_daemon()
    alder.start()
    wait_until(lambda: len(alder.json("ls")["experiments"]) == 1, 30, "the daemon to know its records")
    expect(sums(alder) == before, f"a restart made {used(alder, 'user,label')} of {before}")

    rows = list(csv.DictReader(io.StringIO(birch.run("usage", "--by", "label", "--csv"))))
    expect({row["label"]: float(row["used_s"]) for row in rows} == {label: round(seconds, 3) for (_, label), seconds in before.items()},
           f"CSV has {rows}")
    expect("project=vision" in birch.run("usage", "--by", "label") and "SLOT-HOURS" in birch.run("usage"), "the table lacks it")
    document = Door(alder).document("/usage/totals?by=label,month")
    expect({row["label"] for row in document["usage"]} == {"project=vision", ""} and document["span"] == "month", f"the door has {document}")
    plain = Door(alder).document("/usage/totals")
    expect(plain["by"] == ["user"] and abs(plain["usage"][0]["used_s"] - total) < 0.01, f"without arguments the door has {plain}")
    months = used(alder, "user", "--since", "400d")
    expect(set(months) == {(own_account(),)} and abs(months[own_account(),] - total) < 0.01, f"months have {months}, not {total}")
    text = refusal(alder, "usage", "--by", "day", "--since", "60d", code=2)
    expect("35 days" in text, f"it is said so: {text}")
    refusal(alder, "usage", "--by", "colour", code=2)


@case()
def a_trial_that_fails_has_lost_its_time(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "fails", "entrypoint": "sleep 3; exit 1", "max_restarts": 0})
    wait_over(mesh, identity, 60, state="failed")

    def counted():
        rows = node.json("usage")["usage"]
        return rows if rows and rows[0]["used_s"] >= 3 else None

    rows = wait_until(counted, 30, "the slot's time to be counted")
    expect(3 <= rows[0]["lost_s"] <= rows[0]["used_s"], f"lost is {rows}")
