"""Which account an experiment is of: shoal ls --user."""

import json
import os
import pwd
import subprocess

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
