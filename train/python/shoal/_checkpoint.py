"""What `run.save` writes and `run.load` reads: a state as a few files in one blob.

The blob is a snapshot as the daemon makes them of directories (store/snapshot.h): a listing of the files, then their bytes. So
``shoal checkpoint get`` writes a directory. Its files are

- ``state.msgpack``: the state itself, where each tensor is a reference (extension 32, ``[file, name, kind]``); `kind` is
  torch, numpy or scalar, and "torch pairs" where a complex type is kept as pairs of reals;
- ``NAME.safetensors``: the tensors below ``state["NAME"]``, under their names there, so that for example the weights of
  ``{"model": model.state_dict()}`` are read by any program that reads safetensors.

Tensors that are the same memory are written once and are the same tensor again after loading.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from . import _msgpack, _tensors
from ._errors import CheckpointError, NotSerialisable

VERSION = 1
TREE = "state.msgpack"
LOOSE = "tensors.safetensors"  # of tensors that lie in the state itself, not in a named part of it
_TENSOR, _PICKLE, _NAMED = 32, 33, 34
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
Keys = tuple[Any, ...]  # the way to a value in a state
CUTS_MAX = 65536  # SHOAL_CUTS_MAX
_LISTING_BYTES_MAX = 16 << 20
_CHUNK_BYTES_MIN = 256 << 10  # a tensor from this size on begins with a chunk of its own


class Layout:
    """A state, laid out: `write` fills a buffer of `bytes` bytes. `cuts` are offsets where chunks should begin, so that a
    tensor that did not change is the same chunks in the next checkpoint. `keyed` are the keys of all values, and what compares
    tensors: type and shape."""

    def __init__(self, keyed: list[tuple[Keys, str]]) -> None:
        self.keyed = keyed
        self.bytes = 0
        self.cuts: list[int] = []
        self.parts: list[tuple[int, Callable[[memoryview], None], int, Keys]] = []  # offset, write, bytes, keys
        self.files: list[tuple[str, int, int]] = []  # name, offset, bytes

    def write(self, room: memoryview) -> None:
        """CheckpointError names the path of a tensor that cannot be copied; then the room holds no checkpoint."""
        for offset, write, count, keys in self.parts:
            try:
                write(room[offset : offset + count])
            except Exception as error:  # of any kind: a library of tensors runs
                reason = str(error) or type(error).__name__
                raise CheckpointError(
                    f"{_path(keys)} cannot be copied: {reason}; nothing is saved, and training may go on."
                ) from error

    def names(self) -> list[str]:
        """Equal for two layouts that have the same keys, and tensors of the same types and shapes."""
        return [_path(keys) + what for keys, what in self.keyed]


def _path(keys: Keys) -> str:
    return "state" + "".join(f"[{key!r}]" for key in keys)


class _Flattener:
    """Takes the tensors out of a state, and leaves references to them."""

    def __init__(self, allow_pickle: bool) -> None:
        self.allow_pickle = allow_pickle
        self.tensors: dict[str, list[_tensors.Tensor]] = {}
        self.taken: set[tuple[str, str]] = set()
        self.seen: dict[tuple[Any, ...], bytes] = {}
        self.keyed: list[tuple[Keys, str]] = []
        self.kept: list[Any] = []  # what `seen` goes by must not be freed meanwhile

    def place(self, keys: tuple[Any, ...]) -> tuple[str, str]:
        """The file and the name of the tensor at `keys`; names never meet."""
        file, rest = LOOSE, keys
        if len(keys) > 1 and isinstance(keys[0], str) and _FILE_NAME.fullmatch(keys[0]):
            file, rest = f"{keys[0]}.safetensors", keys[1:]
        name = ".".join(str(key) for key in rest) or "value"
        name = base = name.encode("utf-8", "replace").decode()  # half of a surrogate pair has no place in JSON
        number = 1
        while (file, name) in self.taken or name == "__metadata__":
            number += 1
            name = f"{base}#{number}"
        self.taken.add((file, name))
        return file, name

    def tensor(self, value: Any, keys: tuple[Any, ...]) -> Any:
        identity: tuple[Any, ...] | None = None
        if _tensors.is_torch(value):
            try:
                identity = _tensors.torch_identity(value) if value.numel() else None
            except (RuntimeError, NotImplementedError):
                identity = None  # it has no memory; from_torch says so
        if identity is not None and identity in self.seen:
            self.keyed.append((keys, ""))
            return _Ext(_TENSOR, self.seen[identity])
        file, name = self.place(keys)
        try:
            if _tensors.is_torch(value):
                kind, tensor = "torch", _tensors.from_torch(value, file, name)
            else:
                kind = "numpy" if isinstance(value, sys.modules["numpy"].ndarray) else "scalar"
                tensor = _tensors.from_numpy(value, file, name)
        except ValueError as error:
            raise NotSerialisable(f"{_path(keys)} cannot be saved: {error}.") from error
        tensor.keys = keys
        self.keyed.append((keys, f" {tensor.dtype}{list(tensor.shape)}"))
        self.tensors.setdefault(file, []).append(tensor)
        reference = _msgpack.pack([file, name, kind + " pairs" * tensor.is_pairs])
        if identity is not None:
            self.seen[identity] = reference
            self.kept.append(value)
        return _Ext(_TENSOR, reference)

    def value(self, value: Any, keys: tuple[Any, ...]) -> Any:
        if len(keys) > _msgpack.DEPTH_MAX:
            raise NotSerialisable(f"{_path(keys)[:200]}... lies too deep to be saved; does the state hold itself?")
        if _tensors.is_torch(value) or _tensors.is_numpy(value):
            return self.tensor(value, keys)
        kind = type(value)
        if isinstance(value, Mapping) and kind.__name__ in (
            "dict",
            "OrderedDict",
            "mappingproxy",
            "defaultdict",
            "Hparams",
        ):
            items = {key: self.value(item, (*keys, key)) for key, item in value.items()}
            self.keyed += [((*keys, key), "") for key, item in items.items() if not isinstance(item, _Ext)]
            if kind.__name__ != "OrderedDict":
                return items
            ordered: Any = kind(items)
            metadata = getattr(value, "_metadata", None)
            if metadata is not None:
                ordered._metadata = self.value(dict(metadata), (*keys, "_metadata"))
            return ordered
        if kind in (list, tuple):
            return kind(self.value(item, (*keys, i)) for i, item in enumerate(value))
        return value

    def other(self, value: Any, path: str) -> tuple[int, bytes]:
        """For the packer: values that are neither plain nor tensors."""
        if isinstance(value, _Ext):
            return value.kind, value.payload
        torch = sys.modules.get("torch")
        if torch is not None:
            if isinstance(value, torch.Size):
                return _NAMED, _msgpack.pack(["torch.Size", list(value)])
            if isinstance(value, (torch.dtype, torch.device)):
                return _NAMED, _msgpack.pack([f"torch.{type(value).__name__}", str(value)])
        plains: tuple[type[Any], ...] = (bool, int, float, str, bytes)
        for plain in plains:
            if isinstance(value, plain):  # a subclass, an enum for example: its plain value
                return _NAMED, _msgpack.pack(["plain", plain(value)])
        if self.allow_pickle:
            import pickle

            try:
                return _PICKLE, pickle.dumps(value)
            except Exception as error:  # of any kind: the value's own code runs
                raise NotSerialisable(f"{path} cannot be pickled: {error}; leave it out.") from error
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if hasattr(value, "state_dict"):
            raise NotSerialisable(f"{path} is a {name}; give its state_dict() instead.")
        raise NotSerialisable(
            f"{path} is a {name}, which is neither a tensor, an array nor a plain value; leave it out, save what it is made of,"
            " or allow pickle with run.save(..., pickle=True)."
        )


class _Ext:
    def __init__(self, kind: int, payload: bytes) -> None:
        self.kind, self.payload = kind, payload


def lay_out(state: Any, step: int, allow_pickle: bool = False, reported: Mapping[str, int] | None = None) -> Layout:
    """Lays a state out; copies no tensor. `reported`: the last step of each group of metrics. NotSerialisable names the path of
    what cannot be saved."""
    flattener = _Flattener(allow_pickle)
    flat = flattener.value(state, ())
    try:
        tree = _msgpack.pack(
            {"version": VERSION, "step": step, "state": flat, "reported": dict(reported or {})}, flattener.other, "checkpoint"
        )
    except (RecursionError, OverflowError, TypeError) as error:
        if isinstance(error, NotSerialisable):
            raise NotSerialisable(str(error).replace("checkpoint['state']", "state")) from error
        raise NotSerialisable(
            f"The state cannot be saved: {str(error).replace(chr(39) + 'state' + chr(39), 'state')}."
        ) from error
    layout = Layout(keyed=flattener.keyed)
    files: list[tuple[str, list[Any]]] = [(TREE, [tree])]
    for file, tensors in flattener.tensors.items():
        # Wide elements first, so that all are aligned; then large tensors, so that small ones lie together.
        tensors.sort(key=lambda tensor: (-_tensors.DTYPES[tensor.dtype][0], tensor.bytes < _CHUNK_BYTES_MIN))
        files.append((file, list(tensors)))
    sizes = _place(layout, files)
    listing = _listing([name for name, _ in files], sizes)
    layout.parts.insert(0, (0, _writer(listing), len(listing), ()))
    for i, (offset, write, count, keys) in enumerate(layout.parts[1:], 1):
        layout.parts[i] = (offset + len(listing), write, count, keys)
    layout.files = [(name, offset + len(listing), count) for name, offset, count in layout.files]
    layout.bytes += len(listing)
    layout.cuts = _thin([0] + [cut + len(listing) for cut in layout.cuts], layout.bytes)
    return layout


def _thin(cuts: list[int], count: int) -> list[int]:
    """Cuts of `count` bytes, without those that lie too close for a checkpoint with so many."""
    least = count // CUTS_MAX + 1
    kept: list[int] = []
    for cut in cuts:
        if cut < count and (not kept or cut >= kept[-1] + least):
            kept.append(cut)
    return kept


def _writer(data: bytes) -> Callable[[memoryview], None]:
    def write(room: memoryview) -> None:
        room[:] = data

    return write


def _place(layout: Layout, files: list[tuple[str, list[Any]]]) -> list[int]:
    """Appends the files to the layout, from offset 0 on, and returns their sizes."""
    sizes = []
    for name, contents in files:
        start = layout.bytes
        layout.cuts.append(start)
        head = [_tensors.header(contents, start % _tensors.ALIGNMENT)] if name != TREE else []
        was_large = False
        for part in head + contents:
            if isinstance(part, bytes):
                write, count, keys = _writer(part), len(part), ()
            else:
                write, count, keys = part.write, part.bytes, part.keys
            is_large = count >= _CHUNK_BYTES_MIN
            if (is_large or was_large) and layout.cuts[-1] != layout.bytes:
                layout.cuts.append(layout.bytes)
            layout.parts.append((layout.bytes, write, count, keys))
            layout.bytes += count
            was_large = is_large
        sizes.append(layout.bytes - start)
        layout.files.append((name, start, sizes[-1]))
    return sizes


def _listing(names: list[str], sizes: list[int]) -> bytes:
    """The listing of store/snapshot.h, [1, [[path, kind, mode, bytes, mtime_ns, link], ...], padding], whose length is a
    multiple of 4096, so that the files move only if it grows a lot."""
    entries = [[name.encode(), 1, 0o644, size, 0, b""] for name, size in zip(names, sizes)]
    for padding in (0, 256, 65536):  # the widths of the padding's own length
        plain = len(_msgpack.pack([1, entries, bytes(padding)])) - padding
        missing = -plain % 4096
        if missing < padding:  # its length would be written in fewer bytes
            missing += -(-(padding - missing) // 4096) * 4096
        out = _msgpack.pack([1, entries, bytes(missing)])
        if len(out) % 4096 == 0:
            return out
    raise AssertionError("one of the widths fits")


class Files:
    """The files of a checkpoint, by name: views of its bytes. If it is one blob, `memory` is all of its bytes, and `starts`
    tells where in them the files begin."""

    def __init__(
        self, views: dict[str, memoryview], memory: memoryview | None = None, starts: dict[str, int] | None = None
    ) -> None:
        self.views, self.starts = views, starts or {}
        self.memory = memory if memory is not None else memoryview(b"")

    def head_bytes(self, known: int) -> int:
        """So many bytes from the beginning tell what `read_state` reads but for the tensors' own bytes. More than `known`, of
        which the checkpoint has the right bytes: with as many it may be more again."""
        need = self.starts.get(TREE, 0) + len(self.views.get(TREE, b""))
        for name, view in self.views.items():
            if name.endswith(".safetensors") and need <= known:
                header = self.starts[name] + 8
                length = int.from_bytes(view[:8], "little") if header <= known else 0
                need = max(need, min(header + length, self.starts[name] + len(view)))
        return need


def open_files(data: memoryview) -> Files:
    """Reads the listing of a checkpoint. CheckpointError: it was not written by run.save, nor is it a directory."""
    begins_as_listing = len(data) >= 3 and 0x92 <= data[0] <= 0x9F and 0 < data[1] < 16  # an array, and its version
    if not begins_as_listing:  # other bytes are not read as MessagePack: they may be gigabytes that mean something else
        raise CheckpointError(
            f"The checkpoint was not written by run.save of this package (it begins with {bytes(data[:8])!r}, which is no"
            " listing of files); load it with the program that wrote it."
        )
    if data[1] != 1:
        raise CheckpointError(
            f"The checkpoint's files are listed in version {data[1]}, and this package reads version 1; load it with the"
            " version of Shoal that saved it."
        )
    try:
        listing, offset = _msgpack.unpack(data[:_LISTING_BYTES_MAX])
        views: dict[str, memoryview] = {}
        starts: dict[str, int] = {}
        for path, kind, _mode, count, *_rest in listing[1]:
            if kind == 1:
                if not isinstance(path, bytes) or not isinstance(count, int):
                    raise TypeError("its listing is none")
                if not 0 <= count <= len(data) - offset:
                    raise ValueError("a file ends beyond it")
                views[bytes(path).decode()] = data[offset : offset + count]
                starts[bytes(path).decode()] = offset
                offset += count
    except (_msgpack.Malformed, TypeError, ValueError, LookupError) as error:
        raise CheckpointError(
            f"The checkpoint was not written by run.save of this package ({error}); load it with the program that wrote it."
        ) from error
    return Files(views, data, starts)


class Saved(NamedTuple):
    """What `lay_out` got."""

    state: Any
    step: int
    reported: dict[str, int] | None
    """None: of an older version of this package."""


def read_state(files: Files, allow_pickle: bool = False) -> Saved:
    """What was saved. Tensors share the memory of the files, which has to be writable. CheckpointError."""
    if TREE not in files.views:
        names = ", ".join(sorted(files.views)[:5])
        raise CheckpointError(f"The checkpoint has no {TREE}, but {names}: it is a directory; read it from run.restore_dir.")
    headers: dict[str, tuple[dict[str, Any], int]] = {}
    made: dict[tuple[str, str], Any] = {}

    def tensor(payload: memoryview) -> Any:
        (file, name, kind), _ = _msgpack.unpack(payload)
        if file not in files.views:
            raise CheckpointError(f"The checkpoint has lost its file {file}.")
        if file not in headers:
            headers[file] = _tensors.read_header(files.views[file], file)
        entries, start = headers[file]
        if (file, name) not in made:
            made[file, name] = _tensors.read(files.views[file], entries.get(name), start, kind, f"{file}: {name}")
        return made[file, name]

    def hook(kind: int, payload: memoryview) -> Any:
        if kind == _TENSOR:
            return tensor(payload)
        if kind == _PICKLE:
            if not allow_pickle:
                raise CheckpointError(
                    "The checkpoint holds pickled values, which can run any code; if you trust it, load(pickle=True)."
                )
            import pickle

            try:
                return pickle.loads(payload)
            except Exception as error:  # of any kind: what was pickled runs
                raise CheckpointError(
                    f"A pickled value in the checkpoint cannot be read ({error}); load it with the program that saved it."
                ) from error
        if kind == _NAMED:
            return _named(payload)
        raise CheckpointError(f"The checkpoint holds a value of kind {kind}; it was saved by a newer version of this package.")

    try:
        tree, _ = _msgpack.unpack(files.views[TREE], hook)
        if tree["version"] != VERSION:
            raise CheckpointError(f"The checkpoint has version {tree['version']}; this package reads version {VERSION}.")
        reported = tree.get("reported")
        if reported is not None:
            reported = {str(group): int(step) for group, step in reported.items()}
        return Saved(tree["state"], int(tree["step"]), reported)
    except (AttributeError, ValueError, LookupError, TypeError, OverflowError) as error:
        raise CheckpointError(f"{TREE} in the checkpoint cannot be read: {error}.") from error


def _named(payload: memoryview) -> Any:
    (name, value), _ = _msgpack.unpack(payload)
    if name == "plain":
        return value
    try:
        import torch
    except ImportError as error:
        raise CheckpointError(f"The checkpoint holds a {name}, and this Python lacks PyTorch.") from error
    try:
        if name == "torch.Size":
            return torch.Size(value)
        if name == "torch.device":
            return torch.device(value)
        found = getattr(torch, value.replace("torch.", "", 1), None)
    except (AttributeError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"The checkpoint holds a {name} that cannot be read: {error}.") from error
    if name != "torch.dtype" or not isinstance(found, torch.dtype):
        raise CheckpointError(f"The checkpoint holds {value!r:.100} as a {name!r:.100}, which this version of PyTorch lacks.")
    return found


def differences(loaded: Any, wanted: Any, path: str = "state", limit: int = 5) -> list[str]:
    """What differs between two states in structure, shapes and types of tensors: at most `limit` phrases."""
    out: list[str] = []
    if isinstance(loaded, Mapping) and isinstance(wanted, Mapping):
        for key in wanted:
            if key not in loaded:
                out.append(f"{path}[{key!r}] is not in the checkpoint")
        for key in loaded:
            if key not in wanted:
                out.append(f"{path}[{key!r}] is only in the checkpoint")
            elif len(out) < limit:
                out += differences(loaded[key], wanted[key], f"{path}[{key!r}]", limit)
    elif isinstance(loaded, (list, tuple)) and isinstance(wanted, (list, tuple)):
        if len(loaded) != len(wanted):
            out.append(f"{path} has {len(loaded)} elements in the checkpoint and {len(wanted)} here")
        for i, (a, b) in enumerate(zip(loaded, wanted)):
            if len(out) < limit:
                out += differences(a, b, f"{path}[{i}]", limit)
    else:
        mine, theirs = _shape(wanted), _shape(loaded)
        if mine != theirs:
            out.append(f"{path} is {theirs} in the checkpoint and {mine} here")
    return out[:limit]


def _shape(value: Any) -> str:
    if _tensors.is_torch(value) or _tensors.is_numpy(value):
        return f"{str(value.dtype).replace('torch.', '')}{list(value.shape)}"
    return "a number" if isinstance(value, (int, float)) else "a value" if value is None else f"a {type(value).__name__}"
