"""The daemon's end of the local socket for elastic workers that link the real libshoal, in a thread: identity, groups, reports,
checkpoints. A further group is formed of all that are there, once none is in the last one."""

import array
import contextlib
import os
import selectors
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

from shoal import _msgpack

KEY = bytes(range(32))


class _Worker:
    def __init__(self, connection):
        self.socket, self.data, self.fds = connection, bytearray(), []
        self.number, self.waits, self.is_in = None, None, False
        self.port, self.has_state, self.step = 0, False, 0


class ElasticDaemon:
    """`first`: the ranks of the first group. `hosts`: addresses over which workers are spread, as over so many hosts.
    `balance`: as of the experiment."""

    def __init__(self, first, hosts=1, seed=7, balance=False):
        self.first, self.hosts, self.seed, self.balance = first, hosts, seed, balance
        self.checkpoint, self.checkpoint_step, self.saves = None, 0, []
        self.reports = []  # (group, step, metrics)
        self.profiles = []  # (number of the worker, the request)
        self.generation, self.groups = 0, []  # the sizes of all groups
        self.lock, self.workers = threading.RLock(), []
        self.directory = tempfile.TemporaryDirectory(prefix="shoal-elastic-")
        self.path = str(Path(self.directory.name) / "shoald.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.ends = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def environment(self, number):
        return {"SHOAL_SOCKET": self.path, "SHOAL_TOKEN": f"00112233445566778899aabbccddee{number:02x}"}

    def close(self):
        self.ends = True
        self.thread.join()
        for worker in self.workers:
            worker.socket.close()
        self.listener.close()
        self.directory.cleanup()

    def notice(self, name, reason="pause"):
        with self.lock:
            for worker in self.workers:
                self._send(worker, {"notice": name, "reason": reason, "step": 0})

    def wait_for_group_request(self, number):
        """Until this worker waits for its group; at most a few minutes."""
        until = time.monotonic() + 200
        while time.monotonic() < until:
            with self.lock:
                if any(worker.number == number and worker.waits is not None for worker in self.workers):
                    return
            time.sleep(0.01)

    # ---- the thread ----

    def _serve(self):
        while not self.ends:
            for key, _ in self.selector.select(0.05):
                with self.lock:
                    if key.fileobj is self.listener:
                        connection, _ = self.listener.accept()
                        worker = _Worker(connection)
                        self.workers.append(worker)
                        self.selector.register(connection, selectors.EVENT_READ, worker)
                    else:
                        self._read(key.data)

    def _read(self, worker):
        data = b""
        with contextlib.suppress(OSError):
            data, ancillary, _, _ = worker.socket.recvmsg(1 << 20, socket.CMSG_SPACE(16))
            for _, _, payload in ancillary:
                worker.fds += array.array("i", payload)
        if not data:
            self._gone(worker)
            return
        worker.data += data
        while len(worker.data) >= 4 and len(worker.data) >= 4 + struct.unpack_from(">I", worker.data)[0]:
            count = struct.unpack_from(">I", worker.data)[0]
            request, _ = _msgpack.unpack(bytes(worker.data[4 : 4 + count]))
            del worker.data[: 4 + count]
            getattr(self, "_" + request["op"])(worker, request)

    def _send(self, worker, document, fd=None):
        packed = _msgpack.pack(document)
        frame = struct.pack(">I", len(packed)) + packed
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd is not None else []
        with contextlib.suppress(OSError):
            worker.socket.sendmsg([frame], ancillary)

    def _reply(self, worker, request, fd=None, **values):
        if request.get("id"):
            self._send(worker, {"id": request["id"], "ok": True, "end": True, **values}, fd)

    def _gone(self, worker):
        self.selector.unregister(worker.socket)
        worker.socket.close()
        self.workers.remove(worker)
        if worker.is_in:
            self._regroup(at_once=True)
        self._form()

    def _regroup(self, at_once):
        for worker in self.workers:
            if worker.is_in:
                self._send(worker, {"notice": "regroup", "generation": self.generation, "at_once": at_once})

    def _form(self):
        waiting = sorted((w for w in self.workers if w.waits is not None), key=lambda w: w.number)
        if not waiting or any(w.is_in for w in self.workers) or (self.generation == 0 and len(waiting) < self.first):
            return
        self.generation += 1
        self.groups.append(len(waiting))
        states = [w.step for w in waiting if w.has_state]
        step = max(states) if states else self.checkpoint_step
        members = [[rank, self._host(w), w.port, w.has_state and w.step == step] for rank, w in enumerate(waiting)]
        for rank, worker in enumerate(waiting):
            values = {"rank": rank, "size": len(waiting), "step": step, "key": KEY, "members": members}
            self._reply(worker, {"id": worker.waits}, generation=self.generation, **values)
            worker.waits, worker.is_in = None, True

    def _host(self, worker):
        return f"127.0.0.{1 + worker.number % self.hosts}"

    # ---- requests ----

    def _worker_open(self, worker, request):
        worker.number = int(request["token"][-2:], 16)
        place = {"rank": worker.number, "size": max(self.first, worker.number + 1), "host": self._host(worker)}
        trial = {"experiment": "00112233aabbccdd", "trial": 4, "attempt": 2, "generation": 1, "step": self.checkpoint_step}
        self._reply(worker, request, seed=self.seed, hyperparameters={}, balance=self.balance, **place, **trial)

    def _worker_group(self, worker, request):
        worker.port, worker.waits, worker.is_in = request["port"], request["id"], False
        worker.has_state, worker.step = request.get("has_state", False), request.get("step", 0)
        if self.generation > 0:
            self._regroup(at_once=worker.has_state)
        self._form()

    def _worker_report(self, worker, request):
        self.reports.append((request["group"], request["step"], request["metrics"]))
        self._reply(worker, request)

    def _worker_progress(self, worker, request):
        self._reply(worker, request)

    def _worker_profile(self, worker, request):
        self.profiles.append((worker.number, request))

    def _worker_save(self, worker, request):
        fd = worker.fds.pop(0)
        self.checkpoint, self.checkpoint_step = os.pread(fd, request["bytes"], 0), request["step"]
        self.saves.append(request["step"])
        os.close(fd)
        self._reply(worker, request)

    def _worker_parts(self, worker, request):
        self._reply(worker, request, parts=0)

    def _worker_load(self, worker, request):
        if self.checkpoint is None:
            self._reply(worker, request, found=False)
            return
        fd = os.memfd_create("checkpoint")
        os.write(fd, self.checkpoint)
        self._reply(worker, request, fd, found=True, step=self.checkpoint_step, bytes=len(self.checkpoint))
        os.close(fd)
