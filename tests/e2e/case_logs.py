"""What a worker prints: all of it is kept, however fast it comes."""

import json
import select
import subprocess
import time

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


def talker(lab):
    """A mesh of three and an experiment that is over: birch ran it, and one of the others has a copy of its log."""
    mesh = lab.mesh(["alder", "birch", "cedar"], start=False)
    alder, birch, cedar = mesh.nodes
    alder.slots, birch.slots, cedar.slots = "none", "cpu:1", "none"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": "echo the last $((40 + 2)) words", "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 40)
    wait_until(lambda: all(over(node.json("show", identity)["experiment"]) for node in mesh.nodes), 20, "all to know its end")
    wait_until(lambda: any(has_stored(node, b"the last 42 words") for node in (alder, cedar)), 20, "a copy of the log")
    return mesh, identity


@case(limit_s=90)
def who_cannot_be_reached_is_named_where_nobody_else_has_what_was_said(lab):
    """birch ran it, and one of the two others has a copy: asked alone, that one has everything and the other one says what it lacks."""
    mesh, identity = talker(lab)
    alder, birch, cedar = mesh.nodes
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
    identity = lab.submit(alder, {"name": "talker", "entrypoint": f"seq 1 {lines}; sleep 2; echo the last $((40 + 2)) words",  # on the disk as they are: large pieces are packed
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
    expect(all(state.endswith("%|") for state in states), states)
    expect(states[-1] == "99%|", states[-1])
    expect(len(states) < 60, f"{len(states)} states of 5 s are kept")
    expect(node.run("logs", f"{identity}/0") == "99%|\n", "the bar is not folded")
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
    expect(lines[0] == "x" * 900_000, "the first line is not whole")
    parts = lines[1:-1]
    expect(all(part.endswith(mark) for part in parts[:-1]) and len(parts) == 3, f"{len(parts)} parts")
    expect("".join(part.removesuffix(mark) for part in parts) == "\u20ac" * 700_000, "characters are lost or broken")
    expect(lines[-1] == "end", lines[-1][:80])


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


@case(limit_s=60)
def a_log_is_followed_from_the_first_attempt_of_a_trial_that_waits(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    search = {"name": "single", "metric": "a"}
    holder = lab.submit(node, {"name": "holder", "entrypoint": "sleep 600", "searcher": search})
    wait_until(lambda: show(mesh, holder)["trials"][0]["state"] == "running", 20, "the slot to be taken")
    identity = lab.submit(node, {"name": "next", "entrypoint": "echo the first words", "searcher": search})
    with subprocess.Popen([node.bin / "shoal", "logs", f"{identity}/0", "--follow", "--dir", node.dir], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as reader:
        told = reader.stderr.readline()
        expect("waiting: no slot is free" in told, f"the reader is told {told!r}")
        node.run("cancel", holder)
        said = reader.communicate(timeout=40)[0]
    expect(reader.returncode == 0 and said == "the first words\n", f"exit {reader.returncode}, {said!r}")
    refused(node, "logs", f"{holder}/0", "--follow", "--attempt", "7")
    waiting = lab.submit(node, {"name": "late", "entrypoint": "true", "searcher": search, "resources": {"slots_per_trial": 2}})
    refused(node, "logs", f"{waiting}/0")


@case(limit_s=90)
def the_last_lines_of_an_attempt_are_followed_though_it_ended_while_they_were_read(lab):
    """The reader has read what rank 0 said so far, and is busy with the long log of rank 1, when rank 0 says more and fails."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    gate, lines = lab.dir / "gate", 1_000_000
    words = "; ".join(["[ $SHOAL_ATTEMPT = 1 ] || { echo the second attempt; exit 0; }", f"[ $RANK = 0 ] || {{ seq 1 {lines}; exec sleep 1000; }}",
                       "echo the first words", f"while [ ! -e {gate} ]; do sleep 0.1; done", "echo the last $((40 + 2)) words; exit 1"])
    identity = lab.submit(node, {"name": "talker", "retry": "any", "max_restarts": 1, "entrypoint": words, "resources": {"slots_per_trial": 2},
                                 "searcher": {"name": "single", "metric": "a"}})
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "it to run")
    wait_until(lambda: node.run("logs", f"{identity}/0", "--rank", "1").endswith(f"{lines}\n"), 30, "the long log")
    reader = subprocess.Popen([node.bin / "shoal", "logs", f"{identity}/0", "--follow", "--dir", node.dir], stdout=subprocess.PIPE, text=True)
    said = reader.stdout.readline()
    expect("the first words" in said, said)  # from here on the daemon waits for us, with most of the long log before it
    gate.touch()
    wait_over(mesh, identity, 40)
    said += reader.stdout.read()
    expect(reader.wait(timeout=30) == 0, f"exit status {reader.returncode}")
    expect("the second attempt" in said, "the second attempt is not shown")
    expect("the last 42 words" in said, "what rank 0 said at last is lost")
    expect(len(said.splitlines()) == lines + 4, f"{len(said.splitlines())} lines")


@case(limit_s=60)
def lines_of_several_workers_are_told_apart(lab):
    """Two workers on alder, one on birch: by rank, as torchrun does, by host, or not at all."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "cpu:2", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "entrypoint": "echo $RANK $LOCAL_RANK $(basename $SHOAL_SOCKET)",
                                  "resources": {"slots_per_trial": 3}, "searcher": {"name": "single", "metric": "a"}})
    final = wait_over(mesh, identity, 40)
    hosts = [slot["node_name"] for slot in final["trials"][0]["slots"]]
    local = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    said = [f"{rank} {local[rank]} shoald.sock" for rank in range(3)]
    for asked in mesh.nodes:
        def logs(*words):
            return sorted(asked.run("logs", f"{identity}/0", *words).splitlines())
        expect(logs() == [f"[rank={rank}] {said[rank]}" for rank in range(3)], logs())
        expect(logs("--raw") == said, logs("--raw"))
        prefixed = logs("--prefix", "[${role_name}${local_rank}]:")
        expect(prefixed == sorted(f"[default{local[rank]}]:{said[rank]}" for rank in range(3)), prefixed)
        prefixed = logs("--prefix", "${host} ${rank} ${attempt}|")
        expect(prefixed == sorted(f"{hosts[rank]} {rank} 1|{said[rank]}" for rank in range(3)), prefixed)


def refused(node, *words):
    """The status and the sentence of a command that fails."""
    done = subprocess.run([node.bin / "shoal", *words, "--dir", node.dir], capture_output=True, text=True, timeout=60)
    expect(done.returncode != 0 and done.stdout == "", f"{words}: {done}")
    return done.returncode, done.stderr


@case(limit_s=90)
def the_log_of_an_earlier_attempt_is_read_from_any_node(lab):
    """Two attempts fail, the third one does not: each has its log, also where only the copy is left."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    identity = lab.submit(alder, {"name": "talker", "retry": "any", "max_restarts": 2,
                                  "entrypoint": "echo words $((40 + SHOAL_ATTEMPT)); test $SHOAL_ATTEMPT = 3",
                                  "searcher": {"name": "single", "metric": "a"}})
    wait_over(mesh, identity, 60)
    trial = f"{identity}/0"
    wait_until(lambda: over(alder.json("show", identity)["experiment"]), 20, "alder to know the end")
    wait_until(lambda: all(has_stored(alder, f"words {number}".encode()) for number in (41, 42, 43)), 20, "the copies")
    for node in (birch, alder):
        if node is alder:
            birch.kill_daemon()
        for attempt in (1, 2, 3):
            said = node.run("logs", trial, "--attempt", str(attempt), "--rank", "0")
            expect(said == f"words {40 + attempt}\n", f"{node.name}, attempt {attempt}: {said!r}")
        expect(node.run("logs", trial, "--rank", "0") == "words 43\n", "the newest attempt is not what is shown by default")
        every = [json.loads(line) for line in node.run("logs", trial, "--attempt", "all", "--json").splitlines()]
        expect([(line["attempt"], line["text"]) for line in every] == [(n, f"words {40 + n}") for n in (1, 2, 3)], f"{every}")
        told = subprocess.run([node.bin / "shoal", "logs", trial, "--attempt", "all", "--dir", node.dir], capture_output=True, text=True, timeout=60)
        ended = "ended: a worker failed: rank 0 ended with status 1"
        expect(told.stderr == f"shoal: attempt 1 of the trial\nshoal: attempt 2 of the trial; attempt 1 {ended}\n"
                              f"shoal: attempt 3 of the trial; attempt 2 {ended}\n", told.stderr)
    status, sentence = refused(alder, "logs", trial, "--attempt", "7")
    expect(status == 4 and "has had no attempt 7, but these: 1, 2, 3" in sentence, f"{status}: {sentence}")
    status, sentence = refused(alder, "logs", trial, "--attempt", "last")
    expect(status == 2 and "give a number" in sentence, f"{status}: {sentence}")
    one = subprocess.run([alder.bin / "shoal", "logs", trial, "--attempt", "2", "--follow", "--dir", alder.dir], capture_output=True,
                         text=True, timeout=60)
    expect(one.returncode == 0 and "words 42" in one.stdout and "words 43" not in one.stdout, f"{one}")


@case(limit_s=90)
def a_log_that_is_kept_no_more_is_said_to_be_lost(lab):
    """The node that ran it and the node with the copy leave the mesh."""
    mesh, identity = talker(lab)
    alder, birch, cedar = mesh.nodes
    holder, other = (alder, cedar) if has_stored(alder, b"the last 42 words") else (cedar, alder)
    birch.run("leave")
    expect("the last 42 words" in other.run("logs", f"{identity}/0"), "the copy is not shown")
    holder.run("leave")
    done = subprocess.run([other.bin / "shoal", "logs", f"{identity}/0", "--dir", other.dir], capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0 and done.stdout == "", f"{done}")
    expect("what only birch may have had is kept no more, since it has left the mesh" in done.stderr, done.stderr)


@case(limit_s=90)
def lines_of_a_log_are_chosen_where_the_log_is(lab):
    """alder is asked; birch, which runs the trial, or a copy has the log. Of ten megabytes only some lines come."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    gate = lab.dir / "gate"
    script = (f"seq -f 'step %.0f of many, loss 0.5' 1 300000; printf 'half a line'; while [ ! -e {gate} ]; do sleep 0.1; done; "
              "echo; echo step 7 again; echo the last $((40 + 2)) words")
    identity = lab.submit(alder, {"name": "talker", "entrypoint": script, "searcher": {"name": "single", "metric": "a"}})
    target = f"{identity}/0"

    def lines(*words):
        return alder.run("logs", target, *words).splitlines()

    wait_until(lambda: lines("--tail", "1") == ["half a line"], 40, "the log")
    expect(lines("--grep", "^step (7|299999) of") == ["step 7 of many, loss 0.5", "step 299999 of many, loss 0.5"], "not these two lines")
    expect(len(lines("--grep", "step \\d*000 of")) == 300, "not the 300 lines")
    expect(lines("--tail", "3")[:2] == ["step 299999 of many, loss 0.5", "step 300000 of many, loss 0.5"], lines("--tail", "3"))
    expect(lines("--tail", "2", "--grep", "99 of") == ["step 299899 of many, loss 0.5", "step 299999 of many, loss 0.5"], "the last two matches")
    before = time.time()
    follower = subprocess.Popen([alder.bin / "shoal", "logs", target, "--follow", "--grep", "step 7|last", "--tail", "1", "--dir", alder.dir],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    expect(follower.stdout.readline().startswith("step 7"), "the last match before is not shown")
    time.sleep(1.1)  # --since counts whole seconds
    gate.touch()
    out, error = follower.communicate(timeout=40)
    expect((follower.returncode, out, error) == (0, "step 7 again\nthe last 42 words\n", ""), f"{follower.returncode}: {out!r}, {error!r}")
    wait_over(mesh, identity, 30)
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(before + 1))
    expect(lines("--since", since) == ["half a line", "step 7 again", "the last 42 words"], lines("--since", since)[:5])
    expect(lines("--since", "7d", "--grep", "^the last") == ["the last 42 words"], "since a week")
    error = subprocess.run([alder.bin / "shoal", "logs", target, "--grep", "(", "--dir", alder.dir], capture_output=True, text=True)
    expect(error.returncode == 2 and "a ( has no )" in error.stderr, error.stderr)
    wait_until(lambda: has_stored(alder, b"the last 42 words"), 30, "the copy")
    birch.kill_daemon()
    expect(lines("--grep", "last|7 of many")[-1] == "the last 42 words", "the copy is not searched")


@case(limit_s=120)
def the_oldest_lines_go_and_the_reader_is_told(lab):
    """logs.max_bytes: the last megabyte or so stays, on the worker's node and in the copy, and is searched as any log."""
    mesh = lab.mesh(["alder", "birch"], start=False)
    alder, birch = mesh.nodes
    alder.slots, birch.slots = "none", "cpu:1"
    mesh.start()
    lines = 900_000
    identity = lab.submit(alder, {"name": "talker", "entrypoint": f"sleep 4; seq 1 {lines}; echo the last words",
                                  "searcher": {"name": "single", "metric": "a"}, "logs": {"max_bytes": "1M"}})
    wait_over(mesh, identity, 60)
    wait_until(lambda: "the last words" in alder.run("logs", f"{identity}/0"), 30, "the end of the log")

    def check(node, is_copy):
        """A copy that fell behind what its source had dropped meanwhile has holes, before which lines stay as long as they fit."""
        done = subprocess.run([node.bin / "shoal", "logs", f"{identity}/0", "--dir", node.dir], capture_output=True, text=True, timeout=60)
        said = done.stdout.splitlines()
        expect(said[-1] == "the last words" and said[-2] == str(lines), f"{node.name}: the end is {said[-2:]}")
        expect(400_000 < len(done.stdout) <= 1 << 20, f"{node.name}: {len(done.stdout)} bytes are kept")
        expect(is_copy or said[0] == str(lines - len(said) + 2), f"{node.name}: the first line is {said[0]!r}, which is not a whole one")
        expect("of the output of rank 0 before the next line are kept no more (logs.max_bytes)" in done.stderr, done.stderr)
        first = json.loads(node.run("logs", f"{identity}/0", "--json").splitlines()[0])
        everything = sum(len(str(number)) + 1 for number in range(1, lines + 1)) + len("the last words\n")
        expect(is_copy or first["dropped"] + len(done.stdout) == everything, f"{node.name}: {first}, {len(done.stdout)} of {everything} bytes")
        done = subprocess.run([node.bin / "shoal", "logs", f"{identity}/0", "--grep", "^77$", "--dir", node.dir], capture_output=True, text=True)
        expect(is_copy or (done.stdout == "" and "are kept no more" in done.stderr), f"{node.name}: {done}")
        expect(node.run("logs", f"{identity}/0", "--tail", "2") == f"{lines}\nthe last words\n", "the tail")
        expect(node.run("logs", f"{identity}/0", "--grep", f"^{lines - 7}$") == f"{lines - 7}\n", "a line at the end is not found")

    check(alder, is_copy=False)
    wait_until(lambda: over(alder.json("show", identity)["experiment"]), 20, "alder to know its end")
    birch.kill_daemon()
    wait_until(lambda: "the last words" in alder.run("logs", f"{identity}/0"), 30, "the copy")
    check(alder, is_copy=True)


@case(limit_s=90)
def logs_go_when_their_time_is_over_unless_the_experiment_is_pinned(lab):
    """logs.keep: a sentence tells that they are gone; the results stay."""
    mesh = lab.mesh(1, slots="cpu:1")
    [node] = mesh.nodes
    config = {"entrypoint": "echo some words", "searcher": {"name": "single", "metric": "a"}, "logs": {"keep": "5s"}}
    gone, pinned = [lab.submit(node, {"name": name, **config}) for name in ("gone", "pinned")]
    node.run("pin", pinned)
    for identity in (gone, pinned):
        wait_over(mesh, identity, 40)
    wait_until(lambda: subprocess.run([node.bin / "shoal", "logs", f"{gone}/0", "--dir", node.dir], capture_output=True).returncode == 4,
               30, "the logs to go")
    status, sentence = refused(node, "logs", f"{gone}/0")
    expect(status == 4 and "The logs of gone are gone: its logs.keep is 5s" in sentence, sentence)
    expect(node.run("logs", f"{pinned}/0") == "some words\n", "the logs of a pinned experiment are gone")
    expect(show(mesh, gone)["state"] == "completed", "the experiment has no result any more")

    def is_deleted():
        """The node looks every 10 s. Once the experiment is pinned, what is left of its lines is shown again."""
        time.sleep(12)
        node.run("pin", gone)
        try:
            return node.run("logs", f"{gone}/0") == ""
        finally:
            node.run("unpin", gone)
    wait_until(is_deleted, 40, "the lines to be deleted")
