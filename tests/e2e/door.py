"""The HTTP door of a node, as browsers, programs and strangers use it."""

import contextlib
import http.client
import json
import re
import socket
import ssl
import subprocess
import time
from pathlib import Path

from lab import Skip, expect, wait_until
from mesh import ROOT

DOOR = ["--http", "127.0.0.1:0"]


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Door:
    """A node's door, with a token for all or another one."""

    def __init__(self, node, token=None):
        self.node = node
        self.tls = None
        self.host, self.port = self.find()
        self.token = token if token is not None else new_token(node, "tests")

    def find(self):
        url = wait_until(lambda: self.node.json("open")["url"], 20, f"the door of {self.node.name}")
        scheme, host, port = re.match(r"(https?)://([^/]+):(\d+)/login\?code=[0-9a-f]{32}$", url).groups()
        if scheme == "https":
            self.tls = ssl.create_default_context(cafile=self.node.dir / "http.pem")
        return host, int(port)

    def connect(self, timeout=5):
        """A connection; by TLS, if the door speaks it."""
        connection = socket.create_connection((self.host, self.port), timeout=timeout)
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_hostname=self.host)

    def client(self, timeout):
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.tls)

    def ask(self, method, path, body=None, token=True, timeout=30, **fields):
        """One request; `token`: ours, none (None) or another one. Names of fields have _ for -."""
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        if token is not None:
            fields["Authorization"] = f"Bearer {self.token if token is True else token}"
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            fields.setdefault("Content-Type", "application/json")
        connection = self.client(timeout)
        try:
            connection.request(method, path, body=body, headers=fields)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, body={} if body is None else body, **options)

    def document(self, path):
        answer = self.get(f"/api/v1{path}")
        expect(answer.status == 200, f"GET {path}: {answer}")
        return answer.json()

    def raw(self, *parts, timeout=5, pause_s=0.0):
        """Sends bytes as they are, and returns all that comes back until the other end hangs up."""
        with self.connect(timeout) as connection:
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause_s)
            got = b""
            with contextlib.suppress(ConnectionError):
                while (more := connection.recv(65536)) != b"":
                    got += more
            return got

    def stream(self, path, timeout=30, **fields):
        return Stream(self, path, timeout, fields)

    def process(self):
        """The id of shoal-http."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    stat = (entry / "stat").read_text()
                    if "(shoal-http)" in stat and int(stat.rsplit(")", 1)[1].split()[1]) == self.node.daemon.pid:
                        return int(entry.name)
        return None


class Stream:
    """A stream of events: an iterator over (id, event, data)."""

    def __init__(self, door, path, timeout, fields):
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection = door.client(timeout)
        self.connection.request("GET", f"/api/v1{path}", headers={
            "Authorization": f"Bearer {door.token}", "Accept": "text/event-stream", **fields})
        self.response = self.connection.getresponse()
        self.comments = 0
        expect(self.response.status == 200 and self.response.headers["Content-Type"] == "text/event-stream",
               f"{path} is no stream: {self.response.status} {self.response.headers}")

    def __iter__(self):
        return self

    def __next__(self):
        identity, event, data = None, "message", None
        while True:
            line = self.response.readline()
            if line == b"":
                raise StopIteration
            line = line.decode().rstrip("\n")
            if line.startswith(":"):
                self.comments += 1
            elif line.startswith("id: "):
                identity = int(line[4:])
            elif line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif line == "" and data is not None:
                return identity, event, data

    def close(self):
        self.connection.close()
        self.response.close()


def new_token(node, name, *options):
    return node.run("token", "create", "--name", name, *options).strip()


def status_of(answer):
    """The status in raw bytes; 0 if there is none."""
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else 0


def log_in(door, *options):
    """Opens a link as a browser does: the cookie, NAME=VALUE."""
    url = door.node.json("open", *options)["url"]
    answer = door.get(url[url.index("/login"):], token=None)
    expect(answer.status == 303 and answer.fields["Location"] == "/", f"the link is not taken: {answer}")
    return answer.fields["Set-Cookie"].split(";")[0]


def python_with(directory, *packages, limit_s=300):
    """The interpreter of a small virtual environment, kept under build/ for later runs. Raises Skip without a network."""
    place = ROOT / "build" / directory
    python = place / "bin" / "python"
    made = [["/usr/bin/python3", "-m", "venv", place]] if not python.exists() else []
    if not all((place / f"has-{wanted}").exists() for wanted in packages):
        made.append([python, "-m", "pip", "install", "-q", *packages])
    for command in made:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
        if done.returncode != 0:
            raise Skip(f"{' '.join(packages)} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    for wanted in packages:
        (place / f"has-{wanted}").touch()
    return str(python)
