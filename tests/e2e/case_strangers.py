"""Whoever does not belong: bad tokens, keys that nobody vouched for, and noise on every port."""

import base64
import hashlib
import shutil
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from idle_cost import anonymous_bytes
from lab import case, expect, show, wait_over, wait_until
from look import environment_of, is_sanitized, refusal
from mesh import processes_naming

MIB = 1 << 20
PREFIX = "shoal1-"


def token_bytes(token):
    """The part between head and checksum (docs/wire.md, "Invite token"): MessagePack."""
    text = token.removeprefix(PREFIX)
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return bytearray(raw[3:-4])


def token_text(body):
    raw = struct.pack(">BH", 1, len(body) + 7) + bytes(body)
    raw += hashlib.blake2b(raw, digest_size=16).digest()[:4]
    return PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def refused_count(node):
    return sum(node.json("status")["refused"].values())


@case(limit_s=90)
def a_bad_token_is_refused_with_its_reason(lab):
    """The body of a token: bin 16, the mesh id; bin 32 at offset 18, the secret; u32 at 52, the expiry; members."""
    ours, theirs = lab.mesh(["alder", "joiner"], start=False), lab.mesh(["other"])
    alder, joiner = ours.nodes
    alder.run("init", "--name", "lab")
    alder.start()
    good = alder.run("invite").split()[-1]
    body = token_bytes(good)
    expect(token_text(body) == good, "this test does not understand tokens any more")
    foreign = token_bytes(theirs.nodes[0].run("invite").split()[-1])

    refusal(joiner, "join", "nonsense", code=1)
    for kind, token, words in (
            ("garbled", good[:60] + ("A" if good[60] != "A" else "B") + good[61:], "garbled"),
            ("cut", good[:-9], "cut"),
            ("another prefix", good.replace(PREFIX, "shoal9-"), "")):
        said = refusal(joiner, "join", token, code=1)
        expect(words in said and "token" in said, f"{kind}: {said}")
        expect(good[20:60] not in said, f"{kind}: the message gives the token away: {said}")
    expired = alder.run("invite", "--expires", "1s").split()[-1]
    time.sleep(1.2)  # expiry is wall time
    expect("expired" in refusal(joiner, "join", expired, code=None), "an expired token")  # 5 if no member answers in time

    # What a liar could send: every check of the member's own counts.
    before = refused_count(alder)
    extended = token_bytes(expired)
    expect(extended[52] == 0xCE, "the expiry is not where it was")
    extended[53:57] = struct.pack(">I", int(time.time()) + 86400)
    said = refusal(joiner, "join", token_text(extended), code=1)
    expect("expired" in said, said)
    other_mesh, made_up, moved = bytearray(body), bytearray(body), bytes(foreign)
    other_mesh[2:18] = foreign[2:18]
    made_up[20:52] = lab.random.randbytes(32)
    addresses = [node.json("status")["address"].encode() for node in (theirs.nodes[0], alder)]
    moved = moved.replace(struct.pack("B", 0xA0 + len(addresses[0])) + addresses[0],
                          struct.pack("B", 0xA0 + len(addresses[1])) + addresses[1])
    expect(moved != foreign, "this test does not find the address in a token any more")
    liars = lab.mesh(["wrong-mesh", "wrong-secret", "moved-mesh"], start=False).nodes
    with ThreadPoolExecutor() as pool:  # nobody answers such a thing: each waits until it gives up
        for node, said in zip(liars, pool.map(lambda pair: refusal(pair[0], "join", token_text(pair[1]), code=5),
                                              zip(liars, (other_mesh, made_up, moved)))):
            expect("token" in said, f"{node.name}: {said}")
    expect(alder.json("status")["nodes"] == 1, "somebody got in")
    wait_until(lambda: refused_count(alder) >= before + 3, 10, "three refusals to be counted")

    joiner.run("join", good, "--name", "joiner")
    for token in (good, theirs.nodes[0].run("invite").split()[-1]):
        said = refusal(joiner, "join", token, code=1)
        expect("already" in said or "belongs" in said, f"joining twice: {said}")
    joiner.start()
    ours.wait_alive(2)
    expect(len(alder.json("nodes")["nodes"]) == 2, "joining twice made two nodes")


@case(limit_s=60)
def a_key_that_nobody_vouched_for_stays_outside(lab):
    """A directory with all of the mesh's records but another key, and a member's directory of another mesh."""
    mesh = lab.mesh(["alder", "birch", "ghost"], start=False)
    alder, birch, ghost = mesh.nodes
    alder.run("init", "--name", "lab")
    alder.start()
    for node in (birch, ghost):
        node.run("join", alder.run("invite").split()[-1], "--name", node.name)
    birch.start()
    mesh.wait_alive(2)
    other = lab.mesh(["elsewhere"])
    other.nodes[0].kill_daemon()
    shutil.copy(other.nodes[0].dir / "key", ghost.dir / "key")
    before = refused_count(alder)
    ghost.start()
    wait_until(lambda: refused_count(alder) >= before + 3, 20, "alder to refuse the ghost again and again")
    expect(alder.json("status")["nodes_alive"] == 2, f"who is here: {alder.json('nodes')}")
    names = {node["name"]: node["state"] for node in alder.json("nodes")["nodes"]}
    expect(names["ghost"] != "alive", f"the ghost got in: {names}")
    slots = {slot["node_name"] for slot in alder.json("slots")["slots"]}
    expect("ghost" not in slots, f"slots of the ghost: {slots}")
    identity = lab.submit(alder, {"name": "a", "entrypoint": "true", "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 20)
    expect(ghost.json("status")["experiments"] == 0, "the ghost heard of an experiment")


# ---- noise ------------------------------------------------------------------------------------------------------------

GREETING_NULL = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01" + b"NULL".ljust(20, b"\0") + b"\0" * 32
GREETING_CURVE = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" * 32


def hello(random):
    """A CURVE HELLO of the right form whose contents are noise."""
    return b"\x04" + bytes([6 + 194 - 6]) + b"\x05HELLO" + b"\x01\0" + b"\0" * 72 + random.randbytes(32) + b"\0" * 8 + \
        random.randbytes(80)


def noises(random):
    """(name, what is sent, what is sent again and again until the other end hangs up)"""
    return [
        ("nothing", b"", b""),
        ("random bytes", random.randbytes(2000), b""),
        ("half a greeting", GREETING_CURVE[:11], b""),
        ("a greeting", GREETING_CURVE, b""),
        ("no encryption", GREETING_NULL + b"\x04\x05\x05READY", b""),
        ("a wrong hello", GREETING_CURVE + hello(random), b""),
        ("a short hello", GREETING_CURVE + b"\x04\x06\x05HELLO", b""),
        ("a giant frame", GREETING_CURVE + b"\x02" + struct.pack(">Q", 1 << 40), random.randbytes(65536)),
        ("a giant command", GREETING_CURVE + b"\x06" + struct.pack(">Q", 1 << 62), random.randbytes(65536)),
        ("a large frame, slowly", GREETING_CURVE + b"\x02" + struct.pack(">Q", 60000), b"x"),
        ("http", b"GET / HTTP/1.1\r\nHost: shoal\r\n\r\n", b""),
        ("a worker's hello", random.randbytes(4) + b"\0" * 60, random.randbytes(4096)),
    ]


def listening_ports(node):
    """TCP ports that the node's processes, workers included, listen on: sockets by inode (proc(5))."""
    inodes = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            inodes[f"socket:[{fields[9]}]"] = int(fields[1].split(":")[1], 16)
    found = {}
    for pid in {*processes_naming(node.dir), node.daemon.pid}:
        try:
            links = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        role = "daemon" if pid == node.daemon.pid else f"rank {environment_of(pid).get('RANK')}"
        found.update({inodes[link]: role for link in links if link in inodes})
    return found


def shout(ports, random, seconds, per_noise):
    """Makes all kinds of noise on all ports at once for this long; whoever is cut off comes again. Counts connections."""
    until = time.monotonic() + seconds
    made = 0
    crowd = []
    wanted = [(port, noise) for port in ports for noise in noises(random) for _ in range(per_noise)]
    while time.monotonic() < until:
        while wanted:
            port, noise = wanted.pop()
            connection = socket.socket()
            connection.settimeout(2)
            try:
                connection.connect(("127.0.0.1", port))
                connection.setblocking(False)
                if noise[1]:
                    connection.send(noise[1])
                made += 1
                crowd.append((connection, port, noise))
            except OSError:
                connection.close()
        left = []
        for connection, port, noise in crowd:
            try:
                if noise[2]:
                    try:
                        connection.send(noise[2])
                    except BlockingIOError:
                        pass
                try:
                    if connection.recv(65536) == b"":
                        raise ConnectionError
                except BlockingIOError:
                    pass
                left.append((connection, port, noise))
            except OSError:
                connection.close()
                wanted.append((port, noise))
        crowd = left
        time.sleep(0.05)  # the noise is meant for the mesh, not for this test's processor
    for connection, _, _ in crowd:
        connection.close()
    return made


def shout_locally(node, random):
    """Noise on the socket of the command line and the workers. Returns the open connections."""
    made = []
    for noise in [b"", b"\0", b"\xff\xff\xff\xff" + random.randbytes(100), struct.pack(">I", 1 << 20) + b"\x80",
                  struct.pack(">I", 5) + b"\xdf\xff\xff\xff\xff", struct.pack(">I", 0), random.randbytes(3000)] * 4:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(2)
        connection.connect(str(node.dir / "shoald.sock"))
        connection.send(noise)
        made.append(connection)
    return made


@case(limit_s=90, alone=True)
def noise_on_every_port_is_refused_counted_and_forgotten(lab):
    mesh = lab.mesh(2, slots="cpu:1")
    alder, birch = mesh.nodes
    identity = lab.submit(alder, {
        "name": "under-noise", "entrypoint": "shoal-train mlp", "searcher": {"name": "single", "metric": "accuracy"},
        "hyperparameters": {"hidden": 64, "epochs": 8}, "resources": {"slots_per_trial": 2}})
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > 20, 30, "training to begin")
    ports = {port: (node, role) for node in (alder, birch) for port, role in listening_ports(node).items()}
    daemons = [port for port, (_, role) in ports.items() if role == "daemon"]
    expect(len(daemons) == 4, f"a control and a bulk port of each of the two daemons: {ports}")
    quiet = {node.name: anonymous_bytes(node.daemon.pid) for node in mesh.nodes}
    counted = {node.name: refused_count(node) for node in mesh.nodes}
    crowd = [shout_locally(node, lab.random) for node in mesh.nodes]
    made = shout(sorted(ports), lab.random, 4, 4)
    sanitized = is_sanitized(alder.daemon.pid)
    growth_max = (256 if sanitized else 16) * MIB  # a sanitizer keeps as much of what is freed, for a while
    at_once = 4 * len(noises(lab.random)) * len(ports)
    loud = {node.name: anonymous_bytes(node.daemon.pid) for node in mesh.nodes}
    for node in mesh.nodes:
        expect(node.is_running(), f"{node.name} died of noise")
        growth = loud[node.name] - quiet[node.name]
        lab.note(f"{node.name}: {quiet[node.name] / MIB:.1f} MiB, with {made} strangers, {at_once} at once, "
                 f"{loud[node.name] / MIB:.1f} MiB, refused {node.json('status')['refused']}")
        expect(growth < growth_max, f"{node.name} grew by {growth / MIB:.1f} MiB")
        wait_until(lambda: refused_count(node) - counted[node.name] > 20, 10, f"{node.name} to count the noise")
    for connection in sum(crowd, []):
        connection.close()
    trial = wait_over(mesh, identity, 60)["trials"][0]
    expect(trial["attempt"] == 1 and trial["restarts"] == 0, f"the trial was disturbed: {trial}")
    expect(alder.json("status")["nodes_alive"] == 2, "the noise parted the nodes")
    # Again, twice as long: what the first round left behind must not pile up.
    shout(daemons, lab.random, 4, 8)
    again = {node.name: anonymous_bytes(node.daemon.pid) for node in mesh.nodes}
    lab.note(f"after the second round {again}")
    growth_max = growth_max if sanitized else growth_max / 2
    expect(all(again[name] < loud[name] + growth_max for name in again), f"it piles up: {quiet}, {loud}, {again}")
