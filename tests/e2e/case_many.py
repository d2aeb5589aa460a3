"""Many at once: submits, watchers, trials."""

import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import Broken, Refused, case, expect, over, show, wait_until


def submit_all(lab, mesh, count):
    """`count` clients that begin at the same time, on all nodes in turn; all are taken, and all experiments complete."""
    file = lab.dir / "c.yaml"
    file.write_text("name: e\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n")
    context = lab.dir / "context"
    context.mkdir()

    def submit(i):
        node = mesh.nodes[i % len(mesh.nodes)]
        return node.run("submit", file, "--context", context, "--set", f"name=e{i}").split()[-1]

    with ThreadPoolExecutor(count) as pool:
        identities = list(pool.map(submit, range(count)))
    expect(len(set(identities)) == count, f"{len(set(identities))} experiments from {count} submits")

    def states():
        rows = {row["id"]: row["state"] for row in mesh.nodes[0].json("ls")["experiments"]}
        found = [rows.get(identity, "unknown") for identity in identities]
        bad = {state for state in found if state in ("failed", "cancelled")}
        if bad:
            raise Broken(f"experiments are {bad}")
        return found.count("completed") == count
    wait_until(states, 120, f"{count} experiments to complete")


def watch_all(lab, node, count):
    """With so many watchers, the next command is answered, or told why not."""
    identity = lab.submit(node, {"name": "seen", "entrypoint": "sleep 600", "searcher": {"name": "single", "metric": "loss"}})
    watchers = [subprocess.Popen([f"{lab.build}/shoal", "watch", identity, "--dir", str(node.dir)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True) for _ in range(count)]
    try:
        watching = sum("experiment seen" in watcher.stdout.readline() for watcher in watchers)  # the others are turned away
        expect(watching >= min(count, 100), f"{watching} of {count} watch")
        for _ in range(20):
            try:
                node.json("status")
            except Refused as refused:
                expect("too many" in refused.text or "descriptors" in refused.text, f"a command is refused with {refused.text}")
        node.run("cancel", identity)
        for watcher in watchers:
            said = watcher.communicate(timeout=60)[1]
            expect(watcher.returncode in (0, 1) or "too many" in said, f"a watcher ends with {watcher.returncode}: {said}")
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
    node.json("status")


@case(limit_s=90)
def all_of_many_submits_at_once_are_taken(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    submit_all(lab, mesh, 40)
    watch_all(lab, mesh.nodes[0], 30)


@case(limit_s=400, whole=True)
def two_hundred_submits_at_once_are_taken_beside_130_watchers(lab):
    mesh = lab.mesh(2, slots="cpu:2")
    submit_all(lab, mesh, 200)
    watch_all(lab, mesh.nodes[0], 130)


def memory_bytes(node):
    status = Path(f"/proc/{node.daemon.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def often(sorted_s):
    """What one answer in twenty takes at least."""
    return sorted_s[-max(1, len(sorted_s) // 20)]


def many_trials(lab, trials, restart_at):
    """All complete, also beyond a restart of a daemon, each in one attempt; then the experiment is deleted. Returns when how many
    were complete, by command how long each question waited meanwhile (sorted), the most memory, and how long the restart and the
    deletion took."""
    mesh = lab.mesh(2, slots="cpu:2")
    alder, birch = mesh.nodes
    identity = lab.submit(alder, {"name": "many", "entrypoint": "true", "hyperparameters": {"x": {"type": "double", "minval": 0,
                                  "maxval": 1}}, "searcher": {"name": "random", "metric": "loss", "max_trials": trials}})
    seen, waited_s, ready_s = [], {"ls": [], "status": [], "show": []}, None
    deadline = time.monotonic() + 60 + trials
    while True:
        expect(time.monotonic() < deadline, f"{seen[-1:]} of {trials} trials")
        for words in (("ls",), ("status",), ("show", identity))[:3 if len(seen) % 10 == 0 else 2]:
            began = time.monotonic()
            answer = alder.json(*words)
            waited_s[words[0]].append(time.monotonic() - began)
            if words == ("ls",):
                row = next(row for row in answer["experiments"] if row["id"] == identity)
        seen.append((time.monotonic(), row["trials"]["completed"]))
        if row["trials"]["completed"] >= restart_at and ready_s is None:
            birch.kill_daemon()
            began = time.monotonic()
            birch.start()
            ready_s = time.monotonic() - began
        if over(row):
            break
        time.sleep(0.1)
    expect(row["state"] == "completed" and row["trials"]["completed"] == trials, f"the experiment is {row}")
    restarts = sum(trial["restarts"] for trial in show(mesh, identity)["trials"])
    expect(restarts == 0, f"{restarts} restarts are counted")
    most = max(memory_bytes(node) for node in mesh.nodes)
    began = time.monotonic()
    alder.run("delete", identity, "--yes")
    deleted_s = time.monotonic() - began
    expect(all(row["id"] != identity for row in alder.json("ls")["experiments"]), "it is still there")
    for name, all_s in waited_s.items():
        all_s.sort()
        lab.note(f"{name}: of {len(all_s)} answers half took {all_s[len(all_s) // 2]:.2f} s, one in twenty {often(all_s):.2f} s, "
                 f"the longest {all_s[-1]:.2f} s")
    lab.note(f"{most >> 20} MiB, restarted in {ready_s:.2f} s, deleted in {deleted_s:.2f} s")
    return seen, waited_s, most, ready_s, deleted_s


@case(limit_s=120)
def hundreds_of_trials_complete_beyond_a_restart_of_a_daemon(lab):
    many_trials(lab, 150, 60)


@case(limit_s=1500, alone=True, whole=True)
def thousands_of_trials_do_not_slow_a_mesh_down(lab):
    trials = 5000
    seen, waited_s, most, ready_s, deleted_s = many_trials(lab, trials, 2500)

    def took(first, last):
        at = [next(when for when, count in seen if count >= wanted) for wanted in (first, last)]
        return at[1] - at[0]
    early, late = took(1, 500), took(trials - 499, trials)
    lab.note(f"trials 1 to 500 in {early:.1f} s, the last 500 in {late:.1f} s")
    expect(late < 2 * early, f"the last 500 trials take {late:.1f} s, the first 500 took {early:.1f} s")
    # One may wait longer on a machine with other work; a daemon that is busy with its trials makes many wait.
    for name, all_s in waited_s.items():
        expect(all_s[len(all_s) // 2] < 1 and often(all_s) < 4, f"half of the answers of {name} take {all_s[len(all_s) // 2]:.2f} s or "
               f"more, one in twenty {often(all_s):.2f} s")
    expect(most < 150 << 20, f"a daemon has {most >> 20} MiB")
    expect(ready_s < 10, f"a restarted daemon is ready after {ready_s:.1f} s")
    expect(deleted_s < 5, f"deleting takes {deleted_s:.1f} s")
