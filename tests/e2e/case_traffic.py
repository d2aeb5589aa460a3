"""What travels between nodes: nothing that a listener could read, and little while there is nothing to do."""

import shutil
import signal
import struct
import subprocess
import time

from idle_cost import LIMITS, idle_costs, over_limits, run_search, table
from lab import Skip, case, expect, show, wait_over, wait_until
from look import is_sanitized


# ---- secrecy -------------------------------------------------------------------------------------------------------------


class Capture:
    """tcpdump on the bridge, where all traffic between nodes passes."""

    def __init__(self, lab, wire):
        if shutil.which("tcpdump") is None:
            raise Skip("tcpdump is not installed")
        self.path = lab.dir / "traffic.pcap"
        self.tcpdump = subprocess.Popen(
            ["ip", "netns", "exec", wire.hub, "tcpdump", "-i", "bridge0", "-U", "-s", "0", "-B", "65536", "-Z", "root",
             "-w", str(self.path), "ip"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lab.at_end.append(self.end)
        line = self.tcpdump.stderr.readline()
        while line and "listening on" not in line:
            line = self.tcpdump.stderr.readline()
        expect("listening on" in line, "tcpdump did not start")

    def end(self):
        if self.tcpdump.poll() is None:
            self.tcpdump.send_signal(signal.SIGINT)
            self.said = self.tcpdump.communicate(timeout=20)[1]

    def streams(self):
        """(source, port, destination, port): the bytes of that direction of a TCP connection in their order; UDP payloads
        one after the other. A needle that packets divide is found all the same."""
        self.end()
        expect("0 packets dropped by kernel" in self.said, f"the capture has gaps: {self.said}")
        raw = memoryview(self.path.read_bytes())
        expect(struct.unpack_from("<I", raw)[0] == 0xA1B2C3D4 and struct.unpack_from("<I", raw, 20)[0] == 1, "not a pcap")
        segments, offset = {}, 24
        while offset + 16 <= len(raw):
            kept, length = struct.unpack_from("<II", raw, offset + 8)
            expect(kept == length, "a packet was cut short")
            frame, offset = raw[offset + 16:offset + 16 + kept], offset + 16 + kept
            ip = frame[14:14 + struct.unpack_from(">H", frame, 16)[0]]
            head = (ip[0] & 15) * 4
            ports = struct.unpack_from(">HH", ip, head)
            key = (bytes(ip[12:16]), ports[0], bytes(ip[16:20]), ports[1], ip[9])
            if ip[9] == 6:
                sequence = struct.unpack_from(">I", ip, head + 4)[0]
                payload = ip[head + (ip[head + 12] >> 4) * 4:]
            else:
                sequence, payload = len(segments.get(key, ())), ip[head + 8:]
            if len(payload):
                segments.setdefault(key, {}).setdefault(sequence, payload)
        return {key: b"".join(part for _, part in sorted(parts.items())) for key, parts in segments.items()}


@case(limit_s=90)
def nothing_readable_travels_between_nodes(lab):
    """A marker is in the code, in its data, in names and in a metric's name, and gradients and checkpoints are known."""
    mesh, wire = lab.wired(["alder", "birch", "cedar"], slots="cpu:1")
    alder = mesh.nodes[0]
    marker = "marker-" + "".join(lab.random.choices("abcdefghijklmnopqrstuvwxyz", k=24))
    pattern = struct.pack("<16f", *(lab.random.uniform(1, 2) for _ in range(16)))
    steps = 25
    capture = Capture(lab, wire)
    mesh.start()
    identity = lab.submit(alder, {
        "name": marker, "description": f"about {marker}", "searcher": {"name": "single", "metric": marker},
        "entrypoint": f"{lab.build}/pattern_worker {steps} {marker} {pattern.hex()}",
        "environment": {"variables": {"SECRET": marker}}, "hyperparameters": {"note": marker},
        "resources": {"slots_per_trial": 3}}, files={"code.py": f"print('{marker}')\n" * 50, "data.csv": f"{marker},1\n" * 5000})
    trial = wait_over(mesh, identity, 60)["trials"][0]
    expect(trial["attempt"] == 1 and trial["metrics"]["training"] == {marker: steps}, f"what was reported: {trial}")
    wait_until(lambda: show(mesh, identity)["trials"][0]["checkpoint"]["durable"], 20, "its checkpoint to have travelled")
    for node in mesh.nodes:  # logs and metrics, too, are asked for on nodes that do not have them
        node.run("metrics", f"{identity}/0")
        node.run("logs", f"{identity}/0")

    streams = capture.streams()
    total = sum(map(len, streams.values()))
    handshakes = sum(stream[12:17] == b"CURVE" for stream in streams.values())
    gradient_bytes = 4 * 64 * 1024
    between_workers = steps * 2 * 2 * gradient_bytes  # a ring of 3 moves 2 (3 - 1) / 3 of the buffer per rank
    expect(handshakes >= 6, f"the capture misses the handshakes between the nodes: {handshakes}")
    expect(total > between_workers, f"the capture holds {total} bytes, the gradients alone were {between_workers}")
    numbers = struct.unpack("<16f", pattern)
    needles = {marker.encode(): "the marker", marker[:16].encode(): "the marker's beginning"}
    for factor in (1, 2, 3):  # own gradients, and sums on their way
        for packing in ("<16f", ">16f"):
            cycle = struct.pack(packing, *(struct.unpack("<f", struct.pack("<f", factor * n))[0] for n in numbers)) * 2
            needles.update({cycle[i:i + 16]: f"{factor} x the gradient" for i in range(64)})
    found = {f"{what} in {key}" for key, stream in streams.items() for needle, what in needles.items() if needle in stream}
    expect(not found, f"readable in the traffic: {sorted(found)[:5]}")
    return f"{total / 1e6:.1f} MB in {len(streams)} streams, {len(needles)} needles"


# ---- idling --------------------------------------------------------------------------------------------------------------


@case(limit_s=240, alone=True)
def an_idle_node_costs_next_to_nothing(lab):
    """The limits of tools/bench/idle, in less time; the processor has twice the room, since other tests run beside."""
    mesh, wire = lab.wired(5, options=["--beacon", "7411"])
    mesh.start()
    if is_sanitized(mesh.nodes[0].daemon.pid):
        raise Skip("a sanitizer's memory and processor time are not the daemon's")
    limits = {**LIMITS, "processor_percent": 2 * LIMITS["processor_percent"]}
    notes = []
    for what in ("never used", "after a search"):
        wait_until(lambda: all(node.json("status")["slots_free"] == 10 for node in mesh.nodes), 20, "all slots to be free")
        time.sleep(5)  # what the start, or the search, still has to say is said
        for _ in range(3):  # a machine busy with other tests makes nodes suspect each other now and then: that is not idling
            costs = idle_costs(mesh, wire, 10)
            lab.note(f"{what}\n{table(costs)}")
            if not over_limits(costs, limits):
                break
        expect(not over_limits(costs, limits), f"{what}: {over_limits(costs, limits)}")
        notes.append(f"{what}: at most " + ", ".join(
            f"{max(cost[name] for cost in costs.values()):.2f} {name}" for name in LIMITS))
        if what == "never used":
            run_search(mesh, trials=4, epochs=0.5)
    return "; ".join(notes)
