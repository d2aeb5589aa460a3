"""Nodes in network namespaces on one bridge, which stands in a namespace of its own: the machine's own network is left
alone. Needs root. What a node sends can be counted and captured there as on real cables."""

import itertools
import json
import os
import subprocess

_serial = itertools.count()


class NoNamespaces(Exception):
    """This machine or this user cannot make network namespaces; the text says why."""


def _run(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Wire:
    """Places the nodes of a mesh that has not started yet: node i has the address 10.77.42.(i + 1)."""

    def __init__(self, nodes):
        if os.geteuid() != 0:
            raise NoNamespaces("network namespaces need root")
        self.tag = f"shw{os.getpid() % 100000}-{next(_serial)}"
        self.hub = f"{self.tag}-hub"
        self.names = []
        probe = subprocess.run(["ip", "netns", "add", self.hub], capture_output=True, text=True)
        if probe.returncode != 0:
            raise NoNamespaces(f"network namespaces cannot be made here: {probe.stderr.strip()}")
        self.names.append(self.hub)
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
            _run("ip", "-n", name, "address", "add", f"10.77.42.{index + 1}/24", "broadcast", "+", "dev", "eth0")
            for link in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", link, "up")
            self.inside(self.hub, "ip", "link", "set", far, "master", "bridge0", "up")
            node.wrap = ["ip", "netns", "exec", name]
            node.listen = f"10.77.42.{index + 1}:0"

    @staticmethod
    def inside(name, *arguments):
        return _run("ip", "netns", "exec", name, *arguments)

    def sent_bytes(self, index):
        """What node `index` has sent so far at IP level: Ethernet heads of 14 bytes taken off."""
        sent = json.loads(_run("ip", "-n", self.names[index + 1], "-s", "-j", "link", "show", "eth0"))[0]["stats64"]["tx"]
        return sent["bytes"] - 14 * sent["packets"]

    def end(self):
        for name in reversed(self.names):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        self.names = []
