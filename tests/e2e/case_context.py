"""What of the code directory travels (git's answer, a list of what is never code, .shoalignore, odd files, links, --dry-run), and which
nodes have the program that runs it."""

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

from lab import Skip, case, expect, wait_over, wait_until
from look import refusal

LIST = "find . -mindepth 1 ! -type d -print0"
LIST_EMPTY_TOO = "find . -mindepth 1 \\( ! -type d -o -empty \\) -print0"


def context_of(node, name, entrypoint=LIST):
    """A directory with a configuration whose program writes into a file beside it."""
    context = Path(node.tree) / name
    context.mkdir()
    (context / "c.yaml").write_text(json.dumps({"name": name, "entrypoint": f"{entrypoint} >{context}.written",
                                                "searcher": {"name": "single", "metric": "loss"}}))
    return context


def git(context, *arguments):
    home = {"HOME": str(context), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    return subprocess.run(["git", *arguments], cwd=context, env=home, check=True, capture_output=True).stdout


def submit(node, context, *options):
    """Returns the experiment's id, and what was said on standard error."""
    ran = subprocess.run([node.bin / "shoal", "--dir", node.dir, "submit", context / "c.yaml", *options], capture_output=True,
                         timeout=60)
    expect(ran.returncode == 0, f"submit ended with {ran.returncode}: {ran.stderr}")
    return ran.stdout.decode().split()[-1], ran.stderr.decode()


def written(mesh, identity, context):
    """What the program wrote."""
    wait_over(mesh, identity, 30)
    return Path(f"{context}.written").read_bytes()


def copied(mesh, identity, context):
    """The names in the program's copy of the directory."""
    return {name.removeprefix(b"./") for name in written(mesh, identity, context).split(b"\0") if name}


@case(limit_s=60)
def a_virtual_environment_beside_the_code_stays_behind(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    context = context_of(node, "venv")
    (context / ".venv/bin").mkdir(parents=True)
    (context / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (context / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    for name in ("__pycache__", "node_modules", ".ipynb_checkpoints", "wandb", "mlruns", "shoal-runs"):
        (context / name).mkdir()
        (context / name / "file").write_text("x" * 1000)
    (context / "train.py").write_text("pass\n")
    identity, said = submit(node, context)
    expect(copied(mesh, identity, context) == {b"c.yaml", b"train.py"}, "something else than the code was copied")
    expect(said.count("left out") == 1 and ".venv (16 B)" in said and "wandb (1000 B)" in said and "--dry-run" in said, said)
    (context / ".shoalignore").write_text("!wandb/\n")
    identity, said = submit(node, context)
    expect(copied(mesh, identity, context) == {b".shoalignore", b"c.yaml", b"train.py", b"wandb/file"}, "wandb was not brought back")
    expect("wandb" not in said, said)


@case(limit_s=60)
def a_link_to_a_data_set_travels_by_key(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    data = lab.dir / "data-set"
    data.mkdir()
    (data / "x").write_text("the data\n")
    context = context_of(node, "links", "cat data/x")
    (context / "data").symlink_to(data)
    said = refusal(node, "submit", context / "c.yaml", code=1)
    expect("links/data leads out" in said and str(data) in said and "links: keep" in said and "follow" in said, said)
    identity, _ = submit(node, context, "--set", "context.links=keep")
    expect(written(mesh, identity, context) == b"the data\n", "the link does not lead to the data")
    identity, _ = submit(node, context, "--set", "context.links=follow")
    (data / "x").write_text("other data\n")
    expect(written(mesh, identity, context) == b"the data\n", "no copy of the data travelled")


@case(limit_s=60)
def what_travels_is_what_git_lists(lab):
    if shutil.which("git") is None:
        raise Skip("no git to compare with")
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    context = context_of(node, "tree")
    git(context, "init", "-q")
    (context / ".gitignore").write_text("data/*\n*.json\n!config.json\n/build/\nlogs/**\n!logs/keep/\n")
    for name in ("data/x", "src/data/__init__.py", "a.json", "config.json", "src/a.json", "build/gen.py", "big.bin",
                 "logs/keep/z", "logs/q", "forced.json"):
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        (context / name).write_text(name)
    (context / "src/.gitignore").write_text("!a.json\n")
    (context / ".git/info/exclude").write_text("big.bin\n")
    git(context, "add", "-f", "forced.json")
    expected = set(git(context, "ls-files", "-co", "--exclude-standard", "-z").strip(b"\0").split(b"\0"))
    identity, said = submit(node, context)
    found = copied(mesh, identity, context)
    expect(found == expected, f"git lists {expected}, and {found} were copied")
    expect("left out: .git (" in said and "6 entries" in said, said)
    _, said = submit(node, context, "--set", "entrypoint=true ./build/gen.py --fast")
    expect("build, which the entrypoint names, is left out (.gitignore:4)" in said, said)
    dry = json.loads(node.run("submit", context / "c.yaml", "--dry-run", "--json"))
    expect({file["path"].encode() for file in dry["files"]} == expected, f"--dry-run lists {dry['files']}")
    why = {left["path"]: left["why"] for left in dry["left_out"]}
    expect(why == {".git": "never code", "data/x": ".gitignore:1", "a.json": ".gitignore:2", "build": ".gitignore:4",
                   "logs/keep/z": ".gitignore:5", "logs/q": ".gitignore:5", "big.bin": ".git/info/exclude:1"}, why)
    (context / ".shoalignore").write_text("!build/gen.py\n")
    identity, _ = submit(node, context)
    expect(copied(mesh, identity, context) == expected | {b".shoalignore", b"build/gen.py"}, "build/gen.py was not brought back")


@case(limit_s=30)
def a_dry_run_sends_nothing_and_needs_no_daemon(lab):
    mesh = lab.mesh(1, start=False)
    node = mesh.nodes[0]
    Path(node.tree).mkdir(parents=True, exist_ok=True)
    context = context_of(node, "dry")
    (context / "small").write_text("x" * 10)
    (context / "large").write_text("x" * 5000)
    lines = node.run("submit", context / "c.yaml", "--dry-run").splitlines()
    names = [line.split()[-1] for line in lines[3:]]
    expect(lines[0].startswith("3 files of ") and "nothing is sent" in lines[0], lines)
    expect(names == ["large", "c.yaml", "small"], f"not the largest first: {lines}")


@case(limit_s=60)
def odd_files_arrive_or_are_named(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    context = context_of(node, "odd", LIST_EMPTY_TOO)
    names = [b"caf\xe9.txt", b"a\nb", b"-rf", "\U0001f41f".encode(), b"\x1b[31m"]
    for name in names:
        with open(os.fsencode(context) + b"/" + name, "wb"):
            pass
    (context / "empty").mkdir()
    (context / "a").symlink_to("b")
    (context / "b").symlink_to("a")
    (context / "dangling").symlink_to("nowhere")
    (context / "one").write_text("1")
    os.link(context / "one", context / "two")
    os.mkfifo(os.fsencode(context) + b"/pi\npe")
    here = os.getcwd()
    os.chdir(context)  # the path of a socket is short
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("socket")
    os.chdir(here)
    (context / ".gitignore").write_text("ignored/\n")
    (context / "ignored").mkdir()
    (context / "ignored/out").symlink_to("/etc/passwd")
    os.mkfifo(context / "ignored/pipe")
    os.chmod(context / "ignored", 0)
    log, ends = context / "growing.log", threading.Event()

    def grow():
        with log.open("a") as out:
            while not ends.is_set():
                out.write("a line\n" * 1000)
                out.flush()
                time.sleep(0.001)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(5):
            identity, said = submit(node, context)
            time.sleep(0.01)
    finally:
        ends.set()
        writer.join()
        listening.close()
    expected = {*names, b"empty", b"a", b"b", b"dangling", b"one", b"two", b".gitignore", b"growing.log", b"c.yaml"}
    found = copied(mesh, identity, context)
    expect(found == expected, f"not byte for byte: {found ^ expected}")
    expect("pi\\npe (a pipe)" in said and "socket (a socket)" in said and said.count("left out") == 1, said)
    (context / "sub").mkdir()
    os.symlink("/etc/passwd", os.fsencode(context) + b"/sub/o\nut")
    said = refusal(node, "submit", context / "c.yaml", code=1)
    expect("odd/sub/o\\nut leads out" in said, said)
    os.unlink(os.fsencode(context) + b"/sub/o\nut")
    with (context / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    said = refusal(node, "submit", context / "c.yaml", code=1)
    expect("the largest file is sparse, 1073741824 bytes" in said and ".shoalignore" in said, said)
    (context / "sparse").unlink()
    descriptor = os.open(context / "sub", os.O_RDONLY)
    for _ in range(40):  # deeper than a path may be long
        os.mkdir("n" * 250, dir_fd=descriptor)
        inner = os.open("n" * 250, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    said = refusal(node, "submit", context / "c.yaml", code=1)
    expect("longer than 4095 bytes" in said and "odd/sub/nnn" in said and len(said) < 600, said)


@case(limit_s=60)
def a_file_that_may_not_be_read_is_named(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    context = context_of(node, "closed")
    (context / "sub").mkdir()
    secret = context / "sub/sec\nret"
    secret.write_text("for nobody\n")
    secret.chmod(0)
    if os.geteuid() == 0:  # root may read everything, but for these two capabilities
        node.wrap = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    for options in [[], ["--dry-run"]]:
        said = refusal(node, "submit", context / "c.yaml", *options, code=1)
        expect("closed/sub/sec\\nret: Permission denied; make it readable, or name it in .shoalignore" in said, said)
    (context / ".shoalignore").write_text("sub/\n")
    identity = node.run("submit", context / "c.yaml").split()[-1]
    expect(copied(mesh, identity, context) == {b"c.yaml", b".shoalignore"}, "what is left out was looked into")


@case(limit_s=90)
def a_trial_goes_where_its_program_is(lab):
    """The first node has a Python that the second one lacks: all trials go to the first, and submit tells why."""
    mesh = lab.mesh(2, start=False)
    alder, birch = mesh.nodes
    tools = lab.dir / "tools"
    tools.mkdir()
    python = tools / "python3.99"
    python.write_text("#!/bin/sh\nexec /usr/bin/env python3 \"$@\"\n")
    python.chmod(0o755)
    alder.wrap = ["env", f"PATH={tools}:{os.environ['PATH']}"]
    mesh.start()
    context = context_of(alder, "program", "python3.99 -c 'print(1)'")
    waits = context_of(alder, "waits", "python3.99 -c 'import time; time.sleep(600)'")
    first, _ = submit(alder, waits)  # names a program that nobody has looked for

    def has_been_looked_for():
        nodes = birch.json("show", first)["experiment"]["program"]["nodes"]
        return len(nodes) == 2 and all(row["has"] is not None for row in nodes)

    wait_until(has_been_looked_for, 60, "both nodes to have looked")
    alder.run("cancel", first)
    identity, _ = submit(birch, context, "--set", "searcher.max_trials=4", "--set", "searcher.name=random")
    final = wait_over(mesh, identity, 60)
    for trial in final["trials"]:
        expect(trial["restarts"] == 0 and {slot["node_name"] for slot in trial["slots"]} == {"alder"}, f"not on alder: {trial}")
    _, said = submit(birch, context)
    expect("python3.99, which the entrypoint names, is missing on birch; it is on alder (Python 3." in said, said)


@case(limit_s=60)
def a_home_directory_is_copied_only_where_it_is_named(lab):
    mesh = lab.mesh(1)
    node = mesh.nodes[0]
    context = context_of(node, "home", "echo ran")

    def ran(*words):
        return subprocess.run([node.bin / "shoal", "--dir", node.dir, *words], cwd=context, capture_output=True, timeout=60,
                              env={"HOME": str(context), "PATH": os.environ["PATH"]}, text=True, check=False)

    for words, way in ((["submit", "c.yaml"], "--context DIR"), (["submit", f"{context}/c.yaml", "--dry-run"], "--context DIR"),
                       (["run", "--", "true"], "--context DIR"), (["notebook"], "shoal notebook DIR")):
        done = ran(*words)
        expect(done.returncode == 1 and f"would be your home directory {context}," in done.stderr and way in done.stderr, done)
    expect(mesh.nodes[0].json("ls")["experiments"] == [], "something was submitted")
    expect(ran("run", "--context", ".", "--", "true").returncode == 0, "the home directory was refused where it was named")
    (context / "below").mkdir()
    (context / "below/c.yaml").write_text((context / "c.yaml").read_text())
    expect(ran("submit", "below/c.yaml").returncode == 0, "a directory below the home directory was refused")
