"""Secrets: programs find them in their environment, on nodes that came later, too, and they stand nowhere else."""

import hashlib
import subprocess
from pathlib import Path

from case_shells import run as run_command
from door import DOOR, Door
from lab import case, expect, show, wait_over, wait_until

VALUE = "wh4t-n0body-may-re4d/+=" + "x" * 40
DIGEST = hashlib.sha256(VALUE.encode()).hexdigest()
TELLS = "printf %s \"$API_KEY\" | sha256sum; echo told; sleep 600 & wait"


def try_to_set(node, name, value):
    """`shoal secret set`, with the value as its standard input."""
    return subprocess.run([node.bin / "shoal", "secret", "set", name, "--dir", str(node.dir)], input=value, capture_output=True,
                          text=True, timeout=30, check=False)


def set_secret(node, name, value):
    done = try_to_set(node, name, value)
    expect(done.returncode == 0 and value not in done.stdout + done.stderr, f"secret set: {done}")
    return done.stdout


def submit(lab, node, entrypoint=TELLS, secrets=("API_KEY",), **more):
    return lab.submit(node, {"name": "sealed", "entrypoint": entrypoint, "secrets": list(secrets),
                             "searcher": {"name": "single", "metric": "loss"}, **more})


def copies(node):
    return [row["copies"] for row in node.json("secret", "ls")["secrets"]]


def told(node, identity):
    return DIGEST in node.run("logs", f"{identity}/0", check=False)


def files_with(text, *places):
    """All files below the places that hold the text."""
    found = []
    for path in (path for place in places for path in Path(place).rglob("*")):
        if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
            found.append(str(path))
    return found


@case(limit_s=120)
def a_secret_is_in_the_environment_of_its_program_and_nowhere_else(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1", options=DOOR)
    alder, birch = mesh.nodes
    set_secret(alder, "API_KEY", VALUE + "\n")
    wait_until(lambda: copies(birch) == [2] and not birch.json("status")["syncing"], 20, "both nodes to have a copy")
    alder.kill_machine()
    identity = submit(lab, birch)
    wait_until(lambda: told(birch, identity), 40, "a program to find the secret that another node has set")
    code, beside, _ = run_command(birch, "exec", f"{identity}/0", "--", "sh", "-c", TELLS.split(";")[0])
    expect(code == 0 and DIGEST.encode() in beside, f"a command beside the program does not find the secret: {beside}")
    cedar = type(birch)(mesh.base, "cedar", slots="cpu:1", build=lab.build)
    mesh.add(cedar)
    wait_until(lambda: copies(cedar) == [3], 20, "the newcomer to have a copy")
    birch.run("drain", "birch")
    second = submit(lab, birch)
    wait_until(lambda: told(birch, second), 40, "a program on the newcomer")
    expect(files_with(VALUE, birch.dir, cedar.dir, alder.dir, birch.log, cedar.log) == [], "a file holds the value")
    door = Door(birch)
    about = f"/experiments/{identity}"
    for path in ("/secrets", about, f"{about}/config", f"{about}/trials/0", f"{about}/configuration", "/events"):
        answer = door.get(f"/api/v1{path}")
        expect(answer.status == 200 and VALUE.encode() not in answer.body, f"{path}: {answer}")
    for command in (["show", identity], ["config", identity], ["events"], ["logs", f"{identity}/0"], ["secret", "ls"],
                    ["why", f"{identity}/0"]):
        expect(VALUE not in birch.run(*command, check=False), f"shoal {command[0]} shows the value")
    made = door.post("/api/v1/secrets", {"name": "BY_HTTP", "value": "v"}).json()
    expect(made["secret"] == "BY_HTTP", "a secret is set by HTTP")
    expect([row["name"] for row in cedar.json("secret", "ls")["secrets"]] == ["API_KEY", "BY_HTTP"], "the names are listed")


@case(limit_s=90)
def a_trial_waits_for_a_secret_and_a_new_value_counts_from_the_next_attempt(lab):
    mesh = lab.mesh(["alder", "birch"], slots="cpu:1")
    alder, birch = mesh.nodes
    identity = submit(lab, alder, entrypoint="echo value $API_KEY")
    wait_until(lambda: "API_KEY" in alder.run("show", identity), 20, "the trial to wait")
    reason = alder.run("show", identity)
    expect("the secret API_KEY, which it asks for, is not set" in reason, reason)
    set_secret(birch, "API_KEY", "first")
    wait_over(mesh, identity, 40)
    expect("value first" in alder.run("logs", f"{identity}/0"), "the program has the value")
    set_secret(alder, "API_KEY", "second")
    again = submit(lab, birch, entrypoint="echo value $API_KEY")
    wait_over(mesh, again, 40)
    expect("value second" in alder.run("logs", f"{again}/0"), "the new value counts")
    alder.run("secret", "rm", "API_KEY")
    wait_until(lambda: birch.json("secret", "ls")["secrets"] == [], 10, "the other node to know that it is removed")
    third = submit(lab, birch)
    wait_until(lambda: "is not set" in birch.run("show", third), 20, "a trial to wait again")
    refused = try_to_set(alder, "LD-PATH", "x")
    expect(refused.returncode == 2 and "no name for a secret" in refused.stderr, f"{refused}")
    for name, value in (("RANK", "1"), ("EMPTY", ""), ("LONG", "x" * 4097)):
        done = try_to_set(alder, name, value)
        expect(done.returncode == 2, f"{name}: {done}")
    expect(show(mesh, third)["trials"][0]["state"] == "queued", "it waits")


@case(limit_s=60, whole=True)
def a_warm_trial_finds_its_secret(lab):
    node = lab.mesh(1, slots="cpu:1").nodes[0]
    set_secret(node, "API_KEY", VALUE)
    program = "import os, hashlib\nprint(hashlib.sha256(os.environ['API_KEY'].encode()).hexdigest())\n"
    identity = lab.submit(node, {"name": "warm", "entrypoint": "/usr/bin/python3 tell.py", "secrets": ["API_KEY"],
                                 "environment": {"warm": True}, "searcher": {"name": "single", "metric": "loss"}},
                          {"tell.py": program})
    wait_over(lab.meshes[0], identity, 40)
    log = node.run("logs", f"{identity}/0")
    expect(DIGEST in log and "not warm" not in log, log)
    expect(files_with(VALUE, node.dir) == [], "a file holds the value")
