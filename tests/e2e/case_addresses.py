"""The addresses of nodes: which ones are announced and used, and what happens when they change. Each node stands in a network
namespace of its own; what the machine has else (container bridges, tunnels, further networks) is made there."""

import json
import time

from lab import case, expect, show, wait_over, wait_until

ALIVE_S = 30


def trial(slots=1, epochs=1, name="t"):
    return {
        "name": name,
        "entrypoint": "exec shoal-train mlp",
        "hyperparameters": {"hidden": 16, "learning_rate": 0.05, "batch_size": 1000, "epochs": epochs, "checkpoint_every": 20},
        "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False, "max_trials": 1},
        "resources": {"slots_per_trial": slots, "min_slots": slots},
        "max_restarts": 2,
        "seed": 7,
    }


def everywhere(lab, names, **options):
    """Nodes that listen on all addresses at the default port."""
    mesh, wire = lab.wired(names, **options)
    for node in mesh.nodes:
        node.listen, node.slots = "*:7410", "cpu:1"
    return mesh, wire


def ip(wire, index, *arguments):
    return wire.inside(wire.names[index + 1], "ip", *arguments)


def addresses(node):
    """The address in use of each node, by name."""
    return {row["name"]: row["address"] for row in node.json("nodes")["nodes"]}


def states(node):
    return {row["name"]: row["state"] for row in node.json("nodes")["nodes"]}


def all_alive(mesh, timeout=ALIVE_S):
    wait_until(lambda: all(set(states(node).values()) == {"alive"} and len(states(node)) == len(mesh.nodes)
                           for node in mesh.living()), timeout, "all nodes to see each other alive")


def add_docker(wire, index):
    """docker0 with a container on it, so that it is up: the same address on each machine."""
    ip(wire, index, "link", "add", "docker0", "type", "bridge")
    ip(wire, index, "address", "add", "172.17.0.1/16", "dev", "docker0")
    ip(wire, index, "link", "add", "veth0a", "type", "veth", "peer", "name", "veth0b")
    for link in ("veth0a", "veth0b", "docker0"):
        ip(wire, index, "link", "set", link, "up")
    ip(wire, index, "link", "set", "veth0a", "master", "docker0")


def add_tunnel(wire, index):
    """A tunnel whose other end is not there: no carrier."""
    ip(wire, index, "tuntap", "add", "wg0", "mode", "tun")
    ip(wire, index, "address", "add", "10.8.0.1", "peer", "10.8.0.2", "dev", "wg0")
    ip(wire, index, "link", "set", "wg0", "up")


def add_usb(wire, index):
    ip(wire, index, "link", "add", "usb0", "type", "veth", "peer", "name", "usb1")
    ip(wire, index, "address", "add", "169.254.3.1/16", "dev", "usb0")
    for link in ("usb0", "usb1"):
        ip(wire, index, "link", "set", link, "up")


def add_second(wire, indices):
    """eth1 on a second network."""
    wire.inside(wire.hub, "ip", "link", "add", "bridge1", "type", "bridge")
    wire.inside(wire.hub, "ip", "link", "set", "bridge1", "up")
    for index in indices:
        ip(wire, index, "link", "add", "eth1", "type", "veth", "peer", "name", f"back{index}", "netns", wire.hub)
        ip(wire, index, "address", "add", f"10.77.50.{index + 1}/24", "dev", "eth1")
        ip(wire, index, "link", "set", "eth1", "up")
        wire.inside(wire.hub, "ip", "link", "set", f"back{index}", "master", "bridge1", "up")


def later(wire, index):
    """Makes eth0 anew, so that the system lists it behind the interfaces that are there by now."""
    far = f"far{index}"
    ip(wire, index, "link", "delete", "eth0")
    ip(wire, index, "link", "add", "eth0", "type", "veth", "peer", "name", far, "netns", wire.hub)
    ip(wire, index, "address", "add", f"{wire.address(index)}/24", "broadcast", "+", "dev", "eth0")
    ip(wire, index, "link", "set", "eth0", "up")
    wire.inside(wire.hub, "ip", "link", "set", far, "master", "bridge0", "up")
    listed = [link["ifname"] for link in json.loads(ip(wire, index, "-json", "address"))]
    expect(listed[-1] == "eth0", f"the system lists {listed}")


def drained(node):
    return {row["name"] for row in node.json("nodes")["nodes"] if row["drained"]}


def group_on(lab, mesh, submitter, names, network, slots=2):
    """A group on all of these nodes is given the interface and the address of one network; `network`: both, by node."""
    others = [node.name for node in mesh.nodes if node.name not in names]
    for name in others:
        submitter.run("drain", name)
    wait_until(lambda: all(drained(node) == set(others) for node in mesh.nodes), 20, f"all to know that {others} are drained")
    identity = lab.submit(submitter, {
        "name": "network", "entrypoint": "echo IF=$GLOO_SOCKET_IFNAME TO=$MASTER_ADDR", "max_restarts": 0,
        "searcher": {"name": "single", "metric": "x"}, "resources": {"slots_per_trial": slots, "min_slots": slots}})
    trial_ = wait_over(mesh, identity, 60)["trials"][0]
    placed = [slot["node_name"] for slot in trial_["slots"]]
    expect(set(placed) == set(names) and trial_["restarts"] == 0, f"not a rank on each of {names}: {trial_}")
    for rank, name in enumerate(placed):
        said = submitter.run("logs", f"{identity}/0", "--rank", str(rank)).strip()
        wanted = f"IF={network[name][0]} TO={network[placed[0]][1]}"
        expect(said.endswith(wanted), f"rank {rank} on {name} was given {said!r}, not {wanted!r}")
    for name in others:
        submitter.run("undrain", name)
    wait_until(lambda: not any(drained(node) for node in mesh.nodes), 20, "all to have work again")


@case(limit_s=150)
def addresses_that_mean_nothing_to_others_are_not_used(lab):
    """docker0 with one address on every machine, a tunnel without carrier, a link-local address on an interface of its own."""
    mesh, wire = everywhere(lab, ["alder", "birch"])
    for index in range(2):
        add_docker(wire, index)
        add_tunnel(wire, index)
        add_usb(wire, index)
        later(wire, index)
    mesh.start()
    all_alive(mesh, 10)
    for node in mesh.nodes:
        for index, other in enumerate(mesh.nodes):
            used = addresses(node)[other.name]
            expect(used == f"{wire.address(index)}:7410", f"{node.name} shows {used} for {other.name}")
    identity = lab.submit(mesh.nodes[0], trial(slots=2))
    done = wait_over(mesh, identity, 90)
    expect(done["trials"][0]["attempt"] == 1 and done["trials"][0]["restarts"] == 0, f"{done['trials'][0]}")
    group_on(lab, mesh, mesh.nodes[0], ["alder", "birch"], {"alder": ("eth0", wire.address(0)), "birch": ("eth0", wire.address(1))})


@case(limit_s=180)
def a_node_without_the_first_network_is_reached_on_the_second(lab):
    """Two networks; one node has only the second one. A group over all three uses that one."""
    mesh, wire = everywhere(lab, ["alder", "birch", "cedar"])
    add_second(wire, range(2))
    for index in range(2):
        ip(wire, index, "address", "add", f"10.77.43.{index + 1}/24", "dev", "eth0")
        ip(wire, index, "address", "del", f"{wire.address(index)}/24", "dev", "eth0")
    ip(wire, 2, "address", "del", f"{wire.address(2)}/24", "dev", "eth0")
    ip(wire, 2, "address", "add", "10.77.50.3/24", "dev", "eth0")
    wire.inside(wire.hub, "ip", "link", "set", "far2", "master", "bridge1")
    mesh.start()
    all_alive(mesh, 20)
    wait_until(lambda: addresses(mesh.nodes[0])["cedar"] == "10.77.50.3:7410", 20, "alder to use cedar's only address")
    identity = lab.submit(mesh.nodes[2], trial(slots=3))
    done = wait_over(mesh, identity, 90)
    expect(done["trials"][0]["attempt"] == 1, f"{done['trials'][0]}")
    second = {"alder": ("eth1", "10.77.50.1"), "birch": ("eth1", "10.77.50.2"), "cedar": ("eth0", "10.77.50.3")}
    group_on(lab, mesh, mesh.nodes[2], ["birch", "cedar"], second)  # the interface has another name on each node
    group_on(lab, mesh, mesh.nodes[0], ["alder", "cedar"], second)


def move(wire, index, before, after):
    ip(wire, index, "address", "del", before, "dev", "eth0")
    ip(wire, index, "address", "add", after, "broadcast", "+", "dev", "eth0")


def deaths(node, name):
    return sum(f"{name} is dead" in str(line) for line in node.json_lines("events"))


def stay_alive(alder, birch, watch_s):
    end = time.monotonic() + watch_s
    while time.monotonic() < end:
        expect("dead" not in (states(alder)["birch"], states(birch)["alder"]), "a node flaps")
        time.sleep(0.5)


def change_under_a_trial(lab, options, watch_s):
    mesh, wire = everywhere(lab, ["alder", "birch"], options=options)
    alder, birch = mesh.nodes
    mesh.start()
    alder.run("drain", "alder")
    identity = lab.submit(alder, trial(epochs=4000))
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > 0, 60, "the trial to train on birch")
    move(wire, 1, f"{wire.address(1)}/24", "10.77.42.22/24")
    wait_until(lambda: addresses(alder)["birch"] == "10.77.42.22:7410" and addresses(birch)["birch"] == "10.77.42.22:7410",
               30, "the new address to be in use")
    all_alive(mesh, 30)
    stay_alive(alder, birch, watch_s)
    expect(deaths(alder, "birch") <= 1, f"alder found birch dead {deaths(alder, 'birch')} times")
    move(wire, 1, "10.77.42.22/24", "10.77.42.33/24")
    wait_until(lambda: addresses(alder)["birch"] == "10.77.42.33:7410", 30, "the second new address to be in use")
    all_alive(mesh, 30)
    state = show(mesh, identity)["trials"][0]
    expect(state["restarts"] == 0 and state["attempt"] <= 2, f"after two changes of the address: {state}")
    alder.run("cancel", identity)


@case(limit_s=150)
def a_change_of_address_is_followed_without_a_beacon(lab):
    change_under_a_trial(lab, [], 5)


@case(limit_s=150)
def a_change_of_address_is_followed_with_a_beacon(lab):
    change_under_a_trial(lab, ["--beacon", "7411"], 5)


@case(limit_s=600, whole=True)
def a_change_of_address_is_followed_for_two_minutes_without_a_beacon(lab):
    change_under_a_trial(lab, [], 120)


@case(limit_s=600, whole=True)
def a_change_of_address_is_followed_for_two_minutes_with_a_beacon(lab):
    change_under_a_trial(lab, ["--beacon", "7411"], 120)


def trains_on(mesh, identity):
    """The trial's group makes steps. Reports of the last second's may still come from a group that has just been cut."""
    step = show(mesh, identity)["trials"][0]["step"] or 0
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > step + 200, 120, "the group to go on")


@case(limit_s=300)
def a_group_goes_on_after_a_change_of_address(lab):
    """The links between its two members end where the old address was, and neither can train alone."""
    mesh, wire = everywhere(lab, ["alder", "birch"])
    alder = mesh.nodes[0]
    mesh.start()
    identity = lab.submit(alder, trial(slots=2, epochs=4000))
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > 0, 60, "the group to train")
    move(wire, 1, f"{wire.address(1)}/24", "10.77.42.42/24")
    wait_until(lambda: addresses(alder)["birch"] == "10.77.42.42:7410", 30, "the new address to be in use")
    trains_on(mesh, identity)
    state = show(mesh, identity)["trials"][0]
    expect(state["restarts"] == 0 and state["attempt"] <= 2, f"after the change: {state}")
    alder.run("cancel", identity)


def come_late(lab, options, late_s=3, watch_s=0):
    mesh, wire = everywhere(lab, ["alder", "birch"], options=options)
    alder, birch = mesh.nodes
    mesh.start()
    birch.kill_daemon()
    ip(wire, 1, "link", "set", "eth0", "down")
    ip(wire, 1, "address", "flush", "dev", "eth0")
    birch.start()
    time.sleep(late_s)
    ip(wire, 1, "address", "add", f"{wire.address(1)}/24", "broadcast", "+", "dev", "eth0")
    ip(wire, 1, "link", "set", "eth0", "up")
    all_alive(mesh, 30)
    wait_until(lambda: addresses(alder)["birch"] == f"{wire.address(1)}:7410", 30, "alder to use birch's address")
    wait_until(lambda: addresses(birch)["birch"] == f"{wire.address(1)}:7410", 30, "birch to announce its address")
    stay_alive(alder, birch, watch_s)


@case(limit_s=120)
def a_network_that_comes_late_is_used_without_a_beacon(lab):
    come_late(lab, [])


@case(limit_s=120)
def a_network_that_comes_late_is_used_with_a_beacon(lab):
    come_late(lab, ["--beacon", "7411"])


@case(limit_s=300, whole=True)
def a_network_that_comes_ten_seconds_late_is_used_from_then_on(lab):
    come_late(lab, [], late_s=10, watch_s=120)


def families(wire, index, only_six=False):
    """IPv6 besides IPv4; or alone."""
    name = wire.names[index + 1]
    wire.inside(name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0",
                "net.ipv6.conf.eth0.disable_ipv6=0", "net.ipv6.conf.eth0.accept_dad=0")
    ip(wire, index, "link", "set", "eth0", "down")
    ip(wire, index, "link", "set", "eth0", "up")
    ip(wire, index, "address", "add", f"fd77:42::{index + 1}/64", "dev", "eth0", "nodad")
    if only_six:
        ip(wire, index, "address", "del", f"{wire.address(index)}/24", "dev", "eth0")


@case(limit_s=120)
def a_mesh_without_ipv4_works(lab):
    mesh, wire = everywhere(lab, ["alder", "birch"])
    for index in range(2):
        families(wire, index, only_six=True)
    mesh.start()
    all_alive(mesh, 20)
    wait_until(lambda: addresses(mesh.nodes[0])["birch"] == "[fd77:42::2]:7410", 20, "alder to use birch's only address")
    identity = lab.submit(mesh.nodes[0], trial(slots=2))
    done = wait_over(mesh, identity, 90)
    expect(done["trials"][0]["attempt"] == 1, f"{done['trials'][0]}")
    group_on(lab, mesh, mesh.nodes[0], ["alder", "birch"], {"alder": ("eth0", "fd77:42::1"), "birch": ("eth0", "fd77:42::2")})


@case(limit_s=150)
def nodes_that_do_not_reach_each_other_are_in_no_group(lab):
    """Each of the two lives, as the third node tells; a group of two is made with the third, and one of three waits and says why."""
    mesh, wire = everywhere(lab, ["alder", "birch", "cedar"])
    wire.lose(1, 2, 100)
    wire.lose(2, 1, 100)
    mesh.start()
    all_alive(mesh, 30)
    pair = lab.submit(mesh.nodes[0], trial(slots=2, name="pair"))
    done = wait_over(mesh, pair, 60)["trials"][0]
    expect(done["restarts"] == 0, f"{done}")
    group = lab.submit(mesh.nodes[0], trial(slots=3, name="group"))
    sentence = "have no network in common on which both were reached"
    wait_until(lambda: any(sentence in str(line) for node in mesh.nodes for line in node.json_lines("events")), 60,
               "a node to say why the group waits")
    told = [row["reason"] for row in show(mesh, group)["waiting"]]
    expect(any(sentence in reason for reason in told), f"show says: {told}")
    wire.lose(1, 2, 0)
    wire.lose(2, 1, 0)
    wait_over(mesh, group, 60)  # they reach each other now


FIREWALL = """
table inet shoal {
 chain in {
  type filter hook input priority 0; policy drop;
  iif lo accept
  ct state established,related accept
  meta l4proto ipv6-icmp accept
  ip protocol icmp accept
  tcp dport { 7410, 7413-7612 } accept
  udp dport 7411 accept
 }
}
"""


def four_nodes(lab, changes, is_whole=False):
    """Both families but for one node without IPv4; one with docker0 and a tunnel; one behind a firewall; one whose address changes
    twice. On each node a trial of one slot from another (`is_whole`: from each), and one of three slots, which goes on after each change."""
    mesh, wire = everywhere(lab, ["alder", "birch", "cedar", "dogwood"])
    for index in range(4):
        families(wire, index, only_six=index == 3)
    add_docker(wire, 0)
    add_tunnel(wire, 0)
    wire.inside(wire.names[3], "nft", "-f", "-", text=FIREWALL)  # cedar
    mesh.start()
    all_alive(mesh, 30)
    for host in mesh.nodes:  # the only one that gets work
        others = [node for node in mesh.nodes if node is not host]
        for node in others:
            node.run("drain", node.name)
        names = {node.name for node in others}
        wait_until(lambda: all(drained(node) == names for node in mesh.nodes), 20, f"all to know that {names} are drained")
        submitters = mesh.nodes if is_whole else [lab.random.choice(others)]
        identities = [lab.submit(node, trial(name=f"from-{node.name}-on-{host.name}")) for node in submitters]
        for identity in identities:
            done = wait_over(mesh, identity, 60)["trials"][0]
            expect(done["restarts"] == 0 and done["attempt"] <= 2, f"{done}")  # two may claim a new experiment at once
            expect([slot["node_name"] for slot in done["slots"]] == [host.name], f"not on {host.name}: {done}")
        for node in others:
            node.run("undrain", node.name)
        wait_until(lambda: not any(drained(node) for node in mesh.nodes), 20, "all to have work again")
    group = lab.submit(mesh.nodes[3], trial(slots=3, epochs=4000, name="group"))
    wait_until(lambda: (show(mesh, group)["trials"][0]["step"] or 0) > 0, 60, "the group to train")
    before = f"{wire.address(1)}/24"
    for after in changes:
        attempt = show(mesh, group)["trials"][0]["attempt"]
        move(wire, 1, before, after)
        wait_until(lambda: addresses(mesh.nodes[1])["birch"] == f"{after.split('/')[0]}:7410", 30, "birch to announce its address")
        all_alive(mesh, 30)
        trains_on(mesh, group)
        state = show(mesh, group)["trials"][0]
        expect(state["restarts"] == 0 and state["attempt"] <= attempt + 1, f"after the change to {after}: {state}")
        before = after
    mesh.nodes[0].run("cancel", group)


@case(limit_s=420)
def four_nodes_of_mixed_networks_run_trials_from_anywhere(lab):
    four_nodes(lab, ["10.77.42.42/24", "10.77.42.43/24"])


@case(limit_s=900, whole=True)
def four_nodes_of_mixed_networks_run_trials_from_each_on_each(lab):
    four_nodes(lab, ["10.77.42.42/24", "10.77.42.43/24"], is_whole=True)


@case(limit_s=240)
def a_network_that_fails_leaves_a_trial_and_groups_on_the_second(lab):
    """Two networks, and the first one's interface goes down on birch while a trial runs there: the trial never notices, and a group
    that begins then is made on the second."""
    mesh, wire = everywhere(lab, ["alder", "birch"])
    alder, birch = mesh.nodes
    for node in mesh.nodes:
        node.slots = "cpu:2"
    add_second(wire, range(2))
    mesh.start()
    all_alive(mesh)
    alder.run("drain", "alder")
    identity = lab.submit(alder, trial(epochs=10000))
    wait_until(lambda: (show(mesh, identity)["trials"][0]["step"] or 0) > 0, 60, "the trial to train on birch")
    alder.run("undrain", "alder")
    ip(wire, 1, "link", "set", "eth0", "down")
    wait_until(lambda: addresses(alder)["birch"] == "10.77.50.2:7410" and addresses(birch)["alder"] == "10.77.50.1:7410", ALIVE_S,
               "the second network to be in use")
    all_alive(mesh)
    group = lab.submit(alder, trial(slots=3, name="group"))  # all slots that are free: on both nodes
    done = wait_over(mesh, group, 90)["trials"][0]
    expect(done["restarts"] == 0 and {slot["node_name"] for slot in done["slots"]} == {"alder", "birch"}, f"the group: {done}")
    group_on(lab, mesh, alder, ["alder", "birch"], {"alder": ("eth1", "10.77.50.1"), "birch": ("eth1", "10.77.50.2")}, slots=3)
    step = show(mesh, identity)["trials"][0]["step"]
    wait_until(lambda: show(mesh, identity)["trials"][0]["step"] > step, 60, "the first trial to go on")
    state = show(mesh, identity)["trials"][0]
    expect(state["restarts"] == 0 and state["attempt"] == 1, f"the trial noticed: {state}")
    alder.run("cancel", identity)
