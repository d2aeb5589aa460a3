"""The daemon's local socket, for programs that ask it: docs/wire.md, "Local socket".

Each request has a connection of its own, so threads need no lock, and a child made by ``fork`` may ask, too.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket
import struct
import threading
import time
from collections.abc import Generator
from typing import Any, Callable

from . import _msgpack
from ._errors import NoDaemon, NotFound, ShoalError

FRAME_BYTES_MAX = 1 << 20
ANSWER_SECONDS = 60.0  # a living daemon answers sooner, but for streams
START_SECONDS = 10.0  # a daemon that starts is there sooner
START_FRESH_SECONDS = 1.5  # longest time from the end of `shoal init` to the daemon's lock
RETURN_SECONDS = 10.0  # a daemon that is restarted is back sooner
RETURN_PAUSE_SECONDS = 0.1
FDS_MAX = 4
NOT_FOUND, TIMED_OUT = 4, 5  # exit codes of the command line, which replies repeat
_ABSENT = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR)

Document = dict[str, Any]


class Late(TimeoutError):
    """No reply came in time."""


class Lost(Exception):
    """The connection has ended before the answer was whole; the text is a sentence."""


def data_directory(given: str | os.PathLike[str] | None) -> str:
    """The daemon's data directory: as given, else $SHOAL_DIR, else the standard one of this machine. Absolute."""
    path = os.fspath(given) if given is not None else os.environ.get("SHOAL_DIR", "")
    if not path:
        machine = ""
        with contextlib.suppress(OSError), open("/etc/machine-id", encoding="ascii", errors="replace") as file:
            machine = file.readline().strip()
        path = os.path.join(os.path.expanduser("~"), ".local", "state", "shoal", machine or "machine")
    return os.path.abspath(path)


def join(parts: list[Any]) -> Any:
    """The parts of a document as one: lists are concatenated, maps united, of other values the first counts."""
    first = parts[0]
    same = [part for part in parts if type(part) is type(first)]
    if isinstance(first, list):
        return [item for part in same for item in part]
    if isinstance(first, dict):
        keys = dict.fromkeys(key for part in same for key in part)
        return {key: join([part[key] for part in same if key in part]) for key in keys}
    return first


class _Connection:
    """One request and its replies."""

    def __init__(self, daemon: Daemon, op: str, arguments: Document) -> None:
        self._directory = daemon.directory
        self._data = bytearray()
        self._fds: list[int] = []
        packed = _msgpack.pack({"v": 1, "id": 1, "op": op, **arguments})
        if len(packed) > FRAME_BYTES_MAX:
            raise ShoalError(f"The request {op} is larger than {FRAME_BYTES_MAX >> 10} KiB.")
        self._socket = daemon.connect()
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.sendall(struct.pack(">I", len(packed)) + packed)
        except OSError as error:  # it may have said why, and the reply is still to be read
            if not isinstance(error, (BrokenPipeError, ConnectionResetError)):
                self.close()
                raise Lost(f"The daemon on {self._directory} did not take the request: {error.strerror or error}.") from error

    def shut_down(self) -> None:
        """For another thread: what this one waits for ends as Lost."""
        with contextlib.suppress(OSError):  # the daemon has ended it
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
        while self._fds:
            os.close(self._fds.pop())

    def _receive(self, until: float | None) -> None:
        """Takes more bytes. Late after `until`, of the monotonic clock."""
        self._socket.settimeout(None if until is None else max(until - time.monotonic(), 0.001))
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(
                1 << 16, socket.CMSG_SPACE(FDS_MAX * 4), socket.MSG_CMSG_CLOEXEC
            )
        except socket.timeout as error:  # in Python 3.9 it is no TimeoutError
            raise Late(f"The daemon on {self._directory} has not answered in time; it may be overloaded, try again.") from error
        except OSError as error:
            raise Lost(f"The daemon on {self._directory} ended before it answered: {error.strerror or error}.") from error
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                self._fds += fds
        if not data:
            raise Lost(f"The daemon on {self._directory} ended before it answered.")
        self._data += data

    def _frame(self, until: float | None) -> Document:
        while len(self._data) < 4 or len(self._data) < 4 + struct.unpack_from(">I", self._data)[0]:
            if len(self._data) >= 4 and struct.unpack_from(">I", self._data)[0] > FRAME_BYTES_MAX:
                raise self._nonsense()
            self._receive(until)
        count = struct.unpack_from(">I", self._data)[0]
        packed = bytes(self._data[4 : 4 + count])
        del self._data[: 4 + count]
        try:
            frame, _ = _msgpack.unpack(packed)
        except _msgpack.Malformed as error:
            raise self._nonsense() from error
        if not isinstance(frame, dict):
            raise self._nonsense()
        return frame

    def _nonsense(self) -> ShoalError:
        return ShoalError(
            f"The daemon on {self._directory} answered with something that is no reply; are this package and shoald of the"
            " same version?"
        )

    def reply(self, until: float | None) -> Document:
        """The next whole reply, its parts joined. Lost, Late; an error of the daemon is raised."""
        parts: list[Document] = []
        while True:
            frame = self._frame(until)
            if frame.get("id") == 0 and "error" in frame:
                raise Lost(str(frame["error"]))  # turned away: the daemon serves too many now
            if frame.get("id") != 1:
                continue  # a notice
            if not frame.get("ok"):
                raise _refusal(frame)
            parts.append(frame)
            if not frame.get("more"):
                return parts[0] if len(parts) == 1 else {**join(parts), "end": frame.get("end")}

    def take_fd(self) -> int:
        """The descriptor that came with the reply; the caller closes it."""
        if not self._fds:
            raise self._nonsense()
        return self._fds.pop(0)


def _refusal(frame: Document) -> Exception:
    sentence = str(frame.get("error") or "The daemon refused without a reason.")
    code = frame.get("code")
    return NotFound(sentence) if code == NOT_FOUND else TimeoutError(sentence) if code == TIMED_OUT else ShoalError(sentence)


class Stop:
    """Ends streams that other threads read, and begins none of them any more."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a collected generator may set it within a call
        self._connections: set[_Connection] = set()
        self.is_set = False

    def set(self) -> None:
        with self._lock:
            self.is_set = True
            for connection in list(self._connections):
                connection.shut_down()

    def add(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.add(connection)
            if self.is_set:
                connection.shut_down()

    def remove(self, connection: _Connection) -> None:
        """Before it is closed: its descriptor may then be another's."""
        with self._lock:
            self._connections.discard(connection)


class Daemon:
    """The daemon on a data directory. NoDaemon: none answers."""

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        self.directory = data_directory(directory)
        self._path = os.path.join(self.directory, "shoald.sock")
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except Lost as lost:
                if not self._is_starting() or time.monotonic() >= until:
                    raise NoDaemon(str(lost)) from lost.__cause__
            time.sleep(RETURN_PAUSE_SECONDS)

    def _is_starting(self) -> bool:
        """Whether a daemon holds the directory's lock, or has taken it just now: it has no socket yet, but will have one."""
        try:
            with open(os.path.join(self.directory, "lock"), encoding="ascii", errors="replace") as file:
                holder, taken_s = file.read(24).strip(), os.fstat(file.fileno()).st_mtime
        except OSError:
            return False
        return 0 <= time.time() - taken_s < START_FRESH_SECONDS or (holder.isdecimal() and os.path.exists(f"/proc/{holder}"))

    def connect(self) -> socket.socket:
        end: socket.socket | None = None
        try:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            end.connect(self._path)
            return end
        except OSError as error:
            if end is not None:
                end.close()
            if error.errno is None:  # of the socket module itself: the path is too long
                raise NoDaemon(f"The path {self._path} is longer than a socket's may be; use a shorter directory.") from error
            if error.errno in _ABSENT and not os.path.exists(os.path.join(self.directory, "key")):
                raise Lost(
                    f"{self.directory} has no node yet: shoal init makes a mesh with a first node here, shoal join TOKEN makes a node of"
                    " a mesh that there is already; or name the directory of a daemon by Client(directory) or $SHOAL_DIR."
                ) from error
            if error.errno in _ABSENT:
                raise Lost(
                    f"No daemon runs on {self.directory}; start it with: shoald --dir {self.directory}, or name the directory"
                    " of a daemon by Client(directory) or $SHOAL_DIR."
                ) from error
            raise Lost(f"The daemon's socket {self._path} cannot be used: {error.strerror or error}.") from error

    def replies(
        self,
        op: str,
        arguments: Document,
        seconds: float | None = None,
        until: float | None = None,
        again: Callable[[], None] | None = None,
        *,
        stop: Stop | None = None,
    ) -> Generator[Document, None, None]:
        """The replies of a stream up to the last. If the daemon is restarted meanwhile the stream begins anew, after a call
        of `again`. Late: after a pause of `seconds`, or at `until` of the monotonic clock; None: no limit. After `stop` there
        are no more."""
        lost_since: float | None = None
        stop = Stop() if stop is None else stop
        while not stop.is_set:
            connection: _Connection | None = None
            try:
                connection = _Connection(self, op, arguments)
                stop.add(connection)
                while True:
                    pause_end = None if seconds is None else time.monotonic() + seconds
                    document = connection.reply(pause_end if until is None else until)
                    lost_since = None
                    yield document
                    if document.get("end"):
                        return
            except Lost as lost:
                if stop.is_set:
                    return
                lost_since = self._wait_for_return(lost, lost_since)
                if again is not None:
                    again()
            finally:
                if connection is not None:
                    stop.remove(connection)
                    connection.close()

    def _wait_for_return(self, lost: Lost, since: float | None) -> float:
        now = time.monotonic()
        since = now if since is None else since
        if now - since >= RETURN_SECONDS:
            raise NoDaemon(f"{lost} It was not back within {RETURN_SECONDS:g} s.") from lost
        time.sleep(RETURN_PAUSE_SECONDS)
        return since

    def ask(self, op: str, **arguments: Any) -> Document:
        """The first reply to a request; the request is repeated if the daemon is restarted meanwhile. Late: after 60 s."""
        with contextlib.closing(self.replies(op, arguments, ANSWER_SECONDS)) as replies:
            return next(replies)

    def ask_file(self, op: str, **arguments: Any) -> tuple[Document, int]:
        """As `ask`, without a time limit, for a reply that carries a descriptor; the caller closes it."""
        lost_since: float | None = None
        while True:
            connection: _Connection | None = None
            try:
                connection = _Connection(self, op, arguments)
                return connection.reply(None), connection.take_fd()
            except Lost as lost:
                lost_since = self._wait_for_return(lost, lost_since)
            finally:
                if connection is not None:
                    connection.close()
