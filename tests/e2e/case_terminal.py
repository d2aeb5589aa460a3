"""A daemon that was started by hand outlives its terminal, its readers and its log, and so do its workers."""

import os
import pty
import signal
import subprocess
import time

from lab import case, expect, wait_until
from look import workers_of


def daemon_words(lab, node):
    return [f"{lab.build}/shoald", "--dir", str(node.dir), "--listen", "127.0.0.1:0", "--beacon", "0", "--slots", "cpu:1"]


def pid_of(node):
    """The process that holds the data directory's socket: found by its arguments, since a shell started it."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{entry}/cmdline", "rb").read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/shoald") and os.fsencode(str(node.dir)) in words:
            found.append(int(entry))
    return found[0] if len(found) == 1 else None


def answers(node, what):
    wait_until(lambda: node.json("status", timeout=5), 20, f"the daemon to answer {what}")
    return wait_until(lambda: pid_of(node), 20, f"one daemon {what}")


def begin(lab, node, name, run):
    """Starts a daemon by `run`, and a worker on it; returns their process ids and the experiment."""
    run()
    daemon = answers(node, "after its start")
    identity = lab.submit(node, {"name": name, "entrypoint": "sleep 600", "searcher": {"name": "single", "metric": "loss"}})
    worker = wait_until(lambda: workers_of(identity), 20, "a worker")[0][0]
    return daemon, worker, identity


def outlives(lab, node, name, run, disturb):
    daemon, worker, identity = begin(lab, node, name, run)
    disturb(daemon)
    expect(answers(node, f"after {name}") == daemon, f"another daemon answers after {name}")
    os.kill(worker, 0)
    trial = show_at(node, identity)["trials"][0]
    expect((trial["state"], trial["attempt"]) == ("running", 1), f"after {name} the trial is {trial}")
    node.run("cancel", identity)
    os.kill(daemon, signal.SIGTERM)
    wait_until(lambda: pid_of(node) is None, 20, "the daemon to end")


def show_at(node, identity):
    return node.json("show", identity)["experiment"]


@case(limit_s=120)
def a_daemon_outlives_its_terminal_and_its_log(lab):
    node = lab.mesh(1, start=False).nodes[0]
    node.run("init", "--name", "lab")
    words = daemon_words(lab, node)

    def in_terminal():
        pid, end = pty.fork()
        if pid == 0:
            os.execvp("sh", ["sh", "-c", '("$@" &); sleep 1', "sh", *words])
        os.waitpid(pid, 0)  # the shell, the leader of the session, has gone
        os.close(end)

    outlives(lab, node, "the terminal's end", in_terminal, lambda daemon: time.sleep(0.5))

    def by_nohup():
        subprocess.Popen(["nohup", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    outlives(lab, node, "nohup and a hangup", by_nohup, lambda daemon: os.kill(daemon, signal.SIGHUP))

    def plainly():
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    outlives(lab, node, "a hangup", plainly, lambda daemon: os.kill(daemon, signal.SIGHUP))

    # head ends after one line, and the pipe breaks with the next one
    outlives(lab, node, "its reader's end", lambda: subprocess.Popen(["bash", "-c", '"$@" 2>&1 | head -1 >/dev/null', "bash", *words],
                                                                     stdin=subprocess.DEVNULL), lambda daemon: node.run("invite"))
    outlives(lab, node, "a full log", lambda: subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                               stderr=open("/dev/full", "wb")), lambda daemon: node.run("invite"))
