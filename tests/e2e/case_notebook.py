"""Notebooks: a page of the trial's node on this machine, the end of one that nobody uses, and files that outlive the node."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from case_shells import ended, run, shoal
from door import DOOR, python_with
from lab import Skip, case, expect, show, wait_over, wait_until

FAKE = Path(__file__).parent / "programs" / "fake_jupyter.py"


def place_jupyter(lab):
    """A directory with a `jupyter`, and one with an empty PATH's programs only."""
    programs = lab.dir / "jupyter-bin"
    programs.mkdir()
    (programs / "jupyter").write_text(f'#!/bin/sh\nexec /usr/bin/python3 -B {FAKE} "$@"\n')
    (programs / "jupyter").chmod(0o755)
    return programs


def notebook(lab, node, *arguments):
    """A notebook of a directory with a file; the process, which has printed its link, and the link."""
    code = lab.dir / "my code"
    code.mkdir(exist_ok=True)
    (code / "data.csv").write_text("1,2\n")
    process = shoal(node, "notebook", code, "--json", "--port", "0", *arguments)
    lab.at_end.append(process.kill)
    printed = json.loads(process.stdout.readline())
    return process, printed["experiment"], printed["url"]


def page(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


@case(limit_s=150)
def a_notebook_is_served_here_and_its_files_outlive_it(lab):
    programs = place_jupyter(lab)
    mesh = lab.mesh(["alder", "birch"], start=False, options=["--worker-env", f"PATH={programs}:/usr/bin:/bin"])
    user, worker = mesh.nodes
    user.slots = "none"
    mesh.start()
    process, identity, url = notebook(lab, user, "--kind", "cpu", "--idle", "20m")
    expect(re.match(r"http://127\.74\.\d+\.\d+:\d+/lab\?token=[0-9a-f]{48}$", url), f"the link is {url}")
    token = url.split("=")[1]
    got = page(url)
    expect(got["files"] == ["data.csv"] and got["rank"] is None, f"JupyterLab sees {got}")
    expect(token not in str(got["argv"]), "the token stands in no command line")
    expect(page(url.split("/lab")[0] + "/api/kernels") == 403, "without the token nothing is served")
    for text in (user.run("logs", f"{identity}/0"), user.run("config", identity), user.run("show", identity, "--json")):
        expect(token not in text, "the token stands in no log and no record")
    expect("notebook" in user.run("ls", "--label", "notebook"), "ls lists it")

    # The one who sits elsewhere reaches it, too; the terminal's end does not end it.
    process.send_signal(signal.SIGINT)
    status, _, errors = ended(process)
    expect(status == 128 + signal.SIGINT and f"--attach {identity}" in errors, f"{status} {errors}")
    again = shoal(worker, "notebook", "--attach", identity, "--json", "--port", "0")
    lab.at_end.append(again.kill)
    expect(page(json.loads(again.stdout.readline())["url"])["files"] == ["data.csv"], "it is reached from the other node")

    run(user, "exec", f"{identity}/0", "--", "sh", "-c", "echo made > $SHOAL_OUTPUT_DIR/made.txt")
    wait_until(lambda: "made.txt" in user.run("output", "ls", f"{identity}/0", check=False), 60, "the new file to be stored")
    worker.kill_machine()
    worker.start()  # on the same disk, its slot is free; the other copy would do, too
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 60, "the notebook to go on")
    third = shoal(user, "notebook", "--attach", identity, "--json", "--port", "0")
    lab.at_end.append(third.kill)
    later = json.loads(third.stdout.readline())["url"]
    expect("made.txt" in page(later)["files"], "what was made is there after the node's death")
    user.run("stop", f"{identity}/0")
    wait_over(mesh, identity, 60)
    status, _, errors = ended(third, 40)
    expect(status == 0 and "nothing is served" in errors, f"{status} {errors}")


@case(limit_s=120, whole=True)
def a_notebook_that_nobody_uses_says_so_and_gives_its_slot_back(lab):
    programs = place_jupyter(lab)
    node = lab.mesh(1, slots="cpu:1", options=["--worker-env", f"PATH={programs}:/usr/bin:/bin"]).nodes[0]
    process, identity, url = notebook(lab, node, "--idle", "8s")
    status, _, errors = ended(process, 90)
    said = [line for line in errors.splitlines() if line.startswith("notebook: ")]
    expect(status == 0 and len(said) == 3, f"{status}: {errors}")
    expect(re.search(r"in \d+ s it ends and gives its slot back, unless", said[1]) and "gives its slot back; its files stay" in said[2], errors)
    expect(show(lab.meshes[0], identity)["state"] == "completed", "it has completed")
    expect("data.csv" in node.run("output", "ls", f"{identity}/0"), "its files stay")


@case(limit_s=90, whole=True)
def a_node_without_jupyter_says_what_to_do(lab):
    node = lab.mesh(1, slots="cpu:1", options=["--worker-env", "PATH=/usr/bin:/bin"]).nodes[0]
    if subprocess.run(["/usr/bin/python3", "-c", "import jupyterlab"], capture_output=True).returncode == 0 or any(
            os.path.exists(f"/usr/bin/{name}") for name in ("jupyter", "jupyter-lab")):
        return "this machine has JupyterLab"
    status, output, errors = ended(shoal(node, "notebook", lab.dir / "mesh0", "--print", "--port", "0"), 60)
    expect(status == 1 and "notebook: this node has no JupyterLab; install jupyterlab there" in errors, f"{status} {output} {errors}")
    return None


CELL = """
import os
print(sum(range(1000001)), os.environ["SHOAL_EXPERIMENT"], os.environ.get("RANK"), os.getpid())
open("from_the_kernel.txt", "w").write("kept")
"""


@case(limit_s=900, whole=True)
def a_kernel_of_jupyterlab_computes_on_the_leased_slot(lab):
    python = python_with("jupyter-venv", "jupyterlab", "websocket-client", limit_s=800)
    mesh = lab.mesh(["alder", "birch"], start=False, options=["--worker-env", f"PATH={Path(python).parent}:/usr/bin:/bin"])
    user, worker = mesh.nodes
    user.slots, worker.slots = "none", "cpu:1"
    mesh.start()
    process, identity, url = notebook(lab, user)
    slots = user.json("slots")["slots"]
    expect([slot["experiment"] for slot in slots] == [identity], f"the notebook holds the slot: {slots}")
    done = subprocess.run([python, Path(__file__).parent / "programs" / "notebook_cell.py", url, CELL], capture_output=True, text=True,
                          timeout=240)
    expect(done.returncode == 0, done.stderr[-2000:])
    told = json.loads(done.stdout.splitlines()[-1])
    words = told["written"].split()
    expect(words[:3] == ["500000500000", identity, "None"] and told["lab"] == 200, f"the cell wrote {told}")
    environment = Path(f"/proc/{words[3]}/environ").read_bytes()
    expect(f"SHOAL_OUTPUT_DIR={worker.dir}".encode() in environment, "the kernel is a process of the trial, on the node with the slot")
    user.run("stop", f"{identity}/0")
    wait_over(mesh, identity, 60, "completed")
    expect(not Path(f"/proc/{words[3]}").exists(), "the kernel has ended with its notebook")
    expect("from_the_kernel.txt" in user.run("output", "ls", f"{identity}/0"), "what the kernel wrote stays")


@case(limit_s=300, whole=True)
def what_a_notebook_serves_gets_no_cookie_of_the_dashboard(lab):
    if shutil.which("chromium") is None:
        raise Skip("there is no program chromium (Debian's package chromium)")
    python = python_with("web-venv", "playwright==1.65.2")
    programs = place_jupyter(lab)
    node = lab.mesh(1, slots="cpu:1", options=[*DOOR, "--worker-env", f"PATH={programs}:/usr/bin:/bin"]).nodes[0]
    process, identity, url = notebook(lab, node)
    link = node.json("open")["url"]
    done = subprocess.run([python, Path(__file__).parent / "programs" / "hostile_page.py", link, url], capture_output=True, text=True,
                          timeout=120)
    expect(done.returncode == 0, done.stderr[-2000:])
    told = json.loads(done.stdout.splitlines()[-1])
    expect(told["inside"] == 200 and len(told["cookies"]) == 1, f"the browser is logged in at the door: {told}")
    expect("Cookie" not in told["sent"] and told["got"]["cookie"] == "", f"the page gets no cookie: {told}")
    expect(told["got"]["cors"].startswith("refused") and not re.search(r'"mesh"', told["got"]["no-cors"]), f"and nothing of the door: {told}")


@case(limit_s=120, whole=True)
def a_notebook_of_two_slots_gives_both_back(lab):
    programs = place_jupyter(lab)
    node = lab.mesh(1, slots="cpu:2", options=["--worker-env", f"PATH={programs}:/usr/bin:/bin"]).nodes[0]
    process, identity, url = notebook(lab, node, "--slots", "2")
    expect(page(url)["rank"] is None, "it is served")
    expect(all(slot["experiment"] == identity for slot in node.json("slots")["slots"]), "it holds both slots")
    jupyter = [pid for pid in Path("/proc").glob("[0-9]*") if is_jupyter_of(pid, node)]
    expect(len(jupyter) == 1, f"one JupyterLab runs: {jupyter}")
    os.kill(int(jupyter[0].name), signal.SIGTERM)  # as its page's "Shut Down" does, it ends by itself
    wait_over(lab.meshes[0], identity, 60)
    wait_until(lambda: all(slot["state"] == "free" for slot in node.json("slots")["slots"]), 30, "both slots to be free")


def is_jupyter_of(pid, node):
    try:
        words = (pid / "cmdline").read_bytes().split(b"\0")
        return b"lab" in words and any(str(node.dir).encode() in word for word in words)
    except OSError:
        return False
