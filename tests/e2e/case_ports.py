"""The ports of a mesh: few, known ones, each given once."""

import json
import re
import subprocess

from lab import case, expect, show, trial_states, wait_until

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
