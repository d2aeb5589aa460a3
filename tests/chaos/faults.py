"""Does what the plan says, each fault in a thread of its own, and undoes it."""

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from workload import Submit


def written_bytes(pid):
    """What the process has written so far, in bytes handed to write calls."""
    text = Path(f"/proc/{pid}/io").read_text()
    return int(text.split("wchar:")[1].split()[0])


def copy_tree(source, target):
    """Everything in it, sockets included, and without holes: on a full tmpfs, unlike on a disk, whoever reads a hole through a
    map, as LMDB does, dies of SIGBUS. What a worker's shoal-keep takes away or replaces meanwhile is not in it."""
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["cp", "-a", "--sparse=never", f"{source}/.", str(target)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C"})
    excused = ("No such file or directory", "as it was replaced while being copied")
    failed = [line for line in done.stderr.splitlines() if not ("/runs/" in line and line.endswith(excused))]
    if failed or done.returncode not in (0, 1):
        raise OSError(f"{source} cannot be copied: {failed or done.returncode}")


def empty_tree(directory):
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


class Faults:
    """What can be done to this mesh. `down` are the nodes whose daemon is away because of us."""

    def __init__(self, mesh, wire, workload, disk, streams, say, spare=None):
        self.mesh = mesh
        self.wire = wire
        self.workload = workload
        self.disk = disk
        self.streams = streams
        self.say = say
        self.spare = spare
        self.down = set()
        self.node_locks = [threading.Lock() for _ in mesh.nodes]
        self.link_lock = threading.Lock()
        self.problems = []
        self.done = {}  # kind -> how often
        self.began = time.monotonic()

    # ---- storms ----

    def storm(self, plan, seconds):
        """Returns when it is over and undone."""
        self.calm = threading.Event()
        began = time.monotonic()
        threads = [threading.Thread(target=self.perform, args=(fault, began), name=fault.kind, daemon=True) for fault in plan]
        for thread in threads:
            thread.start()
        while time.monotonic() < began + seconds and not self.problems:
            time.sleep(0.5)
            self.look_for_deaths()
        self.calm.set()
        for thread in threads:
            thread.join(120)
            if thread.is_alive():
                self.problems.append(f"the fault {thread.name} could not be undone in 120 s")
        with self.link_lock:
            self.wire.clear()
        if self.disk is not None:
            self.disk.free()

    def look_for_deaths(self):
        for index, node in enumerate(self.mesh.nodes):
            # Looked at again behind it: a fault in another thread says that it is down before it kills it.
            if index not in self.down and not node.is_running() and index not in self.down:
                self.problems.append(f"the daemon of {node.name} ended by itself with {node.daemon.returncode}")
                self.down.add(index)

    def perform(self, fault, began):
        if self.calm.wait(max(0.0, began + fault.at_s - time.monotonic())):
            return
        self.say(fault.text([node.name for node in self.mesh.nodes]))
        self.done[fault.kind] = self.done.get(fault.kind, 0) + 1
        try:
            getattr(self, fault.kind)(fault)
        except Exception as error:
            self.problems.append(f"{fault.kind} of {', '.join(self.mesh.nodes[i].name for i in fault.nodes)}: {error}")

    def leave(self, index):
        self.workload.unusable.add(index)
        self.down.add(index)

    def come_back(self, index):
        self.mesh.nodes[index].start()
        self.down.discard(index)
        self.workload.unusable.discard(index)

    # ---- nodes ----

    def kill_daemon(self, fault):
        index = fault.nodes[0]
        with self.node_locks[index]:
            self.leave(index)
            self.mesh.nodes[index].kill_daemon()
            self.calm.wait(fault.for_s)
            self.come_back(index)

    def kill_machine(self, fault):
        index = fault.nodes[0]
        with self.node_locks[index]:
            self.leave(index)
            self.mesh.nodes[index].kill_machine()
            self.calm.wait(fault.for_s)
            self.come_back(index)

    def kill_in_commit(self, fault):
        """While it stores the code of a submit: once it has written so many bytes of it."""
        index, stream = fault.nodes[0], self.streams["commits"]
        node = self.mesh.nodes[index]
        with self.node_locks[index]:
            before = written_bytes(node.daemon.pid)
            submit = Submit(self.workload, index, self.workload.config(stream), stream.randbytes(6 << 20))
            deadline = time.monotonic() + 5
            while written_bytes(node.daemon.pid) < before + fault.details["bytes"] and time.monotonic() < deadline:
                if submit.command.poll() is not None:
                    break
                time.sleep(0.001)
            self.leave(index)
            if fault.details["how"] == "machine":
                node.kill_machine()
            else:
                node.kill_daemon()
            submit.wait()
            self.calm.wait(fault.for_s)
            self.come_back(index)

    def stop(self, fault):
        index = fault.nodes[0]
        node = self.mesh.nodes[index]
        with self.node_locks[index]:
            self.workload.unusable.add(index)
            os.kill(node.daemon.pid, signal.SIGSTOP)
            try:
                self.calm.wait(fault.for_s)
            finally:
                os.kill(node.daemon.pid, signal.SIGCONT)
                self.workload.unusable.discard(index)

    def take_copy(self, index, target):
        """Of the data directory, while the daemon is down for it; workers go on."""
        node = self.mesh.nodes[index]
        self.leave(index)
        node.kill_daemon(signal.SIGTERM)
        shutil.rmtree(target, ignore_errors=True)
        copy_tree(node.dir, target)
        self.come_back(index)

    def old_disk(self, fault):
        """The data directory of some seconds ago comes back, as from a snapshot or a backup."""
        index = fault.nodes[0]
        node = self.mesh.nodes[index]
        with self.node_locks[index]:
            copy = node.tree.parent / "old"
            self.take_copy(index, copy)
            self.calm.wait(fault.details["age_s"])
            self.leave(index)
            node.kill_machine()
            self.workload.disk_went_back(index)
            empty_tree(node.dir)
            copy_tree(copy, node.dir)
            shutil.rmtree(copy)
            self.calm.wait(max(0.0, fault.for_s - fault.details["age_s"]))
            self.come_back(index)

    def clone(self, fault):
        """A second daemon with the same key, on a machine of its own."""
        index = fault.nodes[0]
        with self.node_locks[index]:
            self.take_copy(index, self.spare.dir)
            self.spare.start()
            try:
                self.calm.wait(fault.for_s)
            finally:
                self.spare.kill_machine()

    # ---- disks ----

    def full_disk(self, fault):
        with self.node_locks[fault.nodes[0]]:
            self.disk.fill()
            self.calm.wait(fault.for_s)
            self.disk.free()

    # ---- links ----

    def lose(self, pairs, percent, for_s):
        with self.link_lock:
            for source, target in pairs:
                self.wire.lose(source, target, percent)
        self.calm.wait(for_s)
        with self.link_lock:
            for source, target in pairs:
                self.wire.lose(source, target, 0)

    def others(self, side):
        return [i for i in range(len(self.mesh.nodes)) if i not in side]

    def cut(self, fault):
        index = fault.nodes[0]
        with self.link_lock:
            self.wire.cut(index)
        self.calm.wait(fault.for_s)
        with self.link_lock:
            self.wire.join(index)

    def partition(self, fault):
        pairs = [(a, b) for a in fault.nodes for b in self.others(fault.nodes)]
        self.lose(pairs + [(b, a) for a, b in pairs], 100, fault.for_s)

    def one_way(self, fault):
        first = fault.nodes[0]
        pairs = [(first, other) for other in (fault.nodes[1:] or self.others([first]))]
        self.lose(pairs if fault.details["what"] == "unheard" else [(b, a) for a, b in pairs], 100, fault.for_s)

    def lossy(self, fault):
        first = fault.nodes[0]
        pairs = [(first, other) for other in self.others([first])]
        self.lose(pairs + [(b, a) for a, b in pairs], fault.details["percent"], fault.for_s)

    def slow(self, fault):
        with self.link_lock:
            self.wire.slow(fault.nodes[0], fault.details["kbit_s"])
        self.calm.wait(fault.for_s)
        with self.link_lock:
            self.wire.slow(fault.nodes[0], None)

    def delayed(self, fault):
        index = fault.nodes[0]
        with self.link_lock:
            self.wire.delay(index, fault.details["delay_ms"], fault.details["jitter_ms"])
        self.calm.wait(fault.for_s)
        with self.link_lock:
            self.wire.delay(index, None)
