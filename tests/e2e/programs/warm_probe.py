"""Writes what a process of Python finds around itself as one line of JSON, and ends as the hyperparameter `end` says."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading


def signals():
    """The handlers, the mask and what is ignored."""
    lines = open("/proc/self/status").read().splitlines()
    return [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]


def descriptors():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return {name: what.split(":")[0] for name, what in found.items() if "/proc/" not in what}


def around():
    return {
        "globals": sorted(globals()), "file": __file__, "argv": sys.argv, "path": sys.path, "orig": getattr(sys, "orig_argv", None),
        "executable": sys.executable, "flags": str(sys.flags), "cwd": os.getcwd(), "environment": dict(os.environ),
        "stdin": os.readlink("/proc/self/fd/0"), "descriptors": descriptors(), "session": os.getsid(0) == os.getpid(),
        "group": os.getpgid(0) == os.getpid(), "signals": signals(), "umask": os.umask(0o022), "threads": threading.active_count(),
        "main": threading.current_thread() is threading.main_thread(), "place": multiprocessing.process.ORIGINAL_DIR,
        "oom": open("/proc/self/oom_score_adj").read(), "limits": open("/proc/self/limits").read(),
        "command": open("/proc/self/cmdline").read().rstrip("\0").split("\0"), "package": __package__, "name": __name__,
        "buffering": [sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding], "random": random.random(),
        "subprocess": subprocess.run(["/bin/sh", "-c", "echo $SHOAL_TRIAL; pwd"], capture_output=True, text=True).stdout.split(),
    }


class Own:
    pass


def fail():
    raise ValueError("as it should")


if __name__ == "__main__":
    print(json.dumps(around()))
    end = os.environ.get("SHOAL_HP_END", "0")
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if end == "exit":
        os._exit(7)
    if end == "sysexit":
        sys.exit("a last word")
    if end == "raise":
        fail()
    if end == "interrupt":
        raise KeyboardInterrupt
