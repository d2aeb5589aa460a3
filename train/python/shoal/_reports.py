"""Reports on their way to the daemon. A report is packed where it is made, in some microseconds, and waits in memory; a thread
of the package hands what waits to libshoal. Nothing is dropped while the process lives."""

from __future__ import annotations

import re
import struct
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Callable

from . import _msgpack
from ._errors import ShoalError

GROUP_BYTES_MAX = 31
NAME_BYTES_MAX = 127
NAMES_BYTES_MAX = 512 << 10  # of one report: its names, and 12 bytes for each
LAYOUT_NAMES_MAX = 1 << 16  # names in the layouts that are kept
BATCH_BYTES = 256 << 10
BATCH_SECONDS = 0.02  # what is reported within this time travels together
IDLE_SECONDS = 0.5  # how often the connection is looked after without reports


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class Packer:
    """Packs reports as [group, step, {name: number}] (shoal_report_packed). Reports with the same names in the same order
    share a layout, into which only step and numbers are put."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[str, ...], tuple[Callable[..., bytes], list[Any]]] = {}
        self._names = 0  # in the layouts

    def pack(self, group: str, step: int, metrics: Mapping[str, Any]) -> bytes:
        """TypeError, ValueError: a sentence that names what is wrong."""
        try:
            key = (group, *metrics)
            layout = self._layouts.get(key)
            if layout is None:
                layout = self._layout(key)
            pack, values = layout
            values = values.copy()
            values[1] = step
            values[3::2] = [value if type(value) is float else number(value) for value in metrics.values()]
            return pack(*values)
        except (struct.error, TypeError, ValueError, RuntimeError, AttributeError, OverflowError):
            flat = flatten(metrics)  # nested, not a number, or tensors that struct does not take
            if not hasattr(step, "__index__") or not 0 <= step < 1 << 64:
                raise ValueError(f"step is {step!r}; it has to be a whole number from 0.") from None
            pack, values = self._layout((group, *flat))
            values = values.copy()
            values[1] = step
            values[3::2] = flat.values()
            return pack(*values)

    def _layout(self, key: tuple[str, ...]) -> tuple[Callable[..., bytes], list[Any]]:
        group, names = key[0], key[1:]
        if not _is_name(group, GROUP_BYTES_MAX):
            raise ValueError(
                f"group is {group!r}; it has to be a text of 1 to {GROUP_BYTES_MAX} bytes without control characters."
            )
        total = 0
        for name in names:
            if not _is_name(name, NAME_BYTES_MAX):
                raise ValueError(
                    f"{name!r} is no name of a metric; it has to be a text of 1 to {NAME_BYTES_MAX} bytes without control"
                    " characters."
                )
            total += len(name.encode()) + 12
        if total > NAMES_BYTES_MAX:
            raise ValueError(
                f"{len(names)} metrics are too many for one report: their names, with 12 bytes more for each, have {total}"
                f" bytes, and the limit is {NAMES_BYTES_MAX}; report them in several calls with the same step."
            )
        head = b"\x93" + _msgpack.pack(group) + b"\xcf"
        count = len(names)
        start = bytes([0x80 | count]) if count < 16 else b"\xde" + struct.pack(">H", count)
        form, values = f">{len(head)}sQ", [head, 0]
        for i, name in enumerate(names):
            part = (start if i == 0 else b"") + _msgpack.pack(name) + b"\xcb"
            form += f"{len(part)}sd"
            values += [part, 0.0]
        if count == 0:
            form += "s"
            values.append(start)
        layout = struct.Struct(form).pack, values
        if len(self._layouts) < 256 and self._names + count <= LAYOUT_NAMES_MAX:
            self._layouts[key] = layout
            self._names += count
        return layout


def _is_name(text: Any, bytes_max: int) -> bool:
    """Whether it may name a metric or a group. Control characters would act on the terminals that show it."""
    return isinstance(text, str) and 0 < _utf8_bytes(text) <= bytes_max and not _CONTROL.search(text)


def _utf8_bytes(text: str) -> int:
    """0 if it has no form in UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def number(value: Any) -> float:
    """A number, or the one element of a tensor or an array, as a float. TypeError, ValueError, RuntimeError."""
    if isinstance(value, (str, bytes)):
        raise TypeError
    return float(value.item() if hasattr(value, "item") else value)


def flatten(metrics: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """{"a": {"b": 1}} becomes {"a/b": 1.0}. TypeError names a metric that is no number, ValueError one that is there twice
    or too large."""
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics is {_a(type(metrics).__name__)}; it has to be a dict of names to numbers.")
    flat: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            inner = flatten(value, f"{prefix}{name}/")
            _refuse_double(flat.keys() & inner.keys())
            flat.update(inner)
            continue
        _refuse_double({f"{prefix}{name}"} & flat.keys())
        try:
            flat[f"{prefix}{name}"] = number(value)
        except OverflowError:
            raise ValueError(f"metric {prefix + str(name)!r} is too large: beyond 1.8e308, what a float can hold.") from None
        except (TypeError, ValueError, RuntimeError):
            shape = getattr(value, "shape", None)
            what = _a(type(value).__name__) + (f" of shape {list(shape)}" if shape is not None and len(shape) else "")
            raise TypeError(f"metric {prefix + str(name)!r} is {what}; it has to be one number.") from None
    return flat


def _a(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "aeiouAEIOU" else f"a {noun}"


def _refuse_double(names: set[str]) -> None:
    for name in names:
        raise ValueError(f"metric {name!r} is there twice; {{'a': {{'b': 1}}}} is reported as 'a/b', so give one another name.")


class Sender:
    """The thread that hands reports to libshoal, in the order in which they were made."""

    def __init__(self, take: Callable[[bytes], int], tend: Callable[[], None]) -> None:
        """take: gets packed reports, and returns how many bytes it has taken. tend: called twice a second or more often."""
        self._take, self._tend = take, tend
        self._queue: deque[bytes] = deque()
        self._rest = b""  # of a batch that libshoal has taken in part
        self._wake = threading.Event()
        self._sending = threading.Lock()
        self._ended = False
        self.error: ShoalError | None = None
        self._thread = threading.Thread(target=self._run, name="shoal-reports", daemon=True)
        self._thread.start()

    def put(self, packed: bytes) -> None:
        self._queue.append(packed)
        if not self._wake.is_set():
            self._wake.set()

    def pending(self) -> bool:
        return bool(self._queue) or bool(self._rest)

    def send(self) -> None:
        """Hands over as much as libshoal takes now. ShoalError: the daemon is lost; what was not taken stays."""
        with self._sending:
            while True:
                if not self._rest:
                    batch, size = [], 0
                    while self._queue and size < BATCH_BYTES:
                        batch.append(self._queue.popleft())
                        size += len(batch[-1])
                    self._rest = b"".join(batch)
                if not self._rest:
                    return
                taken = self._take(self._rest)
                self._rest = self._rest[taken:]
                if self._rest:
                    return  # libshoal's own queue is full (the daemon is away, or slower than this program), or it is busy

    def _run(self) -> None:
        stop = threading.Event()
        while not self._ended:
            self._wake.wait(IDLE_SECONDS)
            self._wake.clear()
            stop.wait(BATCH_SECONDS)
            try:
                self._tend()
                self.send()
            except ShoalError as error:
                self.error = error
                return
            if self.pending():
                self._wake.set()

    def end(self) -> None:
        self._ended = True
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(5)
