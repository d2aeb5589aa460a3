"""libshoal, the C library that talks with the daemon (train/shoal/shoal.h), by ctypes. A call releases the GIL while it waits.

A `Link` takes one call at a time; its lock keeps the package's thread and the program's threads apart.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from contextlib import AbstractContextManager
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, NamedTuple

from ._errors import CheckpointError, DaemonLost, GroupBroken, ShoalError, StepLost

NAME = "libshoal.so.0"
_ERROR_BYTES = 512
_WAIT_SECONDS = 300  # for other ranks, which may evaluate or write meanwhile
_COLLECTIVE_TIMEOUT_DEFAULT = 60  # of node/core/facts/options.c; meant for sums of gradients
_F32, _BYTES = 1, 4  # enum shoal_type
DATA, FORWARD, BACKWARD = 2, 3, 4  # enum shoal_span_kind
_AGAIN, _STOP = 1, 2  # SHOAL_AGAIN, SHOAL_STOP

# of shoal_on_load and shoal_on_state
_LOAD = CFUNCTYPE(c_int, c_void_p, POINTER(c_uint64))
_PACK = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_size_t))
_UNPACK = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)

# base/err.h
MALFORMED, FULL, NOT_FOUND, REFUSED, IO, MEMORY, TIMEOUT, CORRUPT, CLOSED, USAGE = (
    -1, -2, -3, -5, -7, -8, -9, -10, -11, -14,
)  # fmt: skip


def _candidates() -> list[str]:
    """Where libshoal may be, best first: as named, in the wheel, beside the programs on the PATH, in the system."""
    named = os.environ.get("SHOAL_LIBRARY")
    if named:
        return [named]
    found = [os.path.join(os.path.dirname(__file__), "lib", NAME)]
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        if directory and os.path.exists(os.path.join(directory, "shoal-train")):
            found += [os.path.join(directory, NAME), os.path.join(directory, "..", "lib", NAME)]
    return [path for path in found if os.path.exists(path)] + [NAME]


class Part(NamedTuple):
    """Which part of which checkpoint."""

    save: int
    """Random; the same on all ranks, another at each save."""
    part: int
    parts: int


RANGES_MAX = 512  # SHOAL_RANGES_MAX


class _Range(ctypes.Structure):
    """struct shoal_range"""

    _fields_ = [("from_byte", c_uint64), ("count", c_uint64)]


class _Part(ctypes.Structure):
    """struct shoal_part"""

    _fields_ = [("save", c_uint64), ("part", c_uint32), ("parts", c_uint32)]


def _declare(library: ctypes.CDLL) -> None:
    context = c_void_p
    table = {
        "shoal_open_link": (c_int, [POINTER(c_void_p), c_char_p]),
        "shoal_open_elastic": (c_int, [POINTER(c_void_p), c_char_p]),
        "shoal_join": (c_int, [context]),
        "shoal_close": (None, [POINTER(c_void_p)]),
        "shoal_error": (c_char_p, [context]),
        "shoal_rank": (c_uint32, [context]),
        "shoal_size": (c_uint32, [context]),
        "shoal_experiment": (c_char_p, [context]),
        "shoal_trial": (c_uint32, [context]),
        "shoal_attempt": (c_uint32, [context]),
        "shoal_seed": (c_uint64, [context]),
        "shoal_start_step": (c_uint64, [context]),
        "shoal_report_packed": (c_int, [context, c_char_p, c_size_t, POINTER(c_size_t)]),
        "shoal_progress": (c_int, [context, c_uint64]),
        "shoal_span": (None, [context, c_int, c_uint64, c_uint64]),
        "shoal_step_mark": (None, [context, c_uint64]),
        "shoal_pump": (c_int, [context]),
        "shoal_flush": (c_int, [context, c_int]),
        "shoal_should_stop": (c_bool, [context]),
        "shoal_stop_reason": (c_char_p, [context]),
        "shoal_durable_step": (c_uint64, [context]),
        "shoal_checkpoint_begin": (c_int, [context, c_size_t, POINTER(c_void_p)]),
        "shoal_checkpoint_commit_cut": (c_int, [context, c_uint64, POINTER(c_uint64), c_size_t]),
        "shoal_checkpoint_commit_part": (c_int, [context, c_uint64, POINTER(_Part), POINTER(c_uint64), c_size_t]),
        "shoal_checkpoint_parts": (c_int, [context, POINTER(c_uint32)]),
        "shoal_checkpoint_open_part": (
            c_int,
            [context, c_uint32, POINTER(c_int), POINTER(c_size_t), POINTER(c_uint64)],
        ),
        "shoal_checkpoint_open_ranges": (
            c_int,
            [context, c_uint32, POINTER(_Range), c_size_t, POINTER(c_int), POINTER(c_size_t), POINTER(c_uint64)],
        ),
        "shoal_checkpoint_open": (c_int, [context, POINTER(c_int), POINTER(c_size_t), POINTER(c_uint64)]),
        "shoal_all_gather": (c_int, [context, c_void_p, c_size_t, c_int]),
        "shoal_broadcast": (c_int, [context, c_void_p, c_size_t, c_uint32]),
        "shoal_barrier": (c_int, [context]),
        "shoal_set_timeout": (None, [context, c_int]),
        "shoal_generation": (c_uint64, [context]),
        "shoal_on_load": (None, [context, _LOAD, c_void_p]),
        "shoal_on_state": (c_int, [context, _PACK, _UNPACK, c_void_p]),
        "shoal_leave": (None, [context]),
        "shoal_forget_state": (None, [context]),
        "shoal_step_begin": (c_int, [context, POINTER(c_uint64)]),
        "shoal_step_commit": (c_int, [context]),
        "shoal_share": (c_int, [context, c_uint32, POINTER(c_uint32), POINTER(c_uint32)]),
        "shoal_is_balanced": (c_bool, [context]),
        "shoal_alloc": (c_int, [context, c_size_t, POINTER(c_void_p)]),
        "shoal_use_gpu": (c_int, [context, ctypes.c_uint]),
        "shoal_all_reduce_begin": (c_int, [context, c_void_p, c_size_t, c_int]),
        "shoal_all_reduce_wait": (c_int, [context]),
    }
    for name, (result, arguments) in table.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def load() -> ctypes.CDLL:
    """Opens libshoal. ShoalError: there is none, or an older one."""
    reasons = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            _declare(library)
            return library
        except (OSError, AttributeError) as error:
            reasons.append(f"{path}: {error}")
    raise ShoalError(
        "This program runs in Shoal, but libshoal cannot be opened: "
        + "; ".join(reasons)
        + ". Install Shoal's package on this machine, or set SHOAL_LIBRARY to the path of libshoal.so.0."
    )


class Link:
    """The connection of a worker to its daemon, and the group of the ranks."""

    _OPEN = "shoal_open_link"

    def __init__(self) -> None:
        self._library = load()
        self._lock = threading.RLock()
        self._joined = False
        self._is_forked = False
        context = c_void_p()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        code = getattr(self._library, self._OPEN)(byref(context), error)
        if code == REFUSED:
            raise ShoalError(f"The daemon of this machine refuses this process: {error.value.decode(errors='replace')}")
        if code != 0:
            raise DaemonLost(f"Cannot reach the daemon of this machine: {error.value.decode(errors='replace')}.")
        self._context: c_void_p | None = context
        library = self._library
        self.rank: int = library.shoal_rank(context)
        self.size: int = library.shoal_size(context)
        self.experiment: str = library.shoal_experiment(context).decode()
        self.trial: int = library.shoal_trial(context)
        self.attempt: int = library.shoal_attempt(context)
        self.seed: int = library.shoal_seed(context)
        self.start_step: int = library.shoal_start_step(context)
        seconds = int(os.environ.get("SHOAL_COLLECTIVE_TIMEOUT") or _COLLECTIVE_TIMEOUT_DEFAULT)
        library.shoal_set_timeout(context, 1000 * (_WAIT_SECONDS if seconds == _COLLECTIVE_TIMEOUT_DEFAULT else seconds))

    def _open(self) -> c_void_p:
        if self._context is None:
            raise ShoalError("The run is closed; make all calls before run.close(), or inside of the `with` block.")
        return self._context

    def _sentence(self) -> str:
        text: str = self._library.shoal_error(self._open()).decode(errors="replace")
        return text or "there is no reason on record"

    def _check(self, code: int, doing: str, kind: type[ShoalError] = ShoalError) -> None:
        if code == 0:
            return
        if code == CLOSED and kind is not GroupBroken:
            raise DaemonLost(f"{doing} failed: {self._sentence()}. The attempt is over; leave, and Shoal begins the next one.")
        error = kind(f"{doing} failed: {self._sentence()}.")
        if isinstance(error, GroupBroken):
            error.is_of_calls = code in (MALFORMED, TIMEOUT)
        raise error

    def report(self, packed: bytes) -> int:
        """Hands packed reports over and returns how many of their bytes libshoal has taken: none while another call waits."""
        taken = c_size_t()
        if self._lock.acquire(blocking=False):
            try:
                code = self._library.shoal_report_packed(self._open(), packed, len(packed), byref(taken))
                self._check(0 if code == FULL else code, "Reporting")
            finally:
                self._lock.release()
        return taken.value

    def progress(self, step: int) -> None:
        with self._lock:
            self._check(self._library.shoal_progress(self._open(), step), "Reporting progress")

    def span(self, kind: int, begin_ns: int) -> None:
        """Tells of what this thread has done since begin_ns, by time.monotonic_ns."""
        end_ns = time.monotonic_ns()
        with self._lock:
            if self._context is not None and not self._is_forked:
                self._library.shoal_span(self._context, kind, begin_ns, end_ns)

    def step_mark(self, step: int) -> None:
        """A step has ended. Nothing is told while another call waits."""
        if self._lock.acquire(blocking=False):
            try:
                if self._context is not None and not self._is_forked:
                    self._library.shoal_step_mark(self._context, step)
            finally:
                self._lock.release()

    def pump(self) -> None:
        """Lets libshoal send and receive, if no other call is under way."""
        if self._lock.acquire(blocking=False):
            try:
                if self._context is not None and not self._is_forked:
                    self._library.shoal_pump(self._context)
            finally:
                self._lock.release()

    def flush(self, timeout_ms: int) -> bool:
        """Waits until the daemon has answered everything; False after timeout_ms."""
        with self._lock:
            code = self._library.shoal_flush(self._open(), timeout_ms)
            if code == TIMEOUT:
                return False
            self._check(code, "Storing what was reported or saved")
        return True

    def should_stop(self) -> bool:
        with self._lock:
            return bool(self._library.shoal_should_stop(self._open()))

    def stop_reason(self) -> str:
        with self._lock:
            reason: str = self._library.shoal_stop_reason(self._open()).decode(errors="replace")
        return reason

    def durable_step(self) -> int:
        self.pump()
        with self._lock:
            return int(self._library.shoal_durable_step(self._open()))

    def save_begin(self, count: int) -> memoryview:
        """Memory for a checkpoint of `count` bytes, shared with the daemon; valid until save_commit. The caller holds
        `locked` from before save_begin until after save_commit."""
        room = c_void_p()
        self._check(self._library.shoal_checkpoint_begin(self._open(), count, byref(room)), "Saving", CheckpointError)
        assert room.value is not None
        return memoryview((ctypes.c_ubyte * count).from_address(room.value)).cast("B")

    def save_commit(self, step: int, cuts: list[int], part: Part | None = None) -> None:
        """Hands the checkpoint over, or a part of one. cuts: ascending offsets where chunks should begin, at most
        SHOAL_CUTS_MAX."""
        array = (c_uint64 * len(cuts))(*cuts)
        if part is None:
            code = self._library.shoal_checkpoint_commit_cut(self._open(), step, array, len(cuts))
        else:
            code = self._library.shoal_checkpoint_commit_part(self._open(), step, byref(_Part(*part)), array, len(cuts))
        self._check(code, "Saving", CheckpointError)

    def locked(self) -> AbstractContextManager[object]:
        """The lock, for `save_begin` to `save_commit`."""
        return self._lock

    def parts(self) -> int:
        """How many parts the checkpoint to start from has; 0: it is a whole one, or there is none."""
        parts = c_uint32()
        with self._lock:
            code = self._library.shoal_checkpoint_parts(self._open(), byref(parts))
            self._check(code, "Loading the checkpoint", CheckpointError)
        return parts.value

    def load(self, part: int | None = None, ranges: list[tuple[int, int]] | None = None) -> tuple[int, int, int] | None:
        """The descriptor of the checkpoint to start from, or of a part of it (the caller closes it), its bytes, its step; None:
        there is none. ranges: only these (first byte, bytes) of the part, at most RANGES_MAX, need be right."""
        fd, count, step = c_int(), c_size_t(), c_uint64()
        with self._lock:
            out = byref(fd), byref(count), byref(step)
            if part is None:
                code = self._library.shoal_checkpoint_open(self._open(), *out)
            elif ranges is not None:
                array = (_Range * len(ranges))(*(_Range(*each) for each in ranges))
                code = self._library.shoal_checkpoint_open_ranges(self._open(), part, array, len(ranges), *out)
            else:
                code = self._library.shoal_checkpoint_open_part(self._open(), part, *out)
            if code == NOT_FOUND:
                return None
            self._check(code, "Loading the checkpoint", CheckpointError)
        return fd.value, count.value, step.value

    def _together(self, doing: str, call: str, *arguments: object) -> None:
        """A collective. The first one forms the group: it waits until each rank has made one."""
        with self._lock:
            if not self._joined:
                self._check(self._library.shoal_join(self._open()), doing, GroupBroken)
                self._joined = True
            self._check(getattr(self._library, call)(self._open(), *arguments), doing, GroupBroken)

    def all_gather(self, mine: bytes, doing: str) -> list[bytes]:
        """The bytes of each rank, in rank order; all ranks give the same number of bytes, at least one."""
        each = len(mine)
        buffer = (ctypes.c_ubyte * (each * self.size))()
        ctypes.memmove(ctypes.addressof(buffer) + each * self.rank, mine, each)
        self._together(doing, "shoal_all_gather", buffer, each * self.size, _BYTES)
        whole = bytes(buffer)
        return [whole[each * r : each * (r + 1)] for r in range(self.size)]

    def broadcast(self, data: bytearray, root: int, doing: str) -> None:
        """Replaces `data` by the root's; the same length on all ranks, at least one byte."""
        buffer = (ctypes.c_ubyte * len(data)).from_buffer(data)
        self._together(doing, "shoal_broadcast", buffer, len(data), root)

    def barrier(self, doing: str) -> None:
        self._together(doing, "shoal_barrier")

    def forget_threads(self) -> None:
        """In a child made by fork, which may read what the parent knew at that moment: no thread of the parent is here."""
        self._lock = threading.RLock()
        self._is_forked = True  # the connection is the parent's, and so is what the daemon sends

    def close(self) -> None:
        with self._lock:
            if self._context is not None:
                context, self._context = self._context, None
                self._library.shoal_close(byref(context))


class ElasticLink(Link):
    """As `Link`, of a rank whose group may change: `rank` and `size` are those of the group that `step_begin` has entered."""

    _OPEN = "shoal_open_elastic"

    def __init__(self) -> None:
        super().__init__()
        self._raised: BaseException | None = None  # in a function that libshoal called
        self._packed: bytearray | None = None  # while it is handed over
        self._functions: list[object] = []  # which libshoal calls
        self.generation = 0

    def _check_step(self, code: int, doing: str) -> None:
        if code == _AGAIN:
            raise StepLost("The group has lost a rank; this step is not applied, and comes again.")
        self._check(code, doing)

    def _guard(self, work: Callable[[], None]) -> int:
        """Runs a function that libshoal has called, through which no exception may go."""
        try:
            work()
            return 0
        except BaseException as error:
            self._raised = error
            return MEMORY if isinstance(error, MemoryError) else CORRUPT

    def use_state(self, pack: Callable[[], bytearray], unpack: Callable[[memoryview], None], load: Callable[[], int]) -> None:
        """Before the first step. pack: the state, for a rank that lacks it. unpack: takes it; the memory is valid during the
        call.
        load: loads the checkpoint, if there is one, and gives its step."""

        def on_pack(_context: int, data: Any, count: Any) -> int:
            def work() -> None:
                self._packed = pack()
                data[0] = ctypes.addressof((ctypes.c_ubyte * len(self._packed)).from_buffer(self._packed))
                count[0] = len(self._packed)

            return self._guard(work)

        def on_unpack(_context: int, data: int, count: int) -> int:
            return self._guard(lambda: unpack(memoryview((ctypes.c_ubyte * count).from_address(data)).cast("B")))

        def on_load(_context: int, step: Any) -> int:
            def work() -> None:
                step[0] = load()

            return self._guard(work)

        functions = _LOAD(on_load), _PACK(on_pack), _UNPACK(on_unpack)
        self._functions += functions
        with self._lock:
            self._library.shoal_on_load(self._open(), functions[0], None)
            self._check(self._library.shoal_on_state(self._open(), functions[1], functions[2], None), "Carrying a state")

    def step_begin(self) -> int | None:
        """Enters a group if this rank is in none, and waits for it. Steps applied so far; None: Shoal asks to stop."""
        step = c_uint64()
        with self._lock:
            code = self._library.shoal_step_begin(self._open(), byref(step))
            raised, self._raised, self._packed = self._raised, None, None
            if raised is not None:
                raise raised
            if code == _STOP:
                return None
            self._check(code, "Entering a group")
            context = self._open()
            self.rank, self.size = self._library.shoal_rank(context), self._library.shoal_size(context)
            self.generation = self._library.shoal_generation(context)
        return step.value

    def step_commit(self) -> bool:
        """Ends an applied step. Whether Shoal asks to stop: all ranks get the same answer."""
        with self._lock:
            code: int = self._library.shoal_step_commit(self._open())
            if code not in (_AGAIN, _STOP):
                self._check(code, "Ending a step")
        return code == _STOP

    def leave(self) -> None:
        """Leaves the group in a step that this rank cannot finish; the state stays."""
        with self._lock:
            self._library.shoal_leave(self._open())

    def forget_state(self) -> None:
        with self._lock:
            self._library.shoal_forget_state(self._open())

    def share(self, total: int) -> tuple[int, int]:
        """This rank's part of `total` items: the first, and how many. StepLost."""
        first, count = c_uint32(), c_uint32()
        with self._lock:
            self._check_step(self._library.shoal_share(self._open(), total, byref(first), byref(count)), "Sharing a batch")
        return first.value, count.value

    def is_balanced(self) -> bool:
        with self._lock:
            return bool(self._library.shoal_is_balanced(self._open()))

    def use_gpu(self) -> None:
        with self._lock:
            self._check(self._library.shoal_use_gpu(self._open(), 0), "Using the GPU")

    def memory(self, count: int) -> ctypes.Array[ctypes.c_ubyte]:
        """Zeroed memory that is summed without a copy; valid until `close`."""
        room = c_void_p()
        with self._lock:
            self._check(self._library.shoal_alloc(self._open(), count, byref(room)), "Allocating memory for gradients")
        assert room.value is not None
        return (ctypes.c_ubyte * count).from_address(room.value)

    def sum_begin(self, address: int, count: int, kind: int) -> None:
        """Begins a sum over the ranks, in place; the memory is libshoal's until `sum_wait`. StepLost."""
        with self._lock:
            self._check_step(self._library.shoal_all_reduce_begin(self._open(), address, count, kind), "Summing gradients")

    def sum_wait(self) -> None:
        """Waits for all sums. StepLost."""
        with self._lock:
            self._check_step(self._library.shoal_all_reduce_wait(self._open()), "Summing gradients")

    def broadcast_at(self, address: int, count: int, doing: str) -> None:
        """Replaces bytes by those of rank 0. StepLost."""
        with self._lock:
            self._check_step(self._library.shoal_broadcast(self._open(), address, count, 0), doing)
