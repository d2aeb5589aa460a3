"""Nodes in network namespaces on one bridge, which stands in a namespace of its own: the machine's own network is left
alone. Needs root. A node's packets can be counted and captured there as on real cables, and cables can be pulled, be lossy
(nftables), slow (a token bucket) or long (a relay in user space, since many kernels are built without netem)."""

import itertools
import json
import os
import subprocess

RELAY_S = 3600  # a relay that nobody has ended ends then

_serial = itertools.count()


class NoNamespaces(Exception):
    """This machine or this user cannot make network namespaces; the text says why."""


def _run(*arguments, text=None):
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def why_no_delays():
    """Why no link can be delayed here; None if links can."""
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"links cannot be delayed here: /dev/net/tun: {error.strerror}"
    return None


class Wire:
    """Places the nodes of a mesh that has not started yet: node i has the address 10.77.42.(i + 1). `relay`: the program that
    delays frames, chaos_relay; needed by `delay` only (see `why_no_delays`)."""

    def __init__(self, nodes, relay=None):
        if os.geteuid() != 0:
            raise NoNamespaces("network namespaces need root")
        self.tag = f"shw{os.getpid() % 100000}-{next(_serial)}"
        self.hub = f"{self.tag}-hub"
        self.names = []
        self.count = len(nodes)
        self.loss = {}  # (from, to) -> percent of the packets that are lost on this way
        self.pulled = set()  # indices
        self.relay = relay
        self.relays = {}  # index -> its process
        probe = subprocess.run(["ip", "netns", "add", self.hub], capture_output=True, text=True)
        if probe.returncode == 0:
            self.names.append(self.hub)
            probe = subprocess.run(["ip", "netns", "exec", self.hub, "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.end()
            raise NoNamespaces(f"network namespaces cannot be made or entered here: {probe.stderr.strip()}")
        try:
            self._lay(nodes)
        except Exception:
            self.end()
            raise

    def _lay(self, nodes):
        self.inside(self.hub, "ip", "link", "add", "bridge0", "type", "bridge")
        self.inside(self.hub, "ip", "link", "set", "bridge0", "up")
        for index, node in enumerate(nodes):
            name, far = f"{self.tag}-{index}", f"far{index}"
            _run("ip", "netns", "add", name)
            self.names.append(name)
            # No IPv6: its neighbour discovery would be counted among what the node sends.
            self.inside(name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
            _run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", far, "netns", self.hub)
            _run("ip", "-n", name, "address", "add", f"{self.address(index)}/24", "broadcast", "+", "dev", "eth0")
            for link in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", link, "up")
            self.inside(self.hub, "ip", "link", "set", far, "master", "bridge0", "up")
            node.wrap = ["ip", "netns", "exec", name]
            node.listen = f"{self.address(index)}:0"

    @staticmethod
    def inside(name, *arguments, text=None):
        return _run("ip", "netns", "exec", name, *arguments, text=text)

    @staticmethod
    def address(index):
        return f"10.77.42.{index + 1}"

    def cut(self, index):
        """Pulls the node's cable at the bridge's end: its own link stays up, and nobody sends a reset."""
        self.pulled.add(index)
        self._plug(index)

    def join(self, index):
        """Plugs it in again."""
        self.pulled.discard(index)
        self._plug(index)

    def _plug(self, index):
        where = ["nomaster"] if index in self.pulled else ["master", f"long{index}" if index in self.relays else "bridge0"]
        self.inside(self.hub, "ip", "link", "set", f"far{index}", *where)

    def lose(self, source, target, percent):
        """From now on so many of 100 packets from one node to another are lost; 100: all, silently; 0: none."""
        self.loss[source, target] = percent
        # The receiver's kernel drops them, so that the sender's cannot notice.
        rules = ["table ip shoal {}", "delete table ip shoal", "table ip shoal {", "chain in {",
                 "type filter hook input priority 0;"]
        for (a, b), share in sorted(self.loss.items()):
            if b == target and share > 0:
                chance = "" if share >= 100 else f"numgen random mod 100 < {share} "
                rules.append(f"ip saddr {self.address(a)} {chance}drop")
        self.inside(self.names[target + 1], "nft", "-f", "-", text="\n".join([*rules, "}", "}", ""]))

    def slow(self, index, kbit_s):
        """From now on the node's link carries so much each way; None: what it can. Up to 400 ms of packets wait for it."""
        for name, link in ((self.names[index + 1], "eth0"), (self.hub, f"far{index}")):
            if kbit_s is None:
                subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "delete", "dev", link, "root"], capture_output=True)
            else:
                self.inside(name, "tc", "qdisc", "replace", "dev", link, "root", "tbf", "rate", f"{kbit_s}kbit",
                            "burst", "16kb", "latency", "400ms")

    def delay(self, index, ms, jitter_ms=0):
        """From now on what is sent to the node and what it sends comes `ms` later, and up to `jitter_ms` more, in order; None:
        at once. What is on its way when this changes is lost. Returns how many frames the relay until now has forwarded and
        dropped (its queue was full), and how many were still waiting; None where there was none."""
        became = self._end_relay(index)
        if ms is not None:
            bridge, ends = f"long{index}", (f"near{index}", f"wide{index}")
            relay = subprocess.Popen(["ip", "netns", "exec", self.hub, self.relay, *ends, str(ms), str(jitter_ms), str(RELAY_S)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if relay.stdout.readline() != "ready\n":
                relay.communicate(timeout=20)
                raise RuntimeError(f"{self.relay} cannot delay the frames of node {index}: see its standard error")
            self.relays[index] = relay
            self.inside(self.hub, "ip", "link", "add", bridge, "type", "bridge")
            for link, master in zip(ends, (bridge, "bridge0")):
                self.inside(self.hub, "ip", "link", "set", link, "master", master, "up")
            self.inside(self.hub, "ip", "link", "set", bridge, "up")
        self._plug(index)
        return became

    def _end_relay(self, index):
        """Its devices go with it, and so bridge0 forgets that the node was behind them."""
        relay = self.relays.pop(index, None)
        if relay is None:
            return None
        ended = relay.poll()
        told, _ = relay.communicate(timeout=20)  # it ends when its standard input does
        subprocess.run(["ip", "-n", self.hub, "link", "delete", f"long{index}"], capture_output=True)
        if ended is not None or relay.returncode != 0:
            raise RuntimeError(f"the relay of node {index} ended by itself with {relay.returncode}")
        return json.loads(told)

    def clear(self):
        """All cables are plugged in, lossless, fast and short."""
        for source, target in [pair for pair, share in self.loss.items() if share > 0]:
            self.lose(source, target, 0)
        for index in range(self.count):
            self.slow(index, None)
            self.delay(index, None)
            self.join(index)

    def sent_bytes(self, index):
        """What node `index` has sent so far at IP level: Ethernet heads of 14 bytes taken off."""
        sent = json.loads(_run("ip", "-n", self.names[index + 1], "-s", "-j", "link", "show", "eth0"))[0]["stats64"]["tx"]
        return sent["bytes"] - 14 * sent["packets"]

    def end(self):
        for relay in self.relays.values():
            relay.communicate(timeout=20)
        self.relays = {}
        for name in reversed(self.names):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self.names = []
