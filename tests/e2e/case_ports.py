"""The ports of a mesh: few, known ones, each given once."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time

from case_owners import slots_of
from lab import Skip, case, command, expect, show, trial_states, wait_until

LISTENER = """
import os, socket, time
if os.environ["RANK"] == "0":
    server = socket.socket()  # without SO_REUSEADDR
    server.bind(("0.0.0.0", int(os.environ["MASTER_PORT"])))
    server.listen()
    print("port", os.environ["MASTER_PORT"], flush=True)
time.sleep(float(os.environ["SECONDS"]))
"""


def ports_of_trials(lab, rounds, seconds):
    """Eight trials of two ranks at once, whose first ranks listen, where the system has 40 ports for connections."""
    mesh, wire = lab.wired(["alder"], slots="cpu:16")
    wire.inside(wire.names[1], "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40039")
    mesh.start()
    alder = mesh.nodes[0]
    for turn in range(rounds):
        config = {"name": f"round {turn}", "entrypoint": "python3 listener.py", "resources": {"slots_per_trial": 2},
                  "environment": {"variables": {"SECONDS": str(seconds)}}, "max_restarts": 0,
                  "searcher": {"name": "single", "metric": "x"}}
        ids = [lab.submit(alder, config, {"listener.py": LISTENER}) for _ in range(8)]
        for identity in ids:
            alder.run("wait", identity, "--timeout", 60 + 3 * seconds, timeout=120 + 3 * seconds)
        ports = []
        for identity in ids:
            trial = show(mesh, identity)["trials"][0]
            expect(trial["state"] == "completed" and trial["restarts"] == 0 and trial["attempt"] == 1,
                   f"not completed at once: {trial_states(show(mesh, identity))}")
            ports += re.findall(r"port (\d+)", alder.run("logs", f"{identity}/0"))
        expect(len(ports) == 8 and len(set(ports)) == 8, f"ports of round {turn}: {ports}")
        expect(all(7413 <= int(port) <= 7612 for port in ports), f"a port is outside the range: {ports}")


@case(limit_s=120)
def trials_of_one_machine_have_ports_of_their_own(lab):
    ports_of_trials(lab, 1, 2)


@case(limit_s=600, whole=True)
def trials_of_one_machine_have_ports_of_their_own_in_five_rounds(lab):
    ports_of_trials(lab, 5, 20)


def listeners(wire, index):
    """The TCP ports on which somebody listens in a node's namespace."""
    rows = [line.split() for line in wire.inside(wire.names[index + 1], "cat", "/proc/net/tcp").splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}


@case(limit_s=120)
def a_trial_waits_while_all_ports_are_in_use_and_the_bulk_port_stays(lab):
    """One port is left for two trials; a daemon that comes back has its old port."""
    mesh, wire = lab.wired(["alder"], slots="cpu:2", options=["--ports", "7700-7702"])
    alder = mesh.nodes[0]
    mesh.start()
    expect(7700 in listeners(wire, 0), "the bulk socket is not at the first port")
    alder.kill_daemon()
    with socket_at(wire, 7700) as stranger:
        alder.start()
        expect(7701 in listeners(wire, 0), "the bulk socket did not pass over a port that is in use")
        stranger.kill()
    alder.kill_daemon()
    alder.start()
    expect({7700, 7701} & listeners(wire, 0) == {7701}, "the restarted daemon has another bulk port")
    with socket_at(wire, 7700):
        config = {"name": "one", "entrypoint": "sh wait.sh", "searcher": {"name": "single", "metric": "x"}, "max_restarts": 0}
        first = lab.submit(alder, config, {"wait.sh": f"until [ -e {lab.dir}/go ]; do sleep 0.1; done; echo $MASTER_PORT"})
        wait_until(lambda: show(mesh, first)["trials"][0]["state"] == "running", 30, "the first trial to run")
        second = lab.submit(alder, config, {"wait.sh": "echo $MASTER_PORT"})
        wait_until(lambda: "waits for a port" in alder.run("events"), 30, "an event to tell that a worker waits")
        (lab.dir / "go").touch()
        for identity in (first, second):
            alder.run("wait", identity, "--timeout", 60)
            expect(show(mesh, identity)["trials"][0]["restarts"] == 0, "a restart was counted")
            log = alder.run("logs", f"{identity}/0").split()
            expect(log[-1:] == ["7702"], f"the trial has another port: {log}")

@case(limit_s=90)
def a_cancel_ends_a_trial_that_waits_for_a_port_at_once(lab):
    """The only port of the range is in use; a worker would wait for it for 20 s."""
    mesh, wire = lab.wired(["alder"], slots="cpu:1", options=["--ports", "7700-7701"])
    alder = mesh.nodes[0]
    mesh.start()
    with socket_at(wire, 7701):
        identity = lab.submit(alder, {"name": "one", "entrypoint": "true", "searcher": {"name": "single", "metric": "x"}})
        wait_until(lambda: "waits for a port" in alder.run("events"), 30, "an event to tell that a worker waits")
        began = time.monotonic()
        alder.run("cancel", identity)
        wait_until(lambda: set(slots_of(alder, "alder").values()) == {"free"}, 30, "the slot to be free")
        expect(time.monotonic() - began < 10, f"the slot was free {time.monotonic() - began:.0f} s after the cancel")
        expect(show(mesh, identity)["state"] == "cancelled", f"{show(mesh, identity)['state']}")


@contextlib.contextmanager
def socket_at(wire, port):
    """A program of somebody else that listens on the port in the first node's namespace."""
    text = f"import socket, time; s = socket.socket(); s.bind(('', {port})); s.listen(); print('ready', flush=True)"
    program = subprocess.Popen(["ip", "netns", "exec", wire.names[1], sys.executable, "-c", text + "; time.sleep(600)"],
                               stdout=subprocess.PIPE)
    try:
        expect(program.stdout.readline() == b"ready\n", f"port {port} cannot be bound")
        yield program
    finally:
        program.kill()
        program.communicate()


@case()
def a_port_that_another_program_takes_costs_no_restart(lab):
    """A program of somebody else listens on MASTER_PORT before the first rank does."""
    mesh, wire = lab.wired(["alder"], slots="cpu:2")
    alder = mesh.nodes[0]
    mesh.start()
    late = f"echo port $MASTER_PORT; until [ -e {lab.dir}/go ]; do sleep 0.1; done; exec python3 listener.py"
    config = {"name": "late", "entrypoint": "sh late.sh", "resources": {"slots_per_trial": 2}, "max_restarts": 0,
              "searcher": {"name": "single", "metric": "x"}, "environment": {"variables": {"SECONDS": "1"}}}
    identity = lab.submit(alder, config, {"late.sh": late, "listener.py": LISTENER})
    port = wait_until(lambda: re.search(r"port (\d+)", alder.run("logs", f"{identity}/0", check=False)), 30, "a port")[1]
    with socket_at(wire, port):
        (lab.dir / "go").touch()
        alder.run("wait", identity, "--timeout", 60)
    trial = show(mesh, identity)["trials"][0]
    expect(trial["state"] == "completed" and trial["restarts"] == 0 and trial["attempt"] == 2, f"the trial: {trial}")
    expect(f"another program has port {port}" in alder.run("events"), "no event names the port")


@case()
def a_bad_range_of_ports_is_refused_and_an_overlap_is_told(lab):
    mesh = lab.mesh(["alder"], start=False)
    alder = mesh.nodes[0]
    alder.run("init", "--name", "lab")
    for text in ("", "7413", "0-10", "9-8", "7413-99999", "x-y"):
        done = subprocess.run([alder.bin / "shoald", "--dir", alder.dir, "--ports", text], capture_output=True, text=True,
                              timeout=20)
        expect(done.returncode == 2 and "--ports wants two ports" in done.stderr, f"{text!r}: {done.returncode} {done.stderr}")
    alder.options = ["--ports", "40000-40009"]
    alder.start()
    expect("overlap" in alder.run("events"), "nothing tells that the system uses the same ports")


FIREWALL = """
table inet shoal_test {{
    chain in {{
        type filter hook input priority 0; policy drop;
        iif lo accept
        ct state established,related accept
        tcp dport {{ {tcp} }} accept
        udp dport 7411 accept
    }}
}}
"""


def raise_firewall(wire, tcp):
    """Only these TCP ports of each node are open to the others."""
    for name in wire.names[1:]:
        wire.inside(name, "nft", "-f", "-", text="table inet shoal_test {}\ndelete table inet shoal_test\n")
        wire.inside(name, "nft", "-f", "-", text=FIREWALL.format(tcp=tcp))


def walled_mesh(lab, tcp):
    """Two hosts with the default ports, and between them a firewall."""
    mesh, wire = lab.wired(["alder", "birch"], slots="cpu:1")
    for node in mesh.nodes:
        node.listen = node.listen.replace(":0", ":7410")
    raise_firewall(wire, tcp)
    mesh.start()
    return mesh, wire


TWO_RANKS = {"name": "two", "entrypoint": "shoal-train mlp", "resources": {"slots_per_trial": 2},
             "searcher": {"name": "single", "metric": "accuracy"}, "checkpoint": {"replicas": 2},
             "hyperparameters": {"hidden": 16, "epochs": 0.1, "checkpoint_every": 20}}


@case(limit_s=120)
def a_firewall_with_the_documented_ports_open_stops_nothing(lab):
    mesh, _ = walled_mesh(lab, "7410, 7413-7612")
    identity = lab.submit(mesh.nodes[0], TWO_RANKS)
    mesh.nodes[0].run("wait", identity, "--timeout", 90)
    trial = show(mesh, identity)["trials"][0]
    expect(trial["state"] == "completed" and trial["restarts"] == 0, f"not completed: {trial}")


@case(limit_s=180)
def a_blocked_port_is_named_on_both_nodes_until_it_is_open(lab):
    """Only the control port passes: status, nodes, submit, show and events say which port of which node is missing."""
    mesh, wire = walled_mesh(lab, "7410")
    alder, birch = mesh.nodes
    names = {alder: "port 7413/tcp of birch (10.77.42.2) cannot be reached from alder",
             birch: "port 7413/tcp of alder (10.77.42.1) cannot be reached from birch"}
    for node, text in names.items():
        wait_until(lambda: text in node.run("status"), 60, f"{node.name}'s status to name the port")
        expect(text in node.run("nodes") and text in "".join(e["text"] for e in node.json_lines("events")),
               f"nodes or events of {node.name} do not name the port")
        blocked = node.json("status")["blocked"]
        expect([(b["port"], b["stalls"]) for b in blocked] == [(7413, False)], f"blocked: {blocked}")
    context = alder.tree / "two"
    context.mkdir()
    (context / "two.yaml").write_text(json.dumps(TWO_RANKS))
    done = subprocess.run([*alder.wrap, alder.bin / "shoal", "submit", context / "two.yaml", "--dir", alder.dir],
                          capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0 and names[alder] in done.stderr, f"submit: {done.returncode} {done.stderr}")
    identity = done.stdout.split()[-1]
    wait_until(lambda: names[birch] in str(show(mesh, identity)["trials"][0].get("reason")), 60, "show to name the port")

    raise_firewall(wire, "7410, 7413-7612")
    alder.run("wait", identity, "--timeout", 90)
    expect(show(mesh, identity)["trials"][0]["restarts"] == 0, "a restart was counted")
    for node in mesh.nodes:
        wait_until(lambda: node.json("status")["blocked"] == [], 60, f"{node.name} to forget that the port was blocked")


@case(limit_s=120)
def a_worker_tells_which_port_of_another_it_cannot_reach(lab):
    """The bulk port of each node is open, and the ports of the workers are not: a group cannot form."""
    mesh, _ = walled_mesh(lab, "7410, 7413")
    identity = lab.submit(mesh.nodes[0], TWO_RANKS)

    def named():
        return [b for node in mesh.nodes for b in node.json("status")["blocked"] if b["port"] > 7413]

    blocked = wait_until(named, 60, "a status to name the port of a worker")
    expect(all(not b["stalls"] and f"port {b['port']}/tcp of {b['name']}" in b["text"] for b in blocked), f"blocked: {blocked}")
    mesh.nodes[0].run("cancel", identity)


class Router:
    """A namespace between two nodes. Its link to the second takes packets of 1,300 bytes, and nobody is told."""

    def __init__(self, nodes):
        self.tag = f"shr{os.getpid() % 100000}"
        self.hub = f"{self.tag}-hub"
        self.names = [self.hub, *(f"{self.tag}-{i}" for i in range(2))]
        for name in self.names:
            command("ip", "netns", "add", name)
        for i, node in enumerate(nodes):
            name, mtu = self.names[i + 1], [1500, 1300][i]
            command("ip", "-n", self.hub, "link", "add", f"to{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            command("ip", "-n", self.hub, "address", "add", f"10.77.{43 + i}.1/24", "dev", f"to{i}")
            command("ip", "-n", name, "address", "add", f"10.77.{43 + i}.2/24", "dev", "eth0")
            for where, link in ((name, "lo"), (name, "eth0"), (self.hub, f"to{i}")):
                command("ip", "-n", where, "link", "set", link, "up")
            command("ip", "-n", self.hub, "link", "set", f"to{i}", "mtu", str(mtu))
            command("ip", "-n", name, "route", "add", "default", "via", f"10.77.{43 + i}.1")
            node.wrap = ["ip", "netns", "exec", name]
            node.listen = f"10.77.{43 + i}.2:7410"
        self.inside("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.inside("nft", "add table ip deaf; add chain ip deaf out { type filter hook output priority 0; }; "
                           "add rule ip deaf out meta l4proto icmp drop")

    def inside(self, *arguments):
        return command("ip", "netns", "exec", self.hub, *arguments)

    def end(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@case(limit_s=180)
def data_that_stands_still_though_small_messages_pass_is_named(lab):
    if os.geteuid() != 0:
        raise Skip("network namespaces need root")
    mesh = lab.mesh(["alder", "birch"], start=False, slots="cpu:1")
    alder, birch = mesh.nodes
    alder.slots = "none"
    router = Router(mesh.nodes)
    lab.at_end.append(router.end)
    mesh.start()
    identity = lab.submit(alder, {"name": "large", "entrypoint": "true", "searcher": {"name": "single", "metric": "x"}},
                          {"data.txt": "".join(lab.random.choices("0123456789abcdef", k=5_000_000))})
    wait_until(lambda: "stands still" in alder.run("status") or "stands still" in birch.run("status"), 60,
               "a status to name the link")
    wait_until(lambda: "stands still" in str(show(mesh, identity)["trials"][0].get("reason")), 60, "show to name the link")
