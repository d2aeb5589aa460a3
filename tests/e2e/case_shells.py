"""Commands beside a trial's program, and ports of its machine: from another node, through both daemons."""

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import termios
import urllib.request
from pathlib import Path

from lab import case, expect, show, wait_until

SERVER = """import http.server, os
print("serves", flush=True)
http.server.test(http.server.SimpleHTTPRequestHandler, port=int(os.environ["MASTER_PORT"]), bind="127.0.0.1")
"""


def shoal(node, *arguments, **options):
    """A command of a user at this node, as a process with pipes."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([str(node.bin / "shoal"), "--dir", str(node.dir), *map(str, arguments)], **pipes)


def ended(process, within=20, given=None):
    """(exit status, standard output, standard error)"""
    output, errors = process.communicate(input=given, timeout=within)
    return process.returncode, output, errors.decode()


def run(node, *arguments, given=None):
    return ended(shoal(node, *arguments, **({"stdin": subprocess.PIPE} if given is not None else {})), given=given)


def mesh_with_trial(lab, config, files=None):
    """A node without slots, where users type, and one with a slot, where the trial runs."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    user, worker = mesh.nodes
    user.slots = "none"
    mesh.start()
    identity = lab.submit(user, {"name": "beside", **config}, files=files)
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "the trial to run")
    wait_until(lambda: "begun" in user.run("logs", f"{identity}/0", check=False), 30, "the program to begin")
    return mesh, user, worker, identity


def on_terminal(node, *arguments, rows=33, columns=101):
    """Runs a command on a terminal of this size; (exit status, what the terminal shows)."""
    own, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen([str(node.bin / "shoal"), "--dir", str(node.dir), *map(str, arguments)], stdin=other, stdout=other,
                               stderr=other, start_new_session=True)
    os.close(other)
    shown = b""
    try:
        while piece := os.read(own, 4096):
            shown += piece
    except OSError:
        pass  # the last writer is gone
    os.close(own)
    return process.wait(20), shown.decode()


@case(limit_s=120)
def a_command_runs_beside_the_program_on_its_node(lab):
    mesh, user, worker, identity = mesh_with_trial(lab, {"entrypoint": "echo begun; exec sleep 600",
                                                         "environment": {"variables": {"COLOUR": "red"}}})
    trial = f"{identity}/0"
    status, output, errors = run(user, "exec", trial, "--", "sh", "-c",
                                 'echo "$COLOUR $SHOAL_RANK $SHOAL_EXPERIMENT"; pwd; echo wrong >&2; exit 7')
    expect(status == 7 and errors == "wrong\n", f"exec ended with {status}: {errors}")
    words = output.decode().split()
    expect(words[:3] == ["red", "0", identity] and words[3].startswith(str(worker.dir)) and words[3].endswith("/work"),
           f"the command saw {output}")
    status, output, errors = run(user, "exec", trial, "--", "sh", "-c", "kill -TERM $$")
    expect(status == 128 + signal.SIGTERM, f"a killed command gave {status}")
    status, output, errors = run(user, "exec", trial, "--", "wc", "-c", given=b"x" * 3_000_000)
    expect((status, output.strip()) == (0, b"3000000"), f"3 MB of input: {status} {output} {errors}")
    status, output, errors = run(user, "exec", trial, "--", "head", "-c", "5000000", "/dev/zero")
    expect(status == 0 and len(output) == 5_000_000, f"5 MB of output: {status}, {len(output)} bytes, {errors}")
    status, output, errors = run(worker, "exec", trial, "echo", "here")
    expect((status, output) == (0, b"here\n"), f"on the node itself: {status} {output} {errors}")
    status, shown = on_terminal(user, "exec", "-t", trial, "--", "sh", "-c", "stty size; tty; exit 3")
    expect(status == 3 and "33 101" in shown and "/dev/pts/" in shown, f"on a terminal: {status} {shown!r}")

    status, output, errors = run(user, "exec", trial, "--", "no-such-program")
    expect(status == 1 and "There is no program no-such-program" in errors, f"{status}: {errors}")
    status, _, errors = run(user, "exec", trial, "--rank", "5", "--", "true")
    expect(status == 4 and "no rank 5" in errors, f"{status}: {errors}")
    status, _, errors = run(user, "exec", f"{identity}/7", "--", "true")
    expect(status == 4, f"{status}: {errors}")

    # What a user leaves running ends with the attempt, before the slot is free.
    sleeper = shoal(user, "exec", trial, "--", "sh", "-c", 'trap "" HUP TERM; echo there; while :; do sleep 1; done')
    expect(sleeper.stdout.readline() == b"there\n", "the command begins")
    user.run("cancel", identity)
    status, output, errors = ended(sleeper, 30)
    expect(status != 0 and errors.startswith("shoal: ") and errors.count("\n") == 1, f"after a cancel: {status} {errors}")
    wait_until(lambda: not processes_with(identity), 20, "all processes of the trial to end")
    wait_until(lambda: "nothing of it runs" in run(user, "exec", trial, "--", "true")[2], 20, "the sentence of a trial that is over")


def processes_with(identity):
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"SHOAL_EXPERIMENT={identity}".encode() in path.read_bytes():
                found.append(path.parent.name)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return found


@case(limit_s=120)
def a_command_ends_with_its_client_and_the_client_with_the_node(lab):
    mesh, user, worker, identity = mesh_with_trial(lab, {"entrypoint": "echo begun; exec sleep 600"})
    before = len(processes_with(identity))
    client = shoal(user, "exec", f"{identity}/0", "--", "sh", "-c", 'trap "" HUP; echo there; while :; do sleep 1; done')
    expect(client.stdout.readline() == b"there\n", "the command begins")
    expect(len(processes_with(identity)) > before, "the command carries the trial's environment")
    client.kill()
    client.wait()
    wait_until(lambda: len(processes_with(identity)) == before, 20, "the command to end with its client")

    client = shoal(user, "exec", f"{identity}/0", "--", "sh", "-c", "echo there; exec sleep 600")
    expect(client.stdout.readline() == b"there\n", "the command begins")
    worker.kill_machine()
    status, _, errors = ended(client, 40)
    expect(status == 1 and "node birch" in errors and errors.count("\n") == 1, f"after the node's death: {status} {errors!r}")


@case(limit_s=90, whole=True)
def the_owner_of_a_node_may_refuse_commands(lab):
    mesh, user, worker, identity = mesh_with_trial(lab, {"entrypoint": "echo begun; exec sleep 600"})
    worker.kill_daemon(signal.SIGTERM)
    worker.options = [*worker.options, "--no-exec"]
    worker.start()
    mesh.wait_alive(2)
    wait_until(lambda: "--no-exec" in run(user, "exec", f"{identity}/0", "--", "true")[2], 20, "the refusal of the restarted node")
    status, output, errors = run(user, "exec", f"{identity}/0", "--", "true")
    expect(status == 1 and "node birch" in errors, f"{status} {output} {errors}")


def url_of(process):
    return process.stdout.readline().decode().strip()


@case(limit_s=120)
def a_port_of_the_trials_machine_is_reached_from_another_node(lab):
    mesh, user, worker, identity = mesh_with_trial(
        lab, {"entrypoint": "echo begun; exec python3 -u server.py"}, files={"server.py": SERVER, "page.txt": "from the trial\n" * 100000})
    wait_until(lambda: "serves" in user.run("logs", f"{identity}/0"), 20, "the server to begin")
    port = run(user, "exec", f"{identity}/0", "--", "sh", "-c", "echo $MASTER_PORT")[1].decode().strip()
    forward = shoal(user, "port-forward", f"{identity}/0", f"0:{port}")
    lab.at_end.append(forward.kill)
    url = url_of(forward)
    expect(url.startswith("http://127.74."), f"port-forward printed {url}")

    def get():
        try:
            return urllib.request.urlopen(f"{url}page.txt", timeout=20).read()
        except OSError:
            return b""

    wait_until(lambda: len(get()) > 0, 20, "the page")
    for _ in range(20):
        expect(get() == b"from the trial\n" * 100000, "the page is whole")
    again = shoal(user, "port-forward", f"{identity}/0", f"{url.rstrip('/').rsplit(':', 1)[1]}:{port}")
    status, _, errors = ended(again)
    expect(status == 1 and "in use" in errors, f"a second one at the same port: {status} {errors}")
    other = shoal(user, "port-forward", "--json", f"{identity}/0", "0:1")
    lab.at_end.append(other.kill)
    address = json.loads(other.stdout.readline())["address"]
    expect(address.split(":")[0] in url, f"{address} is the trial's address, too")
    host, number = address.split(":")
    with socket.create_connection((host, int(number)), timeout=10) as connection:
        expect(connection.recv(10) == b"", "nothing listens there: the connection is closed")
    expect("port 1 of the trial's machine" in other.stderr.readline().decode(), "and a sentence says so")
    user.run("cancel", identity)
    status, _, errors = ended(forward, 40)
    expect(status == 0 and "nothing is served any more" in errors, f"after a cancel: {status} {errors}")


@case(limit_s=120, whole=True)
def a_command_ends_with_either_daemon_and_leaves_no_process_to_the_next_one(lab):
    mesh, user, worker, identity = mesh_with_trial(lab, {"entrypoint": "echo begun; exec sleep 600"})
    trial, before = f"{identity}/0", len(processes_with(identity))
    script = 'trap "" HUP TERM; echo there; while :; do sleep 1; done'

    client = shoal(user, "exec", trial, "--", "sh", "-c", script)
    expect(client.stdout.readline() == b"there\n", "the command begins")
    worker.kill_daemon()
    worker.start()
    status, _, errors = ended(client, 40)
    expect(status == 1 and "node birch" in errors and errors.count("\n") == 1, f"after the daemon's restart: {status} {errors!r}")
    wait_until(lambda: len(processes_with(identity)) == before, 20, "the command to end, and the worker to live on")

    mesh.wait_alive(2)
    wait_until(lambda: run(user, "exec", trial, "--", "true")[0] == 0, 30, "the adopted worker to have commands again")
    client = shoal(user, "exec", trial, "--", "sh", "-c", script)
    expect(client.stdout.readline() == b"there\n", "the command begins")
    user.kill_daemon()
    status, _, errors = ended(client, 20)
    expect(status == 3 and errors.startswith("shoal: ") and errors.count("\n") == 1, f"without a daemon: {status} {errors!r}")
    wait_until(lambda: len(processes_with(identity)) == before, 40, "the command to end without its client's daemon")


@case(limit_s=150, whole=True)
def a_cut_ends_a_command_on_both_sides_and_no_bytes_are_lost_before(lab):
    mesh, wire = lab.wired(["alder", "birch"])
    user, worker = mesh.nodes
    user.slots = "none"
    mesh.start()
    identity = lab.submit(user, {"name": "beside", "entrypoint": "echo begun; exec sleep 600"})
    wait_until(lambda: "begun" in user.run("logs", f"{identity}/0", check=False), 60, "the program to begin")
    wire.lose(1, 0, 3)  # of the frames to the user's machine
    status, output, errors = ended(wired(user, "exec", f"{identity}/0", "--", "seq", "400000"), 60)
    expect((status, output) == (0, "".join(f"{number}\n" for number in range(1, 400001)).encode()), f"over a bad link: {status} {errors}")
    wire.clear()
    before = len(processes_with(identity))
    client = wired(user, "exec", f"{identity}/0", "--", "sh", "-c", "echo there; exec sleep 600")
    expect(client.stdout.readline() == b"there\n", "the command begins")
    wire.cut(1)
    status, _, errors = ended(client, 40)
    expect(status == 1 and "node birch" in errors and errors.count("\n") == 1, f"beyond a cut: {status} {errors!r}")
    wait_until(lambda: len(processes_with(identity)) <= before, 40, "the command to end beyond the cut, too")


def wired(node, *arguments):
    command = [*node.wrap, str(node.bin / "shoal"), "--dir", str(node.dir), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
