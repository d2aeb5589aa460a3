"""Attacks on the HTTP door: heads that two programs would read in two ways, the slow, the many; and a trial that must not notice."""

import contextlib
import json
import re
import resource
import selectors
import socket
import subprocess
import threading
import time
from pathlib import Path

from case_http import with_work
from door import DOOR, Door, new_token, python_with, status_of
from idle_cost import anonymous_bytes
from lab import case, expect, read_steps, show, step_log, wait_until
from look import is_sanitized

MIB = 1 << 20
HOST = b"Host: localhost\r\n"
ATTACKS = [  # (status, what is sent)
    (400, b"GET /healthz HTTP/1.1\nHost: localhost\n\n"),
    (400, b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n"),
    (400, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (400, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 30\r\n\r\nabc"),
    (400, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    (400, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Length: +3\r\n\r\nabc"),
    (501, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    (501, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    (400, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    (400, b"GET /healthz HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n"),
    (400, b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n" + HOST + b"\r\n"),
    (400, b"GET /healthz HTTP/1.1\r\n\r\n"),
    (403, b"GET /healthz HTTP/1.0\r\n\r\n"),
    (400, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\r\n folded\r\n\r\n"),
    (400, b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: a\rY: b\r\n\r\n"),
    (400, b"GET /%00 HTTP/1.1\r\n" + HOST + b"\r\n"),
    (400, b"GET /api/v1/experiments/%00 HTTP/1.1\r\n" + HOST + b"\r\n"),
    (400, b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n"),
    (400, b"GET http://localhost/healthz HTTP/1.1\r\n" + HOST + b"\r\n"),
    (400, b"GET http://evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    (501, b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"),
    (501, b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n"),
    (501, b"CONNECT localhost:22 HTTP/1.1\r\n" + HOST + b"\r\n"),
    (505, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
    (501, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (414, b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
    (431, b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 200 + b"\r\n"),
    (431, b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 200000 + b"\r\n\r\n"),
    (403, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    (403, b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:7412\r\n\r\n"),
    (403, b"GET / HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n"),
    (403, b"GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    (404, b"GET /assets/../../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n"),
    (404, b"GET /assets/%2e%2e%2f%2e%2e%2fetc/passwd HTTP/1.1\r\n" + HOST + b"\r\n"),
    (404, b"GET //etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n"),
    (404, b"GET /.git/config HTTP/1.1\r\n" + HOST + b"\r\n"),
    (404, b"GET /api/v1/experiments/..%2f..%2fkey/code HTTP/1.1\r\n" + HOST + b"\r\n"),
    (401, b"GET /api/v1/status HTTP/1.1\r\n" + HOST + b"Authorization: Basic !!!\r\n\r\n"),
    (401, b"GET /api/v1/status HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + b"a" * 7000 + b"\r\n\r\n"),
    (401, b"GET /api/v1/status HTTP/1.1\r\n" + HOST + b"Authorization: Bearer \xff\xfe\r\n\r\n"),
    (415, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"),
    (401, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
    (401, b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    (0, b""),
    (0, b"GET / HTTP/1.1\r\nHost: local"),
    (0, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 40),
]


@case(limit_s=120)
def what_can_be_read_in_two_ways_is_refused_wherever_it_is_cut(lab):
    return try_attacks(lab, Door(lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]))


def try_attacks(lab, door, halves=True):
    """`halves`: also heads that never get whole, which takes 10 s."""
    said = []
    for wanted, sent in ATTACKS:
        for cuts in (0, 3):
            places = sorted(lab.random.randrange(len(sent) + 1) for _ in range(cuts))
            parts = [sent[a:b] for a, b in zip([0, *places], [*places, len(sent)])]
            if wanted == 0:
                continue
            got = door.raw(*parts, pause_s=0.01 if cuts else 0)
            head, _, body = got.partition(b"\r\n\r\n")
            expect(status_of(got) == wanted, f"{sent[:80]!r} cut at {places}: {got[:300]!r}")
            expect(len(re.findall(rb"HTTP/1\.1 \d{3} ", got)) == 1 and b"Connection: close" in head, f"{sent[:80]!r}: {got[:300]!r}")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            expect(length == len(body) and json.loads(body)["status"] == wanted, f"{sent[:80]!r}: {got!r}")
        said.append(f"{wanted} {sent[:60]!r}")
    crowd = [door_socket(door, sent) for wanted, sent in ATTACKS if wanted == 0 and halves]
    expect(door.get("/healthz", token=None).status == 200, "the door answers beside those that say nothing")
    for connection in crowd:
        connection.settimeout(15)
        with contextlib.suppress(ConnectionError):
            got = connection.recv(4096)
            expect(got == b"" or status_of(got) >= 400, f"half a head got {got!r}")
        connection.close()
    second = (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\nGET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n",
              b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n\r\nGET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n",
              b"GET /healthz HTTP/1.1\r\n" + HOST + b"Connection: keep-alive\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n" + HOST + b"\r\n")
    for sent in second:
        got = door.raw(sent)
        expect(len(re.findall(rb"HTTP/1\.1 \d{3} ", got)) == 1 and b'"openapi"' not in got,
               f"a second request is answered: {got[:500]!r}")
    long = b"GET /healthz HTTP/1.1\r\n" + HOST + b"".join(
        b"X-%03d: %s\r\n" % (i, b"y" * 320) for i in range(95)) + b"\r\n"
    expect(30000 < len(long) < 32768 and status_of(door.raw(long)) == 200, "a head of almost 32 KiB")
    expect(status_of(door.raw(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"y" * (32768 - 47) + b"\r\n\r\n")) in (200, 431), "a head of 32 KiB")
    lab.note("\n".join(said))
    return f"{len(ATTACKS) + len(second)} attacks"


def door_socket(door, sent=b""):
    connection = door.connect()
    if sent:
        connection.sendall(sent)
    return connection


def ask_beside(door, seconds, path="/api/v1/status"):
    """Good requests for so long, one after the other; returns how long each took."""
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        answer = door.get(path, timeout=20)
        expect(answer.status == 200, f"a good request gets {answer}")
        took.append(time.monotonic() - began)
        time.sleep(0.05)
    return sorted(took)


class Drip:
    """Connections that send a byte a second; those that are cut off come again."""

    def __init__(self, door, count, begin):
        self.door, self.count, self.begin = door, count, begin
        self.stop, self.made = threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        crowd = []
        while not self.stop.is_set():
            while len(crowd) < self.count and not self.stop.is_set():
                with contextlib.suppress(OSError):
                    crowd.append(door_socket(self.door, self.begin))
                    self.made += 1
            left = []
            for connection in crowd:
                try:
                    connection.setblocking(False)
                    connection.send(b"x")
                    with contextlib.suppress(BlockingIOError):
                        if connection.recv(4096) == b"":
                            raise ConnectionError
                    left.append(connection)
                except OSError:
                    connection.close()
            crowd = left
            self.stop.wait(1)
        for connection in crowd:
            connection.close()

    def end(self):
        self.stop.set()
        self.thread.join()
        return self.made


@case(limit_s=90)
def those_who_send_a_byte_a_second_keep_nobody_out(lab):
    """300 heads, then 300 bodies: both are more than the door serves at a time."""
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    door = Door(node)
    body = b"POST /api/v1/invites HTTP/1.1\r\n" + HOST + b"Authorization: Bearer shoal_0\r\nContent-Type: application/json\r\n" + \
        b"Content-Length: 1000000\r\n\r\n"
    for what, begin in (("heads", b"GET / HTTP/1.1\r\nX: "), ("bodies", body)):
        drip = Drip(door, 300, begin)
        try:
            wait_until(lambda: drip.made >= 300, 20, f"300 slow {what}")
            took = ask_beside(door, 8)
        finally:
            made = drip.end()
        lab.note(f"{len(took)} good requests beside {made} slow {what}: median {took[len(took) // 2]:.3f} s, longest {took[-1]:.3f} s")
    expect(node.is_running() and door.process() is not None, "somebody has ended")
    return "; ".join(lab.notes)


@case(limit_s=90)
def a_stream_whose_reader_is_gone_or_slow_is_cut_off(lab):
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    identity = lab.submit(node, {"name": "loud", "entrypoint": "while true; do head -c 60000 /dev/zero | tr '\\0' 'x'; echo; sleep 0.02; done",
                                 "searcher": {"name": "single", "metric": "loss"}})
    wait_until(lambda: show(lab.meshes[0], identity)["trials"][0]["state"] == "running", 20, "the trial to run")
    door = Door(node)
    gone = [door.stream(f"/experiments/{identity}/watch") for _ in range(10)]
    for stream in gone:
        next(stream)
    beside = descriptors(node) - len(gone)
    for stream in gone:
        stream.close()
    wait_until(lambda: descriptors(node) <= beside, 10, "streams whose readers are gone to end")  # not with the next comment, after 15 s
    memory = anonymous_bytes(node.daemon.pid)
    slow = [door_socket(door) for _ in range(20)]
    for connection in slow:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET /api/v1/experiments/{identity}/trials/0/logs?follow=true HTTP/1.1\r\nHost: localhost\r\n"
                           f"Authorization: Bearer {door.token}\r\n\r\n".encode())
    took = ask_beside(door, 15)
    beside = descriptors(node) - len(slow)
    growth = anonymous_bytes(node.daemon.pid) - memory
    lab.note(f"beside 20 readers that do not read the daemon grew by {growth / MIB:.1f} MiB, a request took {took[-1]:.3f} s at most")
    expect(is_sanitized(node.daemon.pid) or growth < 20 * 4 * MIB, f"the daemon grew by {growth / MIB:.1f} MiB for 20 readers that do not read")
    for connection in slow:
        connection.close()
    wait_until(lambda: descriptors(node) <= beside, 20, "slow readers to be forgotten")
    return lab.notes[-1]


def descriptors(node):
    return len(list(Path(f"/proc/{node.daemon.pid}/fd").iterdir()))


def last_line(stream):
    """The number of the last line in the stream's next piece that has any."""
    return next(data["events"][-1]["seq"] for _, _, data in stream if data["events"])


@case(limit_s=240, alone=True, whole=True)
def two_hundred_live_streams_are_all_served(lab):
    node = lab.mesh(1, slots="cpu:1", options=DOOR).nodes[0]
    door = Door(node)
    process = door.process()
    before = anonymous_bytes(node.daemon.pid), anonymous_bytes(process)
    streams = [door.stream("/events?follow=true&from=1", timeout=60) for _ in range(200)]
    lines = [0] * len(streams)
    for i, stream in enumerate(streams):
        lines[i] = last_line(stream)
    grown = [(now - then) / MIB for now, then in zip((anonymous_bytes(node.daemon.pid), anonymous_bytes(process)), before)]
    late = []
    for _ in range(20):
        began = time.monotonic()
        node.run("withhold", "0")
        node.run("withhold", "0", "--return", check=False)
        wanted = node.json_lines("events")[-1].get("seq") or node.json_lines("events")[-1]["events"][-1]["seq"]
        for i, stream in enumerate(streams):
            while lines[i] < wanted:
                lines[i] = last_line(stream)
        late.append(time.monotonic() - began)
    door_took = ask_beside(door, 2)
    for stream in streams:
        stream.close()
    lab.note(f"200 streams: the daemon grew by {grown[0]:.1f} MiB, the door by {grown[1]:.1f} MiB; a line reached all within "
             f"{sorted(late)[10]:.2f} s (median; with two commands), {max(late):.2f} s at most; a request beside them took "
             f"{door_took[-1]:.3f} s at most")
    expect(is_sanitized(process) or sum(grown) < 60, lab.notes[-1])
    return lab.notes[-1]


def crowd_of(door, count, seconds):
    """So many connections at once, each sending some bytes of a head now and then; who is cut off comes again. Returns how many were made."""
    selector, made, opened = selectors.DefaultSelector(), 0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        while opened < count and time.monotonic() < until:
            connection = socket.socket()
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect((door.host, door.port))
            selector.register(connection, selectors.EVENT_WRITE)
            opened, made = opened + 1, made + 1
            if made % 256 == 0:
                break
        for key, events in selector.select(0.05):
            try:
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(b"GET / HTTP/1.1\r\nHost: lo")
                    selector.modify(key.fileobj, selectors.EVENT_READ)
                elif key.fileobj.recv(4096) == b"":
                    raise ConnectionError
            except OSError:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                opened -= 1
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    return made


@case(limit_s=240, alone=True, whole=True)
def five_thousand_strangers_disturb_neither_trial_nor_daemon(lab):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    mesh = lab.mesh(2, slots="cpu:1", options=DOOR)
    node, other = mesh.nodes
    door = Door(node)
    log = lab.dir / "steps"
    identity = lab.submit(node, {"name": "undisturbed", "entrypoint": f"{step_log(log)} shoal-train mlp",
                                 "searcher": {"name": "single", "metric": "accuracy"}, "hyperparameters": {"hidden": 64, "epochs": 2000}})

    def pace(seconds):
        """Milliseconds a step."""
        first = read_steps(log, identity)[-1]
        time.sleep(seconds)
        last = read_steps(log, identity)[-1]
        return (last.us - first.us) / 1000 / max(1, last.step - first.step)

    wait_until(lambda: log.parent.glob("steps.*") and len(read_steps(log, identity)) > 20, 40, "training to begin")
    quiet = pace(8)
    memory = anonymous_bytes(node.daemon.pid), anonymous_bytes(door.process())
    counters = other.json("status")["refused"]
    result = {}
    crowd = threading.Thread(target=lambda: result.update(made=crowd_of(door, 5000, 25)))
    crowd.start()
    time.sleep(5)
    loud = pace(8)
    took = ask_beside(door, 8)
    held = anonymous_bytes(node.daemon.pid), anonymous_bytes(door.process())
    crowd.join()
    grown = [(now - then) / MIB for now, then in zip(held, memory)]
    lab.note(f"beside {result['made']} connections of strangers, 5,000 at once: a step {loud:.2f} ms instead of {quiet:.2f} ms, the "
             f"daemon grew by {grown[0]:.2f} MiB, the door by {grown[1]:.2f} MiB, a good request took {took[len(took) // 2]:.3f} s (median), "
             f"{took[-1]:.3f} s at most")
    expect(node.json("status")["nodes_alive"] == 2 and other.json("status")["nodes_alive"] == 2, "the nodes have lost each other")
    trial = show(mesh, identity)["trials"][0]
    expect(trial["attempt"] == 1 and trial["state"] == "running", f"the trial was disturbed: {trial}")
    expect(other.json("status")["refused"] == counters, "the other node refused something")
    expect(grown[0] < 4, lab.notes[-1])
    return lab.notes[-1]


@case(limit_s=600, alone=True, whole=True)
def no_request_that_the_document_allows_ends_with_500(lab):
    """schemathesis draws requests from openapi.json for five minutes; of streams, which have no end, other cases tell."""
    python = python_with("schemathesis-venv", "schemathesis==3.39.16", "hypothesis==6.122.3", limit_s=500)
    node, door, _, _ = with_work(lab)
    reader = new_token(node, "tool", "--read-only")
    (lab.dir / "said").mkdir()
    for token, seconds in ((reader, 100), (door.token, 200)):
        command = ["timeout", str(seconds), python, "-m", "schemathesis.cli", "run", f"http://{door.host}:{door.port}/api/v1/openapi.json", "-H",
                   f"Authorization: Bearer {token}", "--checks",
                   "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                   "--hypothesis-max-examples", "40", "--request-timeout", "70000", "--exclude-path-regex", "/(leave|events|watch|wait|logs)$",
                   "--experimental", "openapi-3.1", "--hypothesis-suppress-health-check", "all"]
        done = subprocess.run(command, cwd=lab.dir / "said", capture_output=True, text=True, timeout=seconds + 60)
        expect(done.returncode in (0, 124), f"schemathesis: {done.stdout[-6000:]}{done.stderr[-1000:]}")
        lab.note(done.stdout[-400:])
    expect(node.is_running() and door.get("/api/v1/status").status == 200, "somebody has ended")
