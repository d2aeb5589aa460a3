"""shoal run: a program without a configuration file, from a terminal that asks."""

import os
import pty
import signal
import subprocess
import time

from lab import case, expect, show, wait_until

# Rank 0 fails. The other ranks wait to be ended with it: if one of them failed first, rank 0 might be ended before it has written.
PROGRAM = """import os, signal, sys
print('given', sys.argv[1:], flush=True)
while os.environ["RANK"] != "0":
    signal.pause()
sys.exit(int(sys.argv[1]))
"""


def words(node, context, *more):
    return [node.bin / "shoal", "run", "--dir", node.dir, "--context", context, *more]


def run_context(lab):
    context = lab.dir / "code"
    context.mkdir()
    (context / "train.py").write_text(PROGRAM)
    return context


@case(limit_s=90)
def a_program_runs_without_a_file_and_its_status_comes_back(lab):
    node = lab.mesh(1, slots="cpu:2").nodes[0]
    context = run_context(lab)
    said = subprocess.run(words(node, context, "--slots", "2", "--hp", "lr=0.1", "--", "python3", "train.py", "5", "it's"),
                          capture_output=True, text=True, timeout=60)
    expect(said.returncode == 5, f"the program's status is 5: {said}")
    expect("[rank=0] given ['5', \"it's\", '--lr', '0.1']" in said.stdout, f"its words and its output: {said}")
    expect(said.stdout.count("given") <= 2, f"it is not started again: {said}")


@case(limit_s=120)
def an_interrupt_asks_and_cancels_only_when_told_to(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    context = run_context(lab)
    for answer, code, state in ((b"l\n", 0, "running"), (b"c\n", 130, "cancelled"), (b"", 130, "running")):
        ours, theirs = pty.openpty()
        run = subprocess.Popen(words(node, context, "--", "sh", "-c", "echo begun; exec sleep 600"), stdin=theirs, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        try:
            expect(run.stdout.readline() == "begun\n", "the program begins")
            run.send_signal(signal.SIGINT)
            os.write(ours, answer)
            question = ""
            while answer == b"" and not question.endswith("(Enter)? "):
                question += run.stderr.read(1) or "ended early (Enter)? "
            while answer == b"" and run.poll() is None: # the signal ends the wait for an answer, once the program waits
                run.send_signal(signal.SIGINT)
                time.sleep(0.05)
            _, said = run.communicate(timeout=60)
            said = question + said
        finally:
            run.kill()
            os.close(ours)
            os.close(theirs)
        expect(run.returncode == code and said.count("Cancel the run (c)") == 1, f"{answer}: {run.returncode}, {said}")
        expect(("the run goes on without this terminal" in said) == (state == "running"), said)
        identity = said.split("node: ")[1].split()[0]
        wait_until(lambda: show(mesh, identity)["state"] == state, 30, f"{identity} to be {state}")
        if state == "running":
            node.run("cancel", identity)
