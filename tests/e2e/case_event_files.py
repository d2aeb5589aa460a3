"""tensorboard: read: what a program's own SummaryWriter leaves becomes metrics, as it grows, once, over restarts of the trial and of
the daemon; a file that is cut short is waited for, one that is damaged is told of."""

from lab import case, expect, show, wait_over, wait_until

# A writer of event files as SummaryWriter makes them, for a program without packages.
WRITER = '''
import os, struct, sys, time
TABLE = []
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ 0x82f63b78 if c & 1 else c >> 1
    TABLE.append(c)
def crc(data):
    c = 0xffffffff
    for byte in data:
        c = TABLE[(c ^ byte) & 255] ^ c >> 8
    c ^= 0xffffffff
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff)
def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])
def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data
def event(step, **values):
    body = b"\\x09" + struct.pack("<d", time.time()) + b"\\x10" + varint(step)
    return body + field(5, b"".join(field(1, field(1, tag.replace("__", "/").encode()) + b"\\x15" + struct.pack("<f", value))
                                    for tag, value in values.items()))
def record(message):
    head = struct.pack("<Q", len(message))
    return head + crc(head) + message + crc(message)
place = os.environ["SHOAL_TENSORBOARD_DIR"] + "/run"
os.makedirs(place, exist_ok=True)
def new_file(number):
    file = open(f"{place}/events.out.tfevents.17000000{number:02}.host", "ab", buffering=0)
    file.write(record(b"\\x09" + struct.pack("<d", time.time()) + field(3, b"brain.Event:2")))
    return file
def await_file(path):
    while not os.path.exists(path):
        time.sleep(0.02)
'''


def experiment(**more):
    return {"name": "summary", "entrypoint": "exec python3 train.py", "tensorboard": "read",
            "searcher": {"name": "single", "metric": "accuracy", "smaller_is_better": False}, **more}


def points(node, identity):
    """(attempt, step, group, metrics) of each point, in their order."""
    return [(point["attempt"], point["step"], point["group"], point["metrics"]) for point in node.json_lines("metrics", identity, "--all")]


@case(limit_s=90)
def event_files_of_a_program_become_its_metrics_as_they_grow(lab):
    """Attempt 2 begins with the files of attempt 1, and adds none of what they hold."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    first, second = lab.dir / "first", lab.dir / "second"
    script = WRITER + f'''
attempt = int(os.environ["SHOAL_ATTEMPT"])
file = new_file(attempt)
if attempt == 1:
    file.write(record(event(1, training__loss=0.5, training__lr=0.25)) + record(event(1, validation__accuracy=0.75)))
    whole = record(event(2, training__loss=0.25))
    file.write(whole[:-3])
    await_file({str(first)!r})
    file.write(whole[-3:])
    await_file({str(second)!r})
    sys.exit(3)
os.makedirs(f"{{place}}/both_a", exist_ok=True)
with open(f"{{place}}/both_a/events.out.tfevents.1700000009.host", "wb") as below:
    below.write(record(event(8, val__both=0.5)))
file.write(record(event(3, loss=0.125)) + record(field(5, b"x" * 300000)) + record(event(4, validation__accuracy=1)))
broken = bytearray(record(event(5, training__loss=9)))
broken[-1] ^= 1
file.write(broken + record(event(6, training__loss=9)))
'''
    identity = lab.submit(node, experiment(max_restarts=1), {"train.py": script})
    early = [(1, 1, "training", {"loss": 0.5, "lr": 0.25}), (1, 1, "validation", {"accuracy": 0.75})]
    wait_until(lambda: points(node, identity) == early, 40, "the first points")
    first.touch()
    early.append((1, 2, "training", {"loss": 0.25}))
    wait_until(lambda: points(node, identity) == early, 20, "the record that was cut short")
    wait_until(lambda: "tfevents" in node.run("output", "ls", f"{identity}/0", check=False), 30, "the kept file")
    second.touch()
    wait_over(mesh, identity, 40)
    late = [(2, 3, "training", {"loss": 0.125}), (2, 4, "validation", {"accuracy": 1})]
    below = [(2, 8, "val", {"both@both_a": 0.5})]
    found = points(node, identity)
    expect([point for point in found if point not in below] == early + late and below[0] in found, f"points {found}")
    expect(show(mesh, identity)["trials"][0]["metrics"]["validation"] == {"accuracy": 1}, "the trial's metrics")
    expect("tfevents.1700000002.host is damaged at byte" in node.run("events"), "nobody is told of the damaged file")


@case(limit_s=90)
def event_files_are_read_on_by_the_next_daemon(lab):
    """The daemon is killed while the program writes; no point is missing, and none comes twice."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = WRITER + '''
file = new_file(1)
for step in range(1, 301):
    file.write(record(event(step, training__loss=step)))
    time.sleep(0.02)
'''
    identity = lab.submit(node, experiment(), {"train.py": script})
    wait_until(lambda: len(points(node, identity)) > 80, 40, "80 points")
    node.kill_daemon()
    node.start()
    wait_over(mesh, identity, 60)
    steps = [step for _, step, _, _ in points(node, identity)]
    expect(set(steps) == set(range(1, 301)), f"missing: {sorted(set(range(1, 301)) - set(steps))[:10]}")
    expect(len(steps) == 300, f"{len(steps) - 300} points come twice")


@case(limit_s=60)
def event_files_are_only_kept_without_the_key(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    script = WRITER + 'new_file(1).write(record(event(1, training__loss=1)))\n'
    identity = lab.submit(node, {key: value for key, value in experiment().items() if key != "tensorboard"}, {"train.py": script})
    wait_over(mesh, identity, 40)
    expect(not points(node, identity), f"points: {points(node, identity)}")
    expect("tfevents.1700000001.host" in node.run("output", "ls", f"{identity}/0"), "no file is kept")
