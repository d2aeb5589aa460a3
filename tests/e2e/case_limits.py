"""Limits that a lab hits: how many clients, how long events are kept, how large a configuration may be."""

import resource
import signal
import subprocess

from lab import case, expect, wait_over, wait_until
from look import refusal


@case(limit_s=90)
def hundreds_of_watchers_disturb_nobody(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "watched", "entrypoint": "sleep 60", "searcher": {"name": "single", "metric": "a"}})
    watchers = [subprocess.Popen([node.bin / "shoal", "watch", identity, "--dir", node.dir], stdout=subprocess.PIPE, text=True) for _ in range(200)]
    try:
        for watcher in watchers:
            expect("experiment watched" in watcher.stdout.readline(), "a watcher sees nothing")
        expect(node.json("status")["nodes_alive"] == 1, "the daemon does not answer")
        node.run("cancel", identity)
        for watcher in watchers:
            expect(watcher.wait(timeout=40) == 0, "a watcher failed")
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()


@case(limit_s=60)
def a_client_too_many_is_told_why(lab):
    """The daemon may open 100 files only, so it serves 25 clients."""
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    identity = lab.submit(node, {"name": "watched", "entrypoint": "sleep 60", "searcher": {"name": "single", "metric": "a"}})
    resource.prlimit(node.daemon.pid, resource.RLIMIT_NOFILE, (100, 100))
    watchers = [subprocess.Popen([node.bin / "shoal", "watch", identity, "--dir", node.dir], stdout=subprocess.PIPE, text=True) for _ in range(25)]
    try:
        for watcher in watchers:
            watcher.stdout.readline()
        said = refusal(node, "status", code=1)
        expect("serves 25 clients already" in said and "limit of open files" in said, said)
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.wait()
    wait_until(lambda: node.run("status", check=False), 20, "the daemon to answer again")


@case(limit_s=60)
def events_outlive_a_restart_and_a_damaged_file(lab):
    mesh = lab.mesh(1, slots="cpu:1")
    node = mesh.nodes[0]
    wait_over(mesh, lab.submit(node, {"name": "before", "entrypoint": "true", "searcher": {"name": "single", "metric": "a"}}), 30)
    node.kill_daemon(signal.SIGTERM)
    node.start()
    expect("before is submitted" in node.run("events"), "the events of the earlier daemon are gone")
    numbers = [event["seq"] for event in node.json_lines("events")]
    expect(numbers == sorted(set(numbers)), "numbers are not in order")
    expect("before is submitted" in node.run("events", "--since", "1h"), "--since has no earlier event")
    expect(node.run("events", "--since", "2999-01-01 10:00") == "", "events of the future")
    expect("is no time" in refusal(node, "events", "--since", "yesterday", code=2), "a wrong time is taken")
    node.kill_daemon(signal.SIGKILL)
    files = sorted((node.dir / "events").iterdir())
    expect(len(files) == 1, files)
    files[0].write_bytes(b"\0\xff garbage\n\n" + files[0].read_bytes()[:-20] + b"\n99999999999999999999 1 x\n" + bytes(range(256)))
    (node.dir / "events" / "77777").mkdir()
    node.start()
    shown = node.run("events", "--since", "1h")
    expect("before is submitted" in shown and "garbage" not in shown, shown[-500:])
    wait_over(mesh, lab.submit(node, {"name": "after", "entrypoint": "true", "searcher": {"name": "single", "metric": "a"}}), 30)
    expect("after is submitted" in node.run("events", "--since", "1h"), "nothing is written any more")
