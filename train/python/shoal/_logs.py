"""The lines that a trial's workers have written, from the pieces that the daemon sends."""

from __future__ import annotations

import re
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any, Callable

from ._daemon import ANSWER_SECONDS, Daemon, Stop
from ._errors import NotFound

Key = tuple[int, int]  # attempt, rank
WAITING_MAX = 10_000  # lines of several sources that are not read yet


class Lines:
    """Cuts pieces into lines. After `again` the pieces come from the beginning, and what was seen before is skipped."""

    def __init__(self) -> None:
        self._rests: dict[Key, bytes] = {}
        self._seen: dict[Key, int] = {}  # bytes
        self._skip: dict[Key, int] = {}
        self._prefixes: dict[Key, str] = {}

    def again(self) -> None:
        self._skip = dict(self._seen)

    def take(self, reply: dict[str, Any]) -> Iterator[str]:
        data = reply.get("bytes")
        if not isinstance(data, bytes):
            return
        key = (int(reply.get("attempt") or 0), int(reply.get("rank") or 0))
        skipped = min(self._skip.get(key, 0), len(data))
        self._skip[key] = self._skip.get(key, 0) - skipped
        data = data[skipped:]
        self._seen[key] = self._seen.get(key, 0) + len(data)
        self._prefixes[key] = "" if reply.get("workers_max") == 1 else f"[rank={key[1]}] "
        for other in [old for old in self._rests if old[0] < key[0]]:
            yield from self._end(other)
        *whole, rest = (self._rests.pop(key, b"") + data).split(b"\n")
        for line in whole:
            yield self._prefixes[key] + _text(line)
        if rest:
            self._rests[key] = rest

    def _end(self, key: Key) -> Iterator[str]:
        yield self._prefixes[key] + _text(self._rests.pop(key))

    def end(self) -> Iterator[str]:
        """The lines without an end."""
        for key in sorted(self._rests):
            yield from self._end(key)


def _text(line: bytes) -> str:
    """Of a progress bar, which is drawn anew behind carriage returns, the last state."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1].decode("utf-8", "replace")


_ERROR = re.compile(r"[A-Za-z_][\w.]*(: .*)?")
_NAMED_ERROR = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt)(: .*)?")


def error_of(tail: str) -> str | None:
    """Of the end of a log the last line of the last traceback, else the last line with the name of an error, else the last."""
    lines = [line for line in (_text(line) for line in tail.encode("utf-8", "replace").split(b"\n")) if line.strip()]
    behind_stack = [line for before, line in zip(lines, lines[1:]) if before[:1] == " " and _ERROR.fullmatch(line)]
    named = [line for line in lines if _NAMED_ERROR.fullmatch(line)]
    found = behind_stack or named or lines
    return found[-1] if found else None


def read(
    daemon: Daemon,
    experiment: str,
    trial: int,
    follow: bool,
    attempt: int | str | None,
    *,
    stop: Stop | None = None,
    **chosen: Any,
) -> Iterator[str]:
    """The lines of a trial, up to `stop`. chosen: further arguments of the request that are not None."""
    arguments: dict[str, Any] = {"experiment": experiment, "trial": trial, "follow": follow}
    arguments |= {name: value for name, value in chosen.items() if value is not None}
    if attempt == "all":
        arguments["all_attempts"] = True
    elif attempt is not None:
        arguments["attempt"] = int(attempt)
    lines = Lines()
    last: dict[str, Any] = {}
    replies = daemon.replies("logs", arguments, None if follow else ANSWER_SECONDS, again=lines.again, stop=stop)
    try:
        for last in replies:
            yield from lines.take(last)
    except NotFound:
        if attempt not in (None, "all"):
            raise
        daemon.ask("wait", experiment=experiment)  # NotFound once more if the experiment is gone; else the trial has no log
    finally:
        replies.close()
    yield from lines.end()
    for key, why in (("unreachable", "cannot be reached"), ("lost", "left the mesh")):
        if last.get(key):
            warnings.warn(f"What only {', '.join(map(str, last[key]))} may have is not shown, since it {why}.", stacklevel=2)


class Merged:
    """The lines of several sources, each read by a thread of its own, in the order in which they come. Nothing is dropped: a
    source waits while `WAITING_MAX` lines are not read, and then the daemon sends it no more. `stop` is for the streams of the
    sources, which are of no use when the lines are not read any more."""

    def __init__(self) -> None:
        self.stop = Stop()
        self._items: deque[str | Exception] = deque()
        self._left = 0  # sources that have not ended
        self._changed = threading.Condition()

    def add(self, source: Callable[[], Iterator[str]]) -> None:
        with self._changed:
            self._left += 1
        threading.Thread(target=self._read, args=(source,), daemon=True).start()

    def _read(self, source: Callable[[], Iterator[str]]) -> None:
        try:
            for line in source():
                if not self._put(line):
                    return
        except Exception as error:
            with self._changed:
                self._items.append(error)
        finally:
            with self._changed:
                self._left -= 1
                self._changed.notify_all()

    def _put(self, line: str) -> bool:
        """Waits for room. False: the lines are not read any more."""
        with self._changed:
            while len(self._items) >= WAITING_MAX and not self.stop.is_set:
                self._changed.wait()
            if self.stop.is_set:
                return False
            self._items.append(line)
            self._changed.notify_all()
        return True

    def __iter__(self) -> Iterator[str]:
        """Ends when all sources have ended; raises the first error of one."""
        try:
            while True:
                with self._changed:
                    while not self._items and self._left:
                        self._changed.wait()
                    if not self._items:
                        return
                    item = self._items.popleft()
                    self._changed.notify_all()
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.stop.set()
            with self._changed:
                self._changed.notify_all()
