"""Ranks that hang, ranks that others leave behind, and deaths that are called by their names."""

import os
import signal

from lab import case, expect, processes_naming, show, wait_over, wait_until
from look import events_of, workers_of
from case_owners import slots_of


def config(name, entrypoint, **more):
    return {"name": name, "entrypoint": entrypoint, "searcher": {"name": "single", "metric": "accuracy"}, **more}


def notes_of(mesh, identity):
    return show(mesh, identity)["trials"][0].get("notes", [])


@case(limit_s=90)
def a_rank_that_ended_with_0_while_another_goes_on_is_shown_and_ends_the_attempt(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    identity = lab.submit(node, config("left", "[ $RANK = 0 ] && exit 0; exec sleep 3600", exit_barrier=10, max_restarts=0,
                                       resources={"slots_per_trial": 2}))
    note = wait_until(lambda: notes_of(mesh, identity), 20, "a note about rank 0")
    expect(note[0].startswith("rank 0 ended with status 0, and rank 1 runs on"), f"the note is {note}")
    expect("rank 0 ended with status 0, and rank 1 runs on" in node.run("show", identity), "show does not print it")
    wait_until(lambda: "rank 0 ended with status 0" in node.run("events"), 10, "the event")
    trial = wait_over(mesh, identity, 50, state="failed")["trials"][0]
    expect("rank 1 has not ended within 10 s (exit_barrier) after rank 0 ended" in trial["reason"], f"the reason is {trial}")
    wait_until(lambda: set(slots_of(node, node.name).values()) == {"free"}, 20, "the slots to be free")
    log = node.run("logs", f"{identity}/0")
    expect("[shoal] stacks of" in log and "sleep" in log, f"no stacks in the log:\n{log}")


@case(limit_s=90)
def a_program_that_does_nothing_is_shown_and_ended(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, config("idle", "echo begins; exec sleep 3600", stall_timeout=6, max_restarts=0))
    trial = wait_over(mesh, identity, 60, state="failed")["trials"][0]
    expect("has written nothing and used no processor time for 6 s (stall_timeout)" in trial["reason"], f"the reason is {trial}")


@case(limit_s=90)
def a_stopped_rank_is_shown_and_goes_on_when_it_may(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    gate = lab.dir / "gate"
    identity = lab.submit(node, config("stopped", f"while [ ! -e {gate} ]; do sleep 0.1; done"))
    worker = wait_until(lambda: workers_of(identity), 20, "a worker")[0][0]
    os.kill(worker, signal.SIGSTOP)
    wait_until(lambda: any("rank 0 on alder: stopped (SIGSTOP)" in note for note in notes_of(mesh, identity)), 20, "the note")
    os.kill(worker, signal.SIGCONT)
    wait_until(lambda: not notes_of(mesh, identity), 20, "the note to go")
    gate.touch()
    wait_over(mesh, identity, 30)


@case(limit_s=90)
def a_death_by_signal_has_its_name_and_claims_no_want_of_memory(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    for name, entrypoint, expected in [
            ("bare", "exec python3 -c 'import os; os.kill(os.getpid(), 9)'", "was killed by signal 9 (SIGKILL)"),
            ("behind", "python3 -c 'import os; os.kill(os.getpid(), 9)'; exit $?", "killed by signal 9 (SIGKILL)"),
            ("segv", "python3 -c 'import os; os.kill(os.getpid(), 11)'; exit $?", "killed by signal 11 (SIGSEGV)"),
            ("file", "ulimit -f 1; exec head -c 100000 /dev/zero >big", "killed by signal 25 (SIGXFSZ): a file grew")]:
        identity = lab.submit(mesh.nodes[0], config(name, entrypoint, max_restarts=0))
        reason = wait_over(mesh, identity, 30, state="failed")["trials"][0]["reason"]
        expect(expected in reason and "memory" not in reason, f"{name}: {reason}")
