"""What a worker prints: all of it is kept, however fast it comes."""

import select
import subprocess

from lab import case, expect, over, show, wait_over, wait_until


@case(limit_s=60)
def the_end_of_a_long_log_is_kept(lab):
    """Ten megabytes in less than a second or two, and the end at once behind them."""
    lines = 1_400_000
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "talker", "entrypoint": f"seq 1 {lines}; echo the last words",
                                 "searcher": {"name": "single", "metric": "accuracy"}})
    wait_over(mesh, identity, 40)
    said = node.run("logs", f"{identity}/0").splitlines()
    numbers = [line for line in said if line.isdigit()]
    expect(said[-1].endswith("the last words"), f"the end is lost: {said[-1][:80]}")
    expect(len(said) == lines + 1, f"{len(said)} of {lines + 1} lines, {len(numbers)} of them numbers")
    return f"{sum(len(line) + 1 for line in said) / 1e6:.1f} MB"


def has_stored(node, words):
    """In the file of its chunks. What a program is to say is in the copy of its configuration, too, so it has to work it out."""
    return any(words in path.read_bytes() for path in node.dir.glob("chunks*/data.mdb"))


@case(limit_s=90)
def who_cannot_be_reached_is_named_where_nobody_else_has_what_was_said(lab):
    """birch ran it, and one of the two others has a copy: asked alone, that one has everything and the other one says what it lacks."""
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.slots, birch.slots, cedar.slots = "none", "cpu:1", "none"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": "echo the last $((40 + 2)) words", "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40)
    wait_until(lambda: all(over(node.json("show", identity)["experiment"]) for node in mesh.nodes), 20, "all to know its end")
    wait_until(lambda: any(has_stored(node, b"the last 42 words") for node in (alder, cedar)), 20, "a copy of the log")
    birch.kill_daemon()
    silent = []
    for asked, other in ((alder, cedar), (cedar, alder)):
        other.kill_daemon()
        said = subprocess.run([asked.bin / "shoal", "logs", f"{identity}/0", "--dir", asked.dir], capture_output=True, text=True, timeout=60)
        expect(said.returncode == 0, f"{asked.name}: {said}")
        has_all, lacks = "the last 42 words" in said.stdout, "what only birch may have is not shown" in said.stderr
        expect(has_all != lacks, f"{asked.name}: {said}")
        silent += [] if has_all else [asked.name]
        other.start()
    expect(len(silent) == 1, f"two of three nodes are to have a copy; these have none: {silent}")


@case(limit_s=90)
def a_log_is_read_to_its_end_though_the_node_that_gives_it_dies(lab):
    """Half-way: the rest comes from the node that has a copy, or it is said whom it lacks."""
    lines = 1_000_000
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": f"seq 1 {lines}; echo the last $((40 + 2)) words",
                                  "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40)
    wait_until(lambda: has_stored(alder, b"the last 42 words"), 30, "the copy")
    reader = subprocess.Popen([alder.bin / "shoal", "logs", f"{identity}/0", "--dir", alder.dir], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = reader.stdout.read(1 << 20)  # what the pipe and the daemon's queue hold stays behind: it waits for us
    birch.kill_daemon()
    said += reader.stdout.read()
    expect(reader.wait(timeout=30) == 0, f"exit status {reader.returncode}")
    shown, ending = said.count(b"\n"), (said[-40:], reader.stderr.read())
    expect(shown == lines + 1 and said.endswith(b"the last 42 words\n"), f"{shown} lines, the last {ending}")


@case(limit_s=60)
def who_follows_a_log_to_its_end_lacks_nothing(lab):
    """birch dies when all that it said was shown; alder, which has a copy, has nothing to add."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": "echo the last $((40 + 2)) words; sleep 100", "searcher": {"name": "single", "metric": "a"}})
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "it to run")
    follower = subprocess.Popen([alder.bin / "shoal", "logs", f"{identity}/0", "--follow", "--dir", alder.dir], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
    expect("the last 42 words" in follower.stdout.readline(), "nothing is shown")
    wait_until(lambda: has_stored(alder, b"the last 42 words"), 20, "the copy")
    birch.kill_machine()
    alder.run("cancel", identity)
    out, error = follower.communicate(timeout=40)
    expect((follower.returncode, out, error) == (0, "", ""), f"{follower.returncode}: {out!r}, {error!r}")


BAR = """import os, sys, time
for i in range(100):
    sys.stderr.write('\\r%d%%|' % i)
    sys.stderr.flush()
    time.sleep(0.05)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@case(limit_s=60)
def a_progress_bar_is_live_while_one_follows_and_its_last_state_later(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    gate = lab.dir / "gate"
    identity = lab.submit(node, {"name": "bar", "entrypoint": f"python3 bar.py {gate}; exit 3", "max_restarts": 0,
                                 "searcher": {"name": "single", "metric": "a"}}, {"bar.py": BAR})
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "it to run")
    follower = subprocess.Popen([node.bin / "shoal", "logs", f"{identity}/0", "--follow", "--dir", node.dir], stdout=subprocess.PIPE, text=True)
    expect(select.select([follower.stdout], [], [], 10)[0], "nothing of the bar is shown while it is drawn")
    wait_until(lambda: "99%" in node.run("logs", f"{identity}/0"), 30, "the last state, which no end of a line follows")
    gate.touch()
    states = follower.stdout.read().splitlines()
    expect(follower.wait(timeout=30) == 0 and len(states) >= 3, f"{len(states)} states were shown")
    expect(all(state.startswith("[rank=0] ") and state.endswith("%|") for state in states), states)
    expect(states[-1] == "[rank=0] 99%|", states[-1])
    expect(len(states) < 60, f"{len(states)} states of 5 s are kept")
    expect(node.run("logs", f"{identity}/0") == "[rank=0] 99%|\n", "the bar is not folded")
    wait_over(mesh, identity, 30, "failed")
    expect(show(mesh, identity)["trials"][0]["tail"].strip() == "99%|", show(mesh, identity)["trials"][0]["tail"])


@case(limit_s=60)
def a_long_line_is_whole_and_a_longer_one_is_cut_between_characters(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    text = "print('x' * 900_000); print('\\u20ac' * 700_000); print('end')"
    identity = lab.submit(node, {"name": "wide", "entrypoint": f"PYTHONIOENCODING=utf-8 python3 -c \"{text}\"", "max_restarts": 0,
                                 "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40)
    lines = node.run("logs", f"{identity}/0").splitlines()
    mark = " [shoal: this line goes on below]"
    expect(lines[0] == "[rank=0] " + "x" * 900_000, "the first line is not whole")
    parts = [line.removeprefix("[rank=0] ") for line in lines[1:-1]]
    expect(all(part.endswith(mark) for part in parts[:-1]) and len(parts) == 3, f"{len(parts)} parts")
    expect("".join(part.removesuffix(mark) for part in parts) == "\u20ac" * 700_000, "characters are lost or broken")
    expect(lines[-1] == "[rank=0] end", lines[-1][:80])


@case(limit_s=90)
def the_last_lines_of_a_failed_program_are_whole_though_its_node_is_dead(lab):
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    words = "; ".join(["for i in $(seq 1 600)", "do echo line $i of what the program had to say before it failed", "done"])
    identity = lab.submit(alder, {"name": "failing", "entrypoint": f"{words}; exit 3", "max_restarts": 0,
                                  "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40, "failed")
    whole = "".join(f"line {i} of what the program had to say before it failed\n" for i in range(1, 601))
    expect(alder.json("show", identity)["experiment"]["trials"][0]["tail"] == whole, "the tail is not whole")
    birch.kill_machine()
    shown = alder.run("show", identity)
    expect("    line 1 of what" in shown and "    line 600 of what" in shown, shown[-2000:])


@case(limit_s=60)
def a_followed_log_goes_on_with_the_next_attempt(lab):
    """The first attempt fails; the text of the second one comes, too, and a line on stderr stands for the change."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "talker", "retry": "any", "max_restarts": 1,
                                 "entrypoint": "echo words of $SHOAL_ATTEMPT; sleep 3; test $SHOAL_ATTEMPT = 2",
                                 "searcher": {"name": "single", "metric": "a"}})
    wait_until(lambda: node.json("show", identity)["experiment"]["trials"][0]["state"] == "running", 20, "the first attempt")
    reader = subprocess.run([node.bin / "shoal", "logs", f"{identity}/0", "--follow", "--dir", node.dir], capture_output=True, text=True,
                            timeout=50)
    expect(reader.returncode == 0, f"{reader}")
    expect("words of 1" in reader.stdout and "words of 2" in reader.stdout, f"an attempt is not shown: {reader}")
    expect(reader.stderr.count("attempt 2") == 1, f"the change is not told once: {reader.stderr}")
