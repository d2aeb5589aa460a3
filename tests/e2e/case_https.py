"""The door for other machines: its certificate, who trusts it and who must not, and the attacks of case_http_attacks once more."""

import contextlib
import json
import re
import resource
import socket
import ssl
import subprocess
import sys

from case_http_attacks import ask_beside, try_attacks
from door import Door, log_in, status_of
from idle_cost import anonymous_bytes
from lab import Refused, case, expect, wait_over, wait_until
from look import events_of, is_sanitized

MIB = 1 << 20
PORT = 7412
FALSE_DOOR = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
listening = socket.create_server(("0.0.0.0", int(sys.argv[2])))
print("listens", flush=True)
while True:
    connection, _ = listening.accept()
    try:
        context.wrap_socket(connection, server_side=True).close()
    except OSError:
        pass
"""


def free_port():
    with socket.socket() as found:
        found.bind(("0.0.0.0", 0))
        return found.getsockname()[1]


def door_for_others(lab, options=()):
    """A node whose door listens at all addresses of this machine."""
    node = lab.mesh(1, slots="cpu:1", options=["--http", f"0.0.0.0:{free_port()}", *options]).nodes[0]
    return node, Door(node)


def curl(wire, name, *arguments):
    """What curl says in a node's namespace, and its exit status."""
    done = subprocess.run(["ip", "netns", "exec", name, "curl", "-sS", "--max-time", "20", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def told(node, about):
    """What the mesh knows of the door of `about`, as `node` sees it."""
    return next(row["https"] for row in node.json("nodes")["nodes"] if row["name"] == about.name)


@case(limit_s=90)
def another_machine_reaches_the_door_by_the_certificate_that_the_mesh_knows(lab):
    mesh, wire = lab.wired(["alder", "birch"], slots="cpu:1", options=["--http", f"0.0.0.0:{PORT}"])
    mesh.start()
    alder, birch = mesh.nodes
    here, address = wire.names[1], wire.address(1)
    wait_until(lambda: told(alder, birch), 20, "alder to know of birch's door")
    file = alder.tree / "certificates" / "birch.pem"
    file.parent.mkdir()
    made = alder.json("connect", "birch", "--out", file)
    expect(made["url"] == f"https://{address}:{PORT}" and made["file"] == str(file) and made["name"] == "birch", f"{made}")
    expect(made["certificate"] == told(birch, birch)["certificate"] == told(alder, birch)["certificate"], f"{made}")
    expect((birch.dir / "http.pem").stat().st_mode & 0o777 == 0o600 and file.read_text() in (birch.dir / "http.pem").read_text(), "the files")
    token = birch.run("token", "create", "--name", "curl").strip()
    for host in (address, f"birch:{PORT} --connect-to birch:{PORT}:{address}:{PORT}"):
        url, *rest = f"https://{host if ':' in host else f'{host}:{PORT}'}".split(" ")
        code, said = curl(wire, here, "--cacert", file, "-H", f"Authorization: Bearer {token}", *rest, f"{url}/api/v1/session")
        expect(code == 0 and json.loads(said)["name"] == "birch", f"{url}: {code} {said}")
    code, said = curl(wire, here, f"https://{address}:{PORT}/healthz")
    expect(code == 60, f"curl takes a certificate that it was not told of: {code} {said}")
    code, said = curl(wire, here, "--cacert", file, f"https://elsewhere:{PORT}/healthz", "--connect-to", f"elsewhere:{PORT}:{address}:{PORT}")
    expect(code == 60, f"the certificate is good for any name: {code} {said}")
    code, said = curl(wire, here, "--cacert", file, "-H", "Host: evil.example", f"https://{address}:{PORT}/healthz")
    expect(code == 0 and json.loads(said)["status"] == 403, f"another Host: {code} {said}")
    code, said = curl(wire, here, f"http://{address}:{PORT}/healthz")
    expect(code == 0 and "speaks HTTPS only" in said and "OK" not in said, f"plain HTTP: {code} {said}")
    for version in ("1.0", "1.1"):
        code, said = curl(wire, here, "--cacert", file, "--ciphers", "DEFAULT@SECLEVEL=0", "--tls-max", version, f"https://{address}:{PORT}/healthz")
        expect(code == 35, f"TLS {version} is taken: {code} {said}")
    lines = alder.run("connect", "birch").splitlines()
    script = "\n".join([*lines, 'curl -sS "$MLFLOW_TRACKING_URI/healthz"'])
    expect(wire.inside(here, "sh", "-c", f"cd {alder.tree} && {script}").strip() == "OK", f"what connect prints: {lines}")
    expect(f"MLFLOW_TRACKING_SERVER_CERT_PATH='{alder.tree}/birch.pem'" in "\n".join(lines), f"{lines}")

    birch.kill_daemon()  # and somebody else takes the port
    false = subprocess.Popen(["ip", "netns", "exec", wire.names[2], sys.executable, "-c", FALSE_DOOR, alder.dir / "http.pem", str(PORT)],
                             stdout=subprocess.PIPE)
    lab.at_end.append(false.kill)
    false.stdout.readline()
    nothing = alder.tree / "nothing.pem"
    try:
        alder.run("connect", "birch", "--out", nothing)
        raise AssertionError("another certificate is taken")
    except Refused as error:
        expect("another certificate" in str(error) and not nothing.exists(), f"{error}")
    false.kill()
    false.wait()
    birch.options += ["--http-host", "birch.lab.example"]
    birch.start()
    wait_until(lambda: told(alder, birch)["certificate"] != made["certificate"], 20, "alder to hear of the new certificate")
    again = alder.json("connect", "birch", "--out", file)
    expect(again["certificate"] != made["certificate"], "a name more asks for a new certificate")
    expect(sum("new certificate" in line for line in events_of(birch)) >= 1, "the new certificate is told")
    return f"curl, TLS 1.2 and later; {len(lines)} lines to tell a shell"


@case(limit_s=60)
def a_node_without_a_door_for_others_cannot_be_connected_to(lab):
    node = lab.mesh(1, slots="cpu:1", options=["--http", "127.0.0.1:0"]).nodes[0]
    expect(told(node, node) is None, "a door for this machine only is told")
    try:
        node.run("connect", node.name)
        raise AssertionError("a certificate is written")
    except Refused as error:
        expect("no door for other machines" in str(error) and "--http 0.0.0.0:7412" in str(error), f"{error}")
    node.kill_daemon()
    node.options = ["--http", f"0.0.0.0:{free_port()}", "--http-plain"]
    node.start()
    plain = Door(node)
    expect(plain.tls is None and told(node, node) is None and plain.get("/api/v1/status").status == 200, "--http-plain")
    expect("Secure" not in plain.get(node.json("open")["url"].split(str(plain.port))[1], token=None).fields["Set-Cookie"], "its cookie")


@case(limit_s=60)
def a_browser_here_gets_a_session_at_the_door_of_another_node(lab):
    alder, birch = lab.mesh(2, slots="cpu:1").nodes
    for words in (["open", "--node", "birch"], ["open", "--node", "birch", "--json"]):
        try:
            alder.run(*words)
            raise AssertionError("there is a link to a door for the other machine only")
        except Refused as error:
            expect("birch has no door for other machines" in str(error) and "ssh -L" in str(error), f"{error}")
    birch.kill_daemon()
    birch.options = ["--http", f"0.0.0.0:{free_port()}"]
    birch.start()
    door = Door(birch)
    wait_until(lambda: told(alder, birch), 20, "alder to know of birch's door")
    wait_until(lambda: all(row["state"] == "alive" for row in alder.json("nodes")["nodes"]), 20, "alder to hear of birch")
    link = alder.json("open", "--node", "birch", "--read-only")
    expect(link["certificate"] == told(birch, birch)["certificate"], f"{link}")
    path = link["url"][link["url"].index("/login"):]
    cookie = door.get(path, token=None).fields["Set-Cookie"].split(";")[0]
    session = door.get("/api/v1/session", token=None, Cookie=cookie).json()
    expect(session["name"] == "birch" and session["is_session"] and session["read_only"], f"{session}")
    expect(door.get(path, token=None).status == 401, "the link works twice")
    expect(any("shoal open --node" in line for line in events_of(birch)), "birch tells of it")


TRUSTING = """
import json, os, ssl, urllib.request
context = ssl.create_default_context(cafile=os.environ["MLFLOW_TRACKING_SERVER_CERT_PATH"])
request = urllib.request.Request(os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/get?run_id=" + os.environ["MLFLOW_RUN_ID"],
                                 headers={"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]})
print("RUN", json.load(urllib.request.urlopen(request, context=context))["run"]["info"]["run_id"] == os.environ["MLFLOW_RUN_ID"])
"""


@case(limit_s=60)
def a_program_trusts_the_door_of_its_node(lab):
    node, _ = door_for_others(lab)
    identity = lab.submit(node, {"entrypoint": f"{sys.executable} trusting.py", "searcher": {"name": "single", "metric": "loss"}},
                          {"trusting.py": TRUSTING})
    wait_over(None, identity, 40, viewer=node)
    expect("RUN True" in node.run("logs", f"{identity}/0"), node.run("logs", f"{identity}/0"))
    expect((node.dir / "http-certificate.pem").read_text().count("PRIVATE") == 0, "the key is in the file that anybody may read")


@case(limit_s=120)
def what_is_refused_in_clear_is_refused_by_https(lab):
    node, door = door_for_others(lab)
    expect(door.tls is not None, "the door speaks plain HTTP")
    link = node.json("open")["url"]
    cookie = door.get(link[link.index("/login"):], token=None).fields["Set-Cookie"]
    expect(all(part in cookie for part in ("; Secure", "HttpOnly", "SameSite=Strict", "Path=/")), f"{cookie}")
    cookie = log_in(door)
    csrf = door.get("/api/v1/session", token=None, Cookie=cookie).json()["csrf"]
    for origin, wanted in ((f"https://{door.host}:{door.port}", 200), (f"http://{door.host}:{door.port}", 403), ("https://evil.example", 403)):
        answer = door.post("/api/v1/invites", {"expires_s": 60}, token=None, Cookie=cookie, X_Shoal_CSRF=csrf, Origin=origin)
        expect(answer.status == wanted, f"from {origin}: {answer}")
    expect(door.get("/healthz", token=None, Host="10.1.2.3:7412").status == 200, "a numeric address, which nobody can make resolve anew")
    expect(door.get("/healthz", token=None, Host="rebound.example").status == 403, "a name that is not ours")
    with socket.create_connection((door.host, door.port), timeout=5) as clear:
        clear.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        expect(status_of(clear.recv(4096)) == 400, "plain HTTP at an HTTPS door")
    large = door.post("/api/v1/tokens", {"name": "x" * (1 << 20)})
    expect(large.status == 413, f"a body of more than 1 MiB: {large}")
    stream = door.stream("/events?follow=true&from=1")
    expect(next(stream)[2]["events"], "a stream")
    stream.close()
    return try_attacks(lab, door, halves=False)


@case(limit_s=60)
def a_connection_takes_further_requests_behind_files_of_the_pages_only(lab):
    _, door = door_for_others(lab)
    host = b"Host: localhost\r\n"
    file = b"GET /assets/dom.js HTTP/1.1\r\n" + host + b"\r\n"
    other = b"GET /api/v1/openapi.json HTTP/1.1\r\n" + host + b"\r\n"
    post = b"POST /api/v1/invites HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    chunks = b"GET /assets/dom.js HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with_body = b"GET /assets/dom.js HTTP/1.1\r\n" + host + b"Content-Length: %d\r\n\r\n" % len(other) + other
    for sent, wanted in ((file + file + other, [200, 200, 200]),
                         (other + file, [200]),
                         (file + post + other, [200, 401]),
                         (with_body, [200]), (with_body + other, [200]), (chunks + other, [200]), (file + chunks + other, [200, 200]),
                         (file + b"GET /assets/dom.js HTTP/1.0\r\n" + host + b"\r\n" + other, [200, 200]),
                         (file + b"\r\n" + other, [200]),
                         (file + other.replace(b"\r\n", b"\n"), [200]),
                         (file + other[:-2] + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", [200]),
                         (file + b"GET /assets/dom.js HTTP/1.1\r\n" + host + host + b"\r\n" + other, [200]),
                         (file + b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + other, [200, 403])):
        places = sorted(lab.random.randrange(len(sent) + 1) for _ in range(3))
        got = door.raw(*[sent[a:b] for a, b in zip([0, *places], [*places, len(sent)])], pause_s=0.01)
        statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]
        expect(statuses == wanted, f"{sent!r} cut at {places} gets {statuses}: {got[:200]!r}")
    client = door.client(10)
    for path in ("/assets/app.js", "/assets/style.css", "/assets/nothing.js"):
        client.request("GET", path)
        response = client.getresponse()
        response.read()
        expect((response.headers["Connection"] == "close") == (response.status == 404), f"{path}: {response.status} {response.headers}")
    client.close()


def hello():
    """The first bytes of a client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def crowd(door, count, sent):
    """So many connections that begin a handshake and go no further."""
    made = []
    for _ in range(count):
        connection = socket.socket()
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            connection.connect((door.host if door.host != "localhost" else "127.0.0.1", door.port))
            connection.sendall(sent)
            made.append(connection)
            continue
        connection.close()
    return made


def unfinished_handshakes(lab, count, seconds):
    """Beside so many of either kind; returns by how much the door's process grew at most."""
    node, door = door_for_others(lab)
    process = door.process()
    before, most = anonymous_bytes(process), 0
    for what, sent in (("halves of a hello", hello()[:100]), ("hellos", hello()), ("nothing", b""), ("noise", b"\x16\x03\x01\x40\0" + b"x" * 600)):
        strangers = crowd(door, count, sent)
        took = ask_beside(door, seconds)
        most = max(most, anonymous_bytes(process) - before)
        lab.note(f"beside {len(strangers)} strangers with {what}: {len(took)} requests, median {took[len(took) // 2]:.3f} s, longest {took[-1]:.3f} s")
        for connection in strangers:
            connection.close()
    expect(node.is_running() and door.process() == process, "the door has ended")
    expect(is_sanitized(process) or most < 64 * MIB, f"the door grew by {most / MIB:.1f} MiB")
    lab.note(f"the door grew by {most / MIB:.1f} MiB at most")
    return "; ".join(lab.notes)


@case(limit_s=90)
def unfinished_handshakes_keep_nobody_out(lab):
    return unfinished_handshakes(lab, 300, 1)


@case(limit_s=300, alone=True, whole=True)
def five_thousand_unfinished_handshakes_are_bounded(lab):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    return unfinished_handshakes(lab, 5000, 3)
