"""Snapshots, as the daemon and `run.save` make them (store/snapshot.h): a listing, then the bytes of the files."""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
import tempfile

from . import _msgpack
from ._errors import CheckpointError

_DIRECTORY, _FILE, _LINK = range(3)
_PIECE_BYTES = 1 << 22
_LISTING_BYTES_MAX = 16 << 20


def _is_safe(path: str) -> bool:
    return all(part not in ("", ".", "..") for part in path.split("/")) and "\0" not in path


def entries(data: memoryview) -> list[tuple[str, int, int, int, int, str]] | None:
    """Path, kind, mode, bytes, offset and link of each entry; None: the bytes are no snapshot."""
    if len(data) < 3 or not 0x92 <= data[0] <= 0x9F or data[1] != 1:
        return None  # no array of version 1; other bytes are not read as MessagePack, since they may be gigabytes
    try:
        listing, offset = _msgpack.unpack(data[:_LISTING_BYTES_MAX])
        found = []
        for path, kind, mode, count, _mtime, link, *_more in listing[1]:
            name, target = os.fsdecode(path), os.fsdecode(link)
            inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            if not _is_safe(name) or (kind == _LINK and (target.startswith("/") or inside.split("/")[0] == "..")):
                return None
            found.append((name, int(kind), int(mode) & 0o777, int(count), offset, target))
            offset += int(count)
        return found if offset == len(data) else None
    except (_msgpack.Malformed, TypeError, ValueError, LookupError):
        return None


def unpack(data: memoryview, directory: str, below: str = "") -> list[str]:
    """Writes the entries below `below`, or the file `below` itself, into `directory`, which is made; files that are there are
    replaced. Their paths, sorted. CheckpointError: the bytes are no snapshot, or a file cannot be written."""
    listed = entries(data)
    if listed is None:
        raise CheckpointError("The files cannot be unpacked: their listing is damaged, or of a newer version.")
    prefix = f"{below}/" if below else ""
    written = []
    try:
        os.makedirs(directory, exist_ok=True)
        for path, kind, mode, count, offset, target in sorted(listed, key=lambda entry: entry[1] == _LINK):  # links last
            if path == below and kind != _DIRECTORY:
                rest = posixpath.basename(path)
            elif path.startswith(prefix):
                rest = path[len(prefix) :]
            else:
                continue
            place = os.path.join(directory, rest)
            _clear(directory, rest, kind)
            if kind == _DIRECTORY:
                os.makedirs(place, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(place), exist_ok=True)
            if kind == _LINK:
                os.symlink(target, place)
            else:
                write_file(place, data[offset : offset + count], mode | stat.S_IWUSR)
            written.append(place)
    except OSError as error:
        raise CheckpointError(f"{error.filename or directory} cannot be written: {error.strerror or error}.") from error
    return sorted(written)


def write_file(place: str, data: memoryview, mode: int = 0o644) -> None:
    """Writes a file beside its place and renames it, so that a part of a file never has its name. OSError."""
    fd, draft = tempfile.mkstemp(prefix=".shoal-", dir=os.path.dirname(place))  # new, so that it is no link of the snapshot
    try:
        with os.fdopen(fd, "wb") as file:
            for at in range(0, len(data), _PIECE_BYTES):
                file.write(data[at : at + _PIECE_BYTES])
            os.fchmod(fd, mode)
        os.replace(draft, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _clear(directory: str, path: str, kind: int) -> None:
    """Removes what stands where the entry goes, and links on the way there, so that nothing is written through a link."""
    place = directory
    parts = path.split("/")
    for part in parts[:-1]:
        place = os.path.join(place, part)
        if os.path.islink(place):
            os.unlink(place)
    place = os.path.join(directory, path)
    if os.path.islink(place) or (os.path.isfile(place) and kind != _DIRECTORY):
        os.unlink(place)
