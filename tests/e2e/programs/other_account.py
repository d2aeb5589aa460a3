"""Tries to get at a node's data directory, its sockets and its processes under the account that runs this. Prints a JSON list with
one sentence for each thing that it got at. Ends no process: the signal that it tries is 0.

usage: other_account.py DATA_DIRECTORY DOOR_PORT PID..."""

import ctypes
import json
import os
import socket
import sys
import urllib.error
import urllib.request

PTRACE_SEIZE = 0x4206
PTRACE_DETACH = 17


def files(directory):
    """A file that can be read or changed, or a directory that can be listed."""
    try:
        names = os.listdir(directory)
    except OSError:
        names = ["key", "http.pem", "http-certificate.pem", "state/data.mdb", "chunks/data.mdb", "events/1", "runs"]
    else:
        yield f"file: lists {directory}"
    for path in (os.path.join(directory, name) for name in names):
        if os.path.isdir(path) and not os.path.islink(path):
            yield from files(path)
        for mode in ("rb", "r+b"):
            try:
                open(path, mode).close()  # noqa: SIM115
                yield f"file: opens {path} as {mode}"
            except OSError:
                pass


def local_sockets(pids):
    """Listening UNIX sockets of the processes, by path or abstract; /proc/net/unix shows all to everybody."""
    with open("/proc/net/unix") as table:
        names = {row[-1] for row in (line.split() for line in table) if len(row) == 8}
    for name in sorted(names):
        if "shoal" not in name:
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as end:
                end.settimeout(2)
                try:
                    end.connect(name.replace("@", "\0", 1) if name.startswith("@") else name)
                    end.sendall(b"\0")
                    answer = end.recv(64)
                except OSError:
                    continue
                if answer != b"":
                    yield f"socket: {name} answers"


def data_socket(directory):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        try:
            end.connect(os.path.join(directory, "shoald.sock"))
            yield "socket: connects to that of the daemon"
        except OSError:
            pass


def process(pid):
    for what, path in (("environment", "environ"), ("memory", "mem"), ("memory", "maps")):
        try:
            with open(f"/proc/{pid}/{path}", "rb") as file:
                file.read(0 if path == "mem" else 1)
            yield f"{what}: opens /proc/{pid}/{path}"
        except OSError:
            pass
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with open(f"/proc/{pid}/fd/{name}", "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)):
                yield f"file: opens /proc/{pid}/fd/{name}"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
        yield f"signal: may end {pid}"
    except OSError:
        pass
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0:
        libc.ptrace(PTRACE_DETACH, pid, None, None)
        yield f"memory: traces {pid}"


def door(port):
    for path in ("/api/v1/experiments", "/api/v1/nodes", "/metrics", "/api/2.0/mlflow/experiments/search"):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                yield f"door: {path} answers {answer.status}"
        except urllib.error.HTTPError as error:
            if error.code not in (401, 403, 404, 405):
                yield f"door: {path} answers {error.code}"


def main():
    directory, port, pids = sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3:]]
    got = [*files(directory), *data_socket(directory), *local_sockets(pids), *door(port)]
    for pid in pids:
        got += process(pid)
    print(json.dumps(got))


main()
