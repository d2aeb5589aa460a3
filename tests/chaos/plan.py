"""What happens when, in one storm: drawn before it begins, from one seed, one pseudo-random stream per concern, so that the
same seed gives the same storms and a new kind of fault does not change what the others draw."""

import random

NODE_FAULTS = ("kill_daemon", "kill_machine", "kill_in_commit", "stop", "old_disk", "clone")
LINK_FAULTS = ("cut", "partition", "one_way", "lossy", "slow", "delayed")
DISK_FAULTS = ("full_disk",)
FAULTS = NODE_FAULTS + LINK_FAULTS + DISK_FAULTS
STOP_S = 60  # at most
DISTURBED_MAX = 2  # nodes that are down or stopped at a time


class Streams:
    """A pseudo-random stream for each name, all from one seed."""

    def __init__(self, seed):
        self.seed = seed
        self.streams = {}

    def __getitem__(self, name):
        return self.streams.setdefault(name, random.Random(f"{self.seed} {name}"))


class Fault:
    """`kind` begins `at_s` after the storm did and lasts `for_s`; `nodes` are indices, the meaning of `details` is the kind's."""

    def __init__(self, kind, at_s, for_s, nodes, **details):
        self.kind = kind
        self.at_s = at_s
        self.for_s = for_s
        self.nodes = nodes
        self.details = details

    def text(self, names):
        who = ", ".join(names[node] for node in self.nodes)
        what = ", ".join(f"{name} {value}" for name, value in sorted(self.details.items()))
        return f"{self.kind} {who} for {self.for_s:.1f} s" + (f" ({what})" if what else "")


def node_fault(kind, at_s, for_s, node, stream):
    if kind == "kill_in_commit":
        return Fault(kind, at_s, for_s, [node], bytes=stream.randrange(1, 4 << 20), how=stream.choice(["daemon", "machine"]))
    if kind == "old_disk":
        return Fault(kind, at_s, max(for_s, 6.0), [node], age_s=round(stream.uniform(2, 8), 1))
    return Fault(kind, at_s, for_s, [node])


def link_fault(kind, at_s, for_s, count, stream):
    if kind == "partition":
        side = stream.sample(range(count), stream.randrange(1, count // 2 + 1))
        return Fault(kind, at_s, for_s, sorted(side))
    first, second = stream.sample(range(count), 2)
    if kind == "one_way":
        return Fault(kind, at_s, for_s, [first, second] if stream.random() < 0.5 else [first],
                     what=stream.choice(["unheard", "deaf"]))
    if kind == "lossy":
        return Fault(kind, at_s, for_s, [first], percent=stream.choice([2, 5, 10, 20, 40]))
    if kind == "slow":
        return Fault(kind, at_s, for_s, [first], kbit_s=stream.choice([64, 256, 1000]))
    if kind == "delayed":
        delay_ms = stream.choice([20, 80, 250])
        return Fault(kind, at_s, for_s, [first], delay_ms=delay_ms, jitter_ms=stream.randrange(delay_ms))
    return Fault(kind, at_s, for_s, [first])


class Planner:
    """Deals kinds from a shuffled deck, so that each one comes as often as the others."""

    def __init__(self, seed, count, kinds, disk_node):
        self.streams = Streams(seed)
        self.count = count
        self.kinds = kinds
        self.disk_node = disk_node
        self.deck = []

    def deal(self):
        if not self.deck:
            self.deck = sorted(self.kinds)
            self.streams["kinds"].shuffle(self.deck)
        return self.deck.pop()

    def storm(self, seconds):
        """The faults of one storm, in the order of their beginnings, and how long it lasts: `seconds`, or until those that
        are stopped go on; all but few of the other faults end before. The disk of at most one node goes back in time, since
        what is acknowledged has two copies."""
        times, faults, skipped = self.streams["times"], [], []
        at_s = times.uniform(0.5, 3)
        while at_s < seconds - 3:
            kind = self.deal()
            for_s = times.uniform(1, STOP_S) if kind == "stop" else min(times.uniform(1, 20), seconds - at_s)
            for_s = round(for_s, 1)
            fault = self.draw(kind, round(at_s, 1), for_s, faults)
            if fault is None:
                skipped.append(kind)
            else:
                faults.append(fault)
            at_s += times.uniform(0.5, 6)
        self.deck += skipped  # they come first in the next storm
        return faults, max([seconds] + [fault.at_s + fault.for_s for fault in faults if fault.kind == "stop"])

    def draw(self, kind, at_s, for_s, faults):
        stream = self.streams[kind]
        if kind in LINK_FAULTS:
            return link_fault(kind, at_s, for_s, self.count, stream)
        busy = {node for f in faults if f.kind not in LINK_FAULTS and f.at_s + f.for_s + 2 > at_s for node in f.nodes}
        old = {node for f in faults if f.kind in ("old_disk", "clone") for node in f.nodes}
        if kind in DISK_FAULTS:
            return None if self.disk_node in busy | old else Fault(kind, at_s, max(for_s, 8.0), [self.disk_node])
        free = [node for node in range(self.count) if node not in busy]
        if self.count - len(free) >= min(DISTURBED_MAX, self.count - 1) or (kind in ("old_disk", "clone") and old):
            return None
        return node_fault(kind, at_s, for_s, stream.choice(free), stream)
