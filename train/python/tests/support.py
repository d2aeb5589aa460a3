"""What several tests need."""

import contextlib
import functools
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shoal import GroupBroken, _checkpoint, _run


def blob(state, step=1, pickle=False):
    """The checkpoint of a state, as the daemon keeps it."""
    layout = _checkpoint.lay_out(state, step, pickle)
    data = bytearray(layout.bytes)
    layout.write(memoryview(data))
    return data


def read(data, pickle=False):
    """The state in a checkpoint."""
    return _checkpoint.read_state(_checkpoint.open_files(memoryview(data)), pickle)[0]


def round_trip(state, pickle=False):
    return read(blob(state, pickle=pickle), pickle)


@contextlib.contextmanager
def place(**environment):
    """An empty working directory, and an environment without Shoal's variables but with these."""
    before, directory = dict(os.environ), os.getcwd()
    if _run._current is not None:  # of a test that went before, in the same process
        _run._current.close()
        _run._current = None
    with tempfile.TemporaryDirectory() as path:
        for name in list(os.environ):
            if name.startswith("SHOAL_") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
                del os.environ[name]
        os.environ.update(environment)
        os.chdir(path)
        try:
            with mock.patch.object(_run.Run, "_tell_place"):  # its line would be among those of the tests
                yield Path(path)
        finally:
            if _run._current is not None:
                _run._current.close()
                _run._current = None
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(before)


class FakeLink:
    """A link (shoal._library.Link) to no daemon. `group`: the links of all ranks, each of which a thread of the test uses."""

    experiment, trial, attempt, seed, start_step = "0123456789abcdef", 3, 2, 7, 0

    def __init__(self, rank=0, size=1, group=None):
        self.rank, self.size, self.group = rank, size, group
        self.reported, self.saved, self.calls = bytearray(), [], []
        self.order = []  # "report", "save"
        self.parts_saved = []  # of each save
        self.loadable = []  # the parts of the checkpoint to start from
        self.ranges_loaded = []  # of which part, which; None: all of it
        self.stop, self.lock, self.closed = False, threading.RLock(), False
        self.steps, self.spans = [], []  # ends of steps, and kinds of spans, as they were told of

    def report(self, packed):
        self.reported += packed
        self.order.append("report")
        return len(packed)

    def pump(self):
        pass

    def span(self, kind, begin_ns):
        assert begin_ns <= time.monotonic_ns()
        self.spans.append(kind)

    def step_mark(self, step):
        self.steps.append(step)

    def flush(self, timeout_ms):
        return True

    def should_stop(self):
        return self.stop

    def stop_reason(self):
        return "pause" if self.stop else ""

    def durable_step(self):
        with self.lock:
            return 5

    def save_begin(self, count):
        self.room = bytearray(count)
        return memoryview(self.room)

    def save_commit(self, step, cuts, part=None):
        self.parts_saved.append(part)
        assert cuts == sorted(set(cuts)) and cuts[-1] < len(self.room)
        self.saved.append((step, bytes(self.room)))
        self.order.append("save")

    def locked(self):
        return self.lock

    def forget_threads(self):
        self.lock = threading.RLock()

    def parts(self):
        return len(self.loadable)

    def load(self, part=None, ranges=None):
        """Zeros where the ranges want nothing."""
        if part is None:
            return None
        data = self.loadable[part]
        fd = os.memfd_create("part")
        os.truncate(fd, len(data))
        self.ranges_loaded.append((part, ranges))
        for begin, count in ranges or [(0, len(data))]:
            os.pwrite(fd, data[begin : begin + count], begin)
        return fd, len(data), 1

    def all_gather(self, mine, doing):
        self.calls.append(doing)
        return self.group.exchange(self.rank, mine)

    def broadcast(self, data, root, doing):
        self.calls.append(doing)
        data[:] = self.group.exchange(self.rank, bytes(data))[root]

    def close(self):
        self.closed = True


class Group:
    """Ranks that meet: threads of one test."""

    def __init__(self, size):
        self.parts, self.barrier = [b""] * size, threading.Barrier(size)

    def exchange(self, rank, mine):
        self.parts[rank] = mine
        try:
            self.barrier.wait(30)
            everyone = list(self.parts)
            self.barrier.wait(30)
        except threading.BrokenBarrierError:
            raise GroupBroken("a rank is gone") from None
        if len({len(each) for each in everyone}) > 1:
            raise GroupBroken("ranks disagree")
        return everyone


@contextlib.contextmanager
def inside(link=None, **environment):
    """As `place`, inside Shoal: `shoal.init` connects by `link`, a FakeLink. Gives the link."""
    link = link or FakeLink()
    before = _run.Link
    with place(SHOAL_SOCKET="/nowhere", **environment):
        _run.Link = lambda: link
        try:
            yield link
            if _run._current is not None:
                _run._current.close()
        finally:
            _run.Link = before


def ranks(program, size=2):
    """Runs ``program(run)`` as each rank of a trial, in a thread. Gives their results, or what they raised."""
    group, results = Group(size), [None] * size
    runs = []

    def one(run):
        try:
            results[run.rank] = program(run)
        except Exception as error:
            results[run.rank] = error

    for rank in range(size):
        with inside(FakeLink(rank, size, group)):
            runs.append(_run.Run())
    threads = [threading.Thread(target=functools.partial(one, run)) for run in runs]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for run in runs:
        run.close()
    return results
