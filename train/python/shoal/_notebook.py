"""The program of `shoal notebook`: JupyterLab on the node that has the slot, until nobody uses it any more.

`python3 -m shoal._notebook --idle SECONDS` in a trial. JupyterLab works in $SHOAL_OUTPUT_DIR, so what is there outlives the
node; the code that was submitted is copied there first. Where it listens, and the token that it wants, stand in a file that
only this account can read, beside the directory of the trial; no log has it. Lines that begin with "notebook: " are for people.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.client
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

READY_SECONDS = 180
LOOK_SECONDS = 10
FILES_MAX = 2000
# A notebook is no rank of a group: with these variables libraries would look for other ranks.
GROUP_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
                   "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT")


def say(text: str) -> None:
    print(f"notebook: {text}", flush=True)


def span(seconds: float) -> str:
    """A time in words: 45 s, 5 min, 2 h."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


def find_program() -> list[str] | None:
    """The command that starts JupyterLab; None: this node has none."""
    for words in (["jupyter-lab"], ["jupyter", "lab"]):
        path = shutil.which(words[0])
        if path is not None:
            return [path, *words[1:]]
    if importlib.util.find_spec("jupyterlab") is not None:
        return [sys.executable, "-m", "jupyterlab"]
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fill(root: Path, code: Path) -> None:
    """Copies the code into the working directory, unless an earlier attempt has left something there."""
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        return
    for entry in sorted(code.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, root / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, root / entry.name, follow_symlinks=False)


class Server:
    """A running JupyterLab."""

    def __init__(self, program: list[str], root: Path, private: Path):
        self.port = free_port()
        self.token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
        self.root = root
        environment = {name: value for name, value in os.environ.items()
                       if name not in GROUP_VARIABLES and not name.startswith("TORCHELASTIC_")}
        environment |= {"JUPYTER_TOKEN": self.token, "JUPYTER_RUNTIME_DIR": str(private)}
        command = [*program, "--no-browser", "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}",
                   "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"]
        if os.geteuid() == 0:
            command.append("--allow-root")
        self.process = subprocess.Popen(command, cwd=root, env=environment, stdin=subprocess.DEVNULL)

    def get(self, path: str) -> Any:
        """The document at this path of its API; None: it does not answer, or has no such thing."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path, headers={"Authorization": f"token {self.token}"})
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def wait_ready(self) -> bool:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.get("/api") is not None:
                return True
            time.sleep(0.2)
        return False

    def used_at(self) -> float:
        """When it was last used, in seconds since 1970: a kernel computes, somebody has run a cell, typed or saved. Pages that
        are only open do not count. 0: it cannot be told."""
        latest = 0.0
        for entry in [*(self.get("/api/kernels") or []), *(self.get("/api/terminals") or [])]:
            if entry.get("execution_state") in ("busy", "starting"):
                return time.time()
            with contextlib.suppress(KeyError, ValueError, AttributeError):
                moment = datetime.datetime.fromisoformat(entry["last_activity"].replace("Z", "+00:00"))
                latest = max(latest, moment.timestamp())
        return max(latest, self.saved_at())

    def saved_at(self) -> float:
        latest, count = 0.0, 0
        for directory, _, names in os.walk(self.root):
            for name in names:
                with contextlib.suppress(OSError):
                    latest = max(latest, os.stat(os.path.join(directory, name)).st_mtime)
                count += 1
            if count >= FILES_MAX:
                break
        return min(latest, time.time())

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Idleness:
    """When nobody has used it for long enough: first a warning, then the end."""

    def __init__(self, seconds: float, now: float):
        self.seconds = seconds  # 0: never
        self.notice = min(300.0, seconds / 5)
        self.begun = now
        self.is_warned = False

    def look(self, used_at: float, now: float) -> bool:
        """True: it is to end now."""
        if self.seconds == 0:
            return False
        unused = now - max(used_at, self.begun)
        if unused >= self.seconds:
            return True
        if unused >= self.seconds - self.notice and not self.is_warned:
            self.is_warned = True
            say(f"nobody has used it for {span(unused)}; in {span(self.seconds - unused)} it ends and gives its slot back, "
                "unless a cell is run")
        elif unused < self.seconds - self.notice and self.is_warned:
            self.is_warned = False
            say("it is used again")
        return False


def write_place(path: Path, port: int, token: str) -> None:
    """Tells `shoal notebook` where it listens."""
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"port": port, "token": token}, file)
    new.replace(path)


# ---- further slots -----------------------------------------------------------------------------------------------------


def hold_slots() -> list[socket.socket]:
    """Rank 0 of several: the other ranks hold their slots for as long as this connection lives."""
    held: list[socket.socket] = []
    if int(os.environ.get("SHOAL_SIZE", "1")) > 1:
        listener = socket.create_server(("", int(os.environ["MASTER_PORT"])), backlog=64)
        held.append(listener)
    return held


def hold_slot() -> int:
    """Another rank: keeps its slot until rank 0 is gone."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        say("this slot is on another machine than the notebook, whose kernels cannot use it")
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(place, timeout=5) as connection:
                connection.settimeout(None)
                connection.recv(1)
                return 0
        except ConnectionRefusedError:
            time.sleep(0.5)
        except OSError:
            return 0
    return 0


# ---- the whole ---------------------------------------------------------------------------------------------------------


class Ended(Exception):
    """The trial is asked to stop."""


def on_signal(number: int, frame: FrameType | None) -> None:
    raise Ended


def serve(seconds: float) -> int:
    run = Path(os.environ["SHOAL_OUTPUT_DIR"]).parent
    root, private, place = run / "output", run / "notebook", run / "notebook.json"
    program = find_program()
    if program is None:
        say("this node has no JupyterLab; install jupyterlab there, or name a file with that word: "
            "shoal notebook --set environment.requirements=requirements.txt")
        return 1
    fill(root, Path.cwd())
    private.mkdir(mode=0o700, exist_ok=True)
    held = hold_slots()
    server = Server(program, root, private)
    try:
        if not server.wait_ready():
            say("JupyterLab did not start; its own words are above")
            return 1
        write_place(place, server.port, server.token)
        ends = f"; after {span(seconds)} without use it ends" if seconds > 0 else ""
        say(f"JupyterLab runs on {socket.gethostname()}{ends}")
        idleness = Idleness(seconds, time.time())
        while server.process.poll() is None:
            time.sleep(min(LOOK_SECONDS, seconds / 20) if seconds > 0 else LOOK_SECONDS)
            if idleness.look(server.used_at(), time.time()):
                say(f"nobody has used it for {span(seconds)}: it ends and gives its slot back; its files stay "
                    f"(shoal output get {os.environ['SHOAL_EXPERIMENT']}/{os.environ['SHOAL_TRIAL']})")
                return 0
        return server.process.returncode or 0
    except Ended:
        return 0
    finally:
        with contextlib.suppress(OSError):
            place.unlink()
        server.end()
        for connection in held:
            connection.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="shoal._notebook", description="The program of `shoal notebook`.")
    parser.add_argument("--idle", type=float, default=3600, metavar="SECONDS", help="without use it ends; 0: never")
    idle = parser.parse_args(arguments).idle
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        return serve(idle) if os.environ.get("SHOAL_RANK", "0") == "0" else hold_slot()
    except Ended:
        return 0


if __name__ == "__main__":
    sys.exit(main())
