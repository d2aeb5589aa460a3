#!/usr/bin/python3
"""Links that delay: two network namespaces on a Wire, and programs in them that measure. Bounds are such that only a real delay
is above the one, and only a link without any below the other, however slow the machine is. Needs root; where namespaces are
not allowed it is skipped (exit status 77). usage: wire_test.py BUILD_DIRECTORY"""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from wire import NoNamespaces, Wire, why_no_delays  # noqa: E402

SKIPPED = 77
QUEUE_FRAMES = 4096  # as in relay.c
PORT = 7000

# Each runs in a namespace; its arguments are an address, a port and a number.
ECHO = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    server.sendto(*server.recvfrom(2000))
"""
PING = """
import json, socket, sys, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(20)
times = []
for number in range(int(sys.argv[3])):
    began = time.monotonic()
    client.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
    assert client.recv(2000) == str(number).encode()
    times.append(1000 * (time.monotonic() - began))
print(json.dumps(times))
"""
VOLLEY = """
import json, socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(20)
count = int(sys.argv[3])
for number in range(count):
    client.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
print(json.dumps([int(client.recv(2000)) for _ in range(count)]))
"""
POUR = """
import socket, sys, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[3])):
    client.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
    if number % 50 == 0:
        time.sleep(0.002)
"""
SINK = """
import hashlib, socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
connection, _ = server.accept()
hash, count = hashlib.sha256(), 0
while block := connection.recv(1 << 16):
    hash.update(block)
    count += len(block)
    print(count, flush=True)
print(hash.hexdigest(), flush=True)
"""
SOURCE = """
import hashlib, random, select, socket, sys
client = socket.create_connection((sys.argv[1], int(sys.argv[2])))
block, hash = random.Random(1).randbytes(1 << 16), hashlib.sha256()
while not select.select([sys.stdin], [], [], 0.005)[0]:
    client.sendall(block)
    hash.update(block)
client.close()
print(hash.hexdigest())
"""


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


class Pair:
    """Two nodes, of which the second one has an echo."""

    def __init__(self, relay):
        self.nodes = [SimpleNamespace(), SimpleNamespace()]
        self.wire = Wire(self.nodes, relay=relay)
        self.started = []

    def start(self, index, program, *arguments):
        process = subprocess.Popen([*self.nodes[index].wrap, sys.executable, "-c", program, *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def serve(self, program, port):
        process = self.start(1, program, self.wire.address(1), port)
        expect(process.stdout.readline() == "ready\n", "the server did not start")
        return process

    def ask(self, program, count):
        """What the program says, from node 0."""
        process = self.start(0, program, self.wire.address(1), PORT, count)
        told, _ = process.communicate(timeout=120)
        expect(process.returncode == 0, f"a client ended with {process.returncode}")
        return told

    def round_trips_ms(self, count=5):
        return json.loads(self.ask(PING, count))

    def end(self):
        for process in self.started:
            process.kill()
            process.communicate()
        self.wire.end()


def a_delayed_link_takes_the_added_time_each_way(pair):
    for ms in (20, 80, 250):
        pair.wire.delay(1, ms)
        times = pair.round_trips_ms()
        expect(min(times) >= 2 * ms, f"{ms} ms each way, but a round trip took {min(times):.1f} ms")
        became = pair.wire.delay(1, None)
        expect(became["forwarded"] >= 10 and became["dropped"] == 0, f"of 5 round trips: {became}")
        times = pair.round_trips_ms()
        expect(min(times) < ms, f"no delay any more, but a round trip took {min(times):.1f} ms")


def jitter_changes_no_order(pair):
    pair.round_trips_ms(1)
    pair.wire.delay(1, 20, jitter_ms=50)
    came = json.loads(pair.ask(VOLLEY, 200))
    pair.wire.delay(1, None)
    expect(came == sorted(came), f"datagrams came as {came}")


def a_connection_outlasts_the_coming_and_going_of_a_delay(pair):
    sink = pair.serve(SINK, PORT + 1)
    source = pair.start(0, SOURCE, pair.wire.address(1), PORT + 1)
    for ms in (80, None, 20, 250, None):
        before = int(sink.stdout.readline())
        pair.wire.delay(1, ms)
        while int(sink.stdout.readline()) < before + (1 << 18):
            pass
    sent, _ = source.communicate("stop\n", timeout=60)
    got, _ = sink.communicate(timeout=60)
    expect(got.split()[-1] == sent.strip(), "what came is not what was sent")


def what_does_not_fit_the_queue_is_dropped_and_counted(pair):
    pair.round_trips_ms(1)  # addresses are known
    pair.wire.delay(1, 60_000)
    pair.ask(POUR, 4 * QUEUE_FRAMES)
    became = pair.wire.delay(1, None)
    expect(became["forwarded"] == 0 and became["dropped"] > 0 and QUEUE_FRAMES <= became["waiting"] <= 2 * QUEUE_FRAMES,
           f"of {4 * QUEUE_FRAMES} datagrams: {became}")


def a_delayed_node_can_be_cut_off_and_joined(pair):
    pair.wire.cut(1)
    pair.wire.delay(1, 80)
    pair.wire.join(1)
    expect(min(pair.round_trips_ms()) >= 160, "the delay is not there")
    pair.wire.cut(1)
    pair.wire.delay(1, None)
    pair.wire.join(1)
    expect(min(pair.round_trips_ms()) < 80, "the delay is still there")


def a_relay_that_died_is_said(pair):
    pair.wire.delay(1, 20)
    pair.wire.relays[1].kill()
    pair.wire.relays[1].wait()
    try:
        pair.wire.delay(1, None)
    except RuntimeError as error:
        expect("ended by itself" in str(error), str(error))
    else:
        raise AssertionError("it was not said")
    pair.wire.clear()
    pair.round_trips_ms()


def a_relay_ends_with_who_started_it(pair):
    pair.wire.delay(1, 20)
    relay = pair.wire.relays[1]
    relay.stdin.close()
    expect(relay.wait(timeout=60) == 0, f"it ended with {relay.returncode}")
    relay.stdout.close()
    del pair.wire.relays[1]
    pair.wire.clear()


def main():
    why_not = why_no_delays()
    if why_not is not None:
        print(f"skipped: {why_not}")
        return SKIPPED
    try:
        pair = Pair(f"{sys.argv[1]}/chaos_relay")
    except NoNamespaces as error:
        print(f"skipped: {error}")
        return SKIPPED
    try:
        pair.serve(ECHO, PORT)
        for test in (a_delayed_link_takes_the_added_time_each_way, jitter_changes_no_order,
                     a_connection_outlasts_the_coming_and_going_of_a_delay, what_does_not_fit_the_queue_is_dropped_and_counted,
                     a_delayed_node_can_be_cut_off_and_joined, a_relay_that_died_is_said, a_relay_ends_with_who_started_it):
            began = time.monotonic()
            test(pair)
            print(f"ok {test.__name__} ({time.monotonic() - began:.1f})", flush=True)
    finally:
        pair.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
