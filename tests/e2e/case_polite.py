"""The machine's owner comes first: workers have the lowest priority, and the owner's programs get the processor."""

import os
import subprocess
import sys
import time
from pathlib import Path

from case_shells import run
from lab import case, expect, wait_until
from look import parent_of, program_of, workers_of

BUSY = "while :; do :; done"
BUSY_S = 4
LEAST_SHARE = 0.8  # of the processor, for the owner's program; equal priorities would give it 0.5


def priority_of(pid):
    """(policy, class of its disk requests, niceness of its session); the last one is None where sessions have none."""
    disks = subprocess.run(["ionice", "-p", str(pid)], capture_output=True, text=True, timeout=20).stdout.split(":")[0].strip()
    session = Path(f"/proc/{pid}/autogroup")
    return os.sched_getscheduler(pid), disks, session.read_text().split()[-1] if session.exists() else None


def lowest():
    return os.SCHED_IDLE, "idle", "19" if Path("/proc/self/autogroup").exists() else None


def expect_lowest(pid, what):
    wait_until(lambda: priority_of(pid) == lowest(), 20, f"{what} to have the priority {lowest()} and not {priority_of(pid)}")


def processes(identity, name):
    return [pid for pid, _ in workers_of(identity) if program_of(pid).startswith(name)]


def one(identity, name):
    return wait_until(lambda: processes(identity, name), 30, f"{name} to run")[0]


def trial(lab, node, entrypoint, files=None, **more):
    return lab.submit(node, {"name": "guest", "entrypoint": entrypoint, "searcher": {"name": "single"}} | more, files)


@case(limit_s=120)
def whatever_runs_for_a_trial_has_the_lowest_priority(lab):
    """A worker, a session that it begins, a warm worker and a command beside it; the daemon and shoal-keep keep theirs."""
    node = lab.mesh(1, slots="cpu:2", options=["--polite", "on"]).nodes[0]
    expect(node.json("status")["polite"], "status does not tell that workers have the lowest priority")
    cold = trial(lab, node, "setsid sleep 900 & exec tail -f /dev/null")
    worker = one(cold, "tail")
    expect_lowest(worker, "the worker")
    expect_lowest(one(cold, "sleep"), "a session of the worker")
    keep = parent_of(worker)
    for pid, what in ((keep, "shoal-keep"), (node.daemon.pid, "the daemon")):
        expect(os.sched_getscheduler(pid) == os.SCHED_OTHER, f"{what} has the scheduling policy {os.sched_getscheduler(pid)}")
        expect(priority_of(pid)[2] in ("0", None), f"the session of {what} has the niceness {priority_of(pid)[2]}")
    status, policy, errors = run(node, "exec", f"{cold}/0", "--", sys.executable, "-c", "import os; print(os.sched_getscheduler(0))")
    expect(status == 0 and int(policy) == os.SCHED_IDLE, f"a command beside the worker has the scheduling policy {policy}: {errors}")
    warm = trial(lab, node, "python3 wait.py", {"wait.py": "import time\ntime.sleep(900)\n"},
                 environment={"warm": True})
    worker = wait_until(lambda: [pid for pid, _ in workers_of(warm) if program_of(parent_of(pid) or 0) == "shoal-keep"], 30,
                        "the warm worker")[0]
    expect_lowest(worker, "a warm worker")
    expect(os.sched_getscheduler(parent_of(worker)) == os.SCHED_OTHER, "the shoal-keep of a warm worker has its priority")
    for identity in (cold, warm):
        node.run("cancel", identity)


@case(limit_s=60)
def workers_can_be_as_any_other_process(lab):
    node = lab.mesh(1, slots="cpu:1", options=["--polite", "off"]).nodes[0]
    expect(not node.json("status")["polite"], "status tells that workers have the lowest priority")
    worker = one(trial(lab, node, "exec tail -f /dev/null"), "tail")
    own = os.sched_getscheduler(0)
    expect(os.sched_getscheduler(worker) == own, f"the worker has the scheduling policy {os.sched_getscheduler(worker)}")
    done = subprocess.run([str(node.bin / "shoald"), "--polite", "perhaps"], capture_output=True, text=True, timeout=20)
    expect(done.returncode == 2 and "want on or off, and not perhaps" in done.stderr, f"{done.returncode}: {done.stderr}")


def used_s(pid):
    """The processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@case(limit_s=60, alone=True)
def the_owners_program_gets_the_processor(lab):
    """On one processor, a program in a session of its own beside a worker: both want all of it."""
    node = lab.mesh(1, slots="cpu:1", options=["--polite", "on"]).nodes[0]
    processor = min(os.sched_getaffinity(0))
    identity = trial(lab, node, f"taskset -c {processor} bash -c '{BUSY}'")
    worker = one(identity, "bash")
    expect_lowest(worker, "the worker")
    owner = subprocess.Popen(["taskset", "-c", str(processor), "bash", "-c", BUSY], start_new_session=True)
    lab.at_end.append(owner.kill)
    wait_until(lambda: used_s(owner.pid) > 0 and used_s(worker) > 0, 30, "both to compute")
    before = used_s(owner.pid), used_s(worker)
    time.sleep(BUSY_S)
    of_owner, of_worker = used_s(owner.pid) - before[0], used_s(worker) - before[1]
    share = of_owner / (of_owner + of_worker)
    expect(share >= LEAST_SHARE, f"beside a worker the owner's program gets {share:.0%} of the processor that both use")
    return f"{share:.1%} for the owner"
