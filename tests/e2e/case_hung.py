"""Ranks that hang, ranks that others leave behind, and deaths that are called by their names."""

import os
import signal
from pathlib import Path

from lab import Skip, case, expect, show, wait_over, wait_until
from look import parent_of, program_of, workers_of
from case_owners import slots_of


def config(name, entrypoint, **more):
    return {"name": name, "entrypoint": entrypoint, "searcher": {"name": "single", "metric": "accuracy"}, **more}


def notes_of(mesh, identity):
    return show(mesh, identity)["trials"][0].get("notes", [])


@case(limit_s=90)
def a_rank_that_ended_with_0_while_another_goes_on_is_shown_and_ends_the_attempt(lab):
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    identity = lab.submit(node, config(
        "left", "[ $RANK = 0 ] && exit 0; chmod +x py-spy; PATH=$PWD:$PATH exec python3 -c 'import time; time.sleep(3600)'",
        exit_barrier=10, max_restarts=0, resources={"slots_per_trial": 2}), {"py-spy": "#!/bin/sh\necho stands in for py-spy $1\n"})
    wait_until(lambda: show(mesh, identity)["trials"][0]["state"] == "running", 30, "the trial to run")
    note = wait_until(lambda: notes_of(mesh, identity), 10, "a note about rank 0")
    expect(note[0].startswith("rank 0 ended with status 0, and rank 1 runs on"), f"the note is {note}")
    expect("rank 0 ended with status 0, and rank 1 runs on" in node.run("show", identity), "show does not print it")
    wait_until(lambda: "rank 0 ended with status 0" in node.run("events"), 10, "the event")
    trial = wait_over(mesh, identity, 50, state="failed")["trials"][0]
    expect("rank 1 has not ended within 10 s (exit_barrier) after rank 0 ended" in trial["reason"], f"the reason is {trial}")
    wait_until(lambda: set(slots_of(node, node.name).values()) == {"free"}, 20, "the slots to be free")
    log = node.run("logs", f"{identity}/0")
    expect("[shoal] stacks of process" in log and "(python3)" in log and "stands in for py-spy dump" in log, f"no stacks:\n{log}")


@case(limit_s=90)
def a_program_that_does_nothing_is_shown_and_ended(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, config("idle", "echo begins; exec sleep 3600", stall_timeout=6, max_restarts=0))
    trial = wait_over(mesh, identity, 60, state="failed")["trials"][0]
    expect("has written nothing and used no processor time for 6 s (stall_timeout)" in trial["reason"], f"the reason is {trial}")


@case(limit_s=900, whole=True)
def a_program_that_writes_nothing_for_five_minutes_is_shown(lab):
    """With the default of every key. It runs on: a long sleep is no fault of the program's."""
    mesh = lab.mesh(1, slots="cpu:2")
    node = mesh.nodes[0]
    wanted = {"asleep": ("echo begins; exec sleep 3600", "no output, no progress and no processor time used for"),
              "busy": ("echo begins; exec python3 -c 'while True: sum(range(10000)); __import__(\"time\").sleep(0.01)'",
                       "no output and no progress for")}
    identities = {name: lab.submit(node, config(name, entrypoint)) for name, (entrypoint, _) in wanted.items()}
    for name, (_, sentence) in wanted.items():
        identity = identities[name]
        wait_until(lambda: any(note.startswith(f"rank 0 on alder: {sentence}") for note in notes_of(mesh, identity)), 480, f"the note on {name}")
        expect(sentence in node.run("show", identity), f"show does not print it: {node.run('show', identity)}")
        trial = show(mesh, identity)["trials"][0]
        expect((trial["state"], trial["attempt"]) == ("running", 1), f"{name}: {trial}")
        node.run("cancel", identity)


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


ORPHAN = """import os, subprocess, sys, time
child = subprocess.Popen(["setsid", "sleep", "3600"], close_fds=True)
print("child", child.pid, flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.1)
child.kill()
"""


@case(limit_s=90)
def what_a_killed_keeper_leaves_behind_is_ended_before_the_slot_is_free(lab):
    """Also by the next daemon, where the daemon was away when it happened."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    gate = lab.dir / "gate"
    identity = lab.submit(node, config("orphan", f"exec python3 orphan.py {gate}"), {"orphan.py": ORPHAN})
    for is_away in (False, True):
        # The shell and the helpers of the worker's start have ended by then.
        wait_until(lambda: "sleep" in [program_of(pid) for pid, _ in workers_of(identity)], 30, "the child of the worker")
        before = {pid for pid, _ in workers_of(identity)}
        keepers = {parent_of(pid) for pid in before} - before - {None}
        expect(keepers, f"no keeper above the processes {before}")
        if is_away:
            node.kill_daemon()
        for keeper in keepers:
            os.kill(keeper, signal.SIGKILL)
        if is_away:
            node.start()
        wait_until(lambda: not before & {pid for pid, _ in workers_of(identity)}, 30, "the orphans to be ended")
    gate.touch()
    trial = wait_over(mesh, identity, 40)["trials"][0]
    expect(trial["attempt"] == 3 and trial["restarts"] == 0, f"the program is charged: {trial}")


def times_run(trial):
    """How many attempts ran the program: one that was lost before its group was complete (a coordinator gave way) did not."""
    return sum(attempt["state"] == "failed" for attempt in trial.get("attempts", [trial]))


@case(limit_s=90)
def a_program_that_cannot_run_is_not_run_six_times(lab):
    mesh = lab.mesh(2, slots="cpu:1")
    node = mesh.nodes[0]
    for name, entrypoint, status, files in [
            ("word", "no-such-program --flag", 127, {}),
            ("module", "exec python3 a.py", 1, {"a.py": "import time, a_module_that_nobody_has\n"}),
            ("syntax", "exec python3 a.py", 1, {"a.py": "def f(:\n"})]:
        identity = lab.submit(node, config(name, entrypoint), files)
        trial = wait_over(mesh, identity, 60, state="failed")["trials"][0]
        expect(times_run(trial) <= 3 and f"ended with status {status}" in trial["reason"], f"{name}: {trial}")
        expect("failed in the same way each time, within 10 s, on" in trial["reason"], f"{name}: {trial['reason']}")
    expect(times_run(trial) == 2 and "alder" in trial["reason"] and "birch" in trial["reason"],
           f"when both nodes grant slots, the second try is on the other one: {trial}")
    for retry, attempts in [("never", 1), ("any", 3)]:
        identity = lab.submit(node, config(retry, "no-such-program", retry=retry, max_restarts=2))
        trial = wait_over(mesh, identity, 60, state="failed")["trials"][0]
        expect(times_run(trial) == attempts, f"{retry}: {trial}")


@case(limit_s=60)
def a_traceback_with_status_0_is_marked(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    identity = lab.submit(mesh.nodes[0], config("green", "python3 -c '1/0'; true"))
    notes = wait_over(mesh, identity, 30)["trials"][0].get("notes")
    expect(notes == ["rank 0 ended with status 0, but its last lines are a Python traceback"], f"the notes are {notes}")


@case(limit_s=60)
def a_gpu_without_memory_is_named(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    identity = lab.submit(mesh.nodes[0], config(
        "gpu", "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB' >&2; exit 1", max_restarts=0))
    reason = wait_over(mesh, identity, 30, state="failed")["trials"][0]["reason"]
    expect("rank 0 ended with status 1: CUDA out of memory on alder" in reason, reason)


def limited_group(lab, limit_bytes):
    """A control group of its own with a memory limit, as the file to write process ids into; version 1 or 2."""
    of = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    old = next((path for names, path in of.items() if "memory" in names.split(",")), None)
    mount = Path("/sys/fs/cgroup/memory" if old is not None else "/sys/fs/cgroup")
    group = mount / (old if old is not None else of.get("", "/")).strip("/") / f"shoal-e2e-{os.getpid()}"
    try:
        group.mkdir()
        lab.at_end.append(lambda: wait_until(lambda: not (group / "cgroup.procs").read_text() and [group.rmdir()], 20, "an empty group"))
        (group / ("memory.limit_in_bytes" if old is not None else "memory.max")).write_text(str(limit_bytes))
        swap = group / ("memory.memsw.limit_in_bytes" if old is not None else "memory.swap.max")
        if swap.exists():
            swap.write_text(str(limit_bytes) if old is not None else "0")
        (group / "cgroup.procs").read_text()
    except OSError as error:
        raise Skip(f"no memory cgroup can be made: {error}") from None
    return group / "cgroup.procs"


@case(limit_s=90)
def a_worker_that_the_kernel_ends_for_want_of_memory_is_told_so(lab):
    """The daemon and shoal-keep in the same control group live on."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    processes = limited_group(lab, 256 << 20)
    daemon = node.daemon.pid
    processes.write_text(str(daemon))
    lab.at_end.append(mesh.end)
    for entrypoint in ("exec python3 -c 'x = bytearray(1 << 30)'", "python3 -c 'x = bytearray(1 << 30)'; exit $?"):
        identity = lab.submit(node, config("large", entrypoint, max_restarts=0))
        reason = wait_over(mesh, identity, 40, state="failed")["trials"][0]["reason"]
        expect("killed by signal 9 (SIGKILL): the kernel ended it, its control group had reached the memory limit" in reason, reason)
    expect(node.daemon.poll() is None and node.daemon.pid == daemon, "the daemon was ended, too")


SAVES = """import multiprocessing, signal, sys, time
def work(): time.sleep(3600)
helper = multiprocessing.Process(target=work, daemon=True)
def save(number, frame):
    time.sleep(0.5)
    print("signal", number, "helper alive", helper.is_alive(), flush=True)
    sys.exit(0)
helper.start()
signal.signal(getattr(signal, sys.argv[1]), save)
print("ready", flush=True)
while True: time.sleep(1)
"""


@case(limit_s=90)
def a_stop_reaches_the_program_and_leaves_it_its_helpers(lab):
    """Also below a shell, and with another signal."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    for name, entrypoint, options in [("bare", "exec python3 saves.py SIGTERM", {}),
                                      ("below", "python3 saves.py SIGTERM | tee copy; true", {}),
                                      ("user", "python3 saves.py SIGUSR1; true", {"stop_signal": "SIGUSR1"})]:
        identity = lab.submit(node, config(name, entrypoint, preemption_timeout=30, **options), {"saves.py": SAVES})
        wait_until(lambda: "ready" in node.run("logs", f"{identity}/0"), 30, "the program")
        node.run("pause", identity)
        wait_until(lambda: "helper alive True" in node.run("logs", f"{identity}/0"), 30, f"{name} to save with its helper")
        wait_until(lambda: not workers_of(identity), 20, "all of it to be gone")
        node.run("cancel", identity)
