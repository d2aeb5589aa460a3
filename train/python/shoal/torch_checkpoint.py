"""Checkpoints of sharded state, by torch.distributed.checkpoint (PyTorch 2.2 and later): FSDP2's and any DTensor, loaded on as
many ranks as there are then::

    import shoal.torch_checkpoint as checkpoint

    model_state, optimizer_state = get_state_dict(model, optimizer)  # torch.distributed.checkpoint.state_dict
    state = {"model": model_state, "optimizer": optimizer_state}
    run.step = checkpoint.load(state) or 0  # into the tensors of `state`; None: there is no checkpoint
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    ...
    checkpoint.save(state, step)

Each rank hands over its part, one more holds what torch.distributed.checkpoint notes about all, and the checkpoint is there
once all of them are stored. When it is loaded, a rank reads the parts that hold what it needs, and of these only the bytes of
its own shards; what of them is not on its node comes from the nodes that hold it.
"""

from __future__ import annotations

import ctypes
import io
import os
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from torch.distributed.checkpoint.state_dict_loader import load as _load
from torch.distributed.checkpoint.state_dict_saver import save as _dcp_save
from torch.distributed.checkpoint.storage import StorageReader as _Reader
from torch.distributed.checkpoint.storage import StorageWriter as _Writer
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _checkpoint
from ._errors import CheckpointError, NotSerialisable
from ._library import RANGES_MAX, Part
from ._run import Run, _step, init

__all__ = ["StorageReader", "StorageWriter", "load", "save"]

_FORMAT = "torch.distributed.checkpoint 1"
_CHUNK_BYTES = 1 << 20  # BLOB_CHUNK_BYTES of store/blob.h
_HEAD_BYTES = 1 << 20  # of a part that are read first: the names and places of its tensors, as a rule


def save(state: dict[str, Any], step: int, *, run: Run | None = None, **options: Any) -> None:
    """Saves a checkpoint; all ranks call it. Returns when the state is copied, as `Run.save`.

    state: a dict of tensors, DTensors and other values, as `torch.distributed.checkpoint.save` takes.
    step: steps that the state has seen.
    options: further arguments of `torch.distributed.checkpoint.save`: planner, process_group.

    CheckpointError, as of `Run.save`; errors of torch.distributed.
    """
    _dcp_save(state, storage_writer=StorageWriter(step, run=run), **options)


def load(state: dict[str, Any], *, run: Run | None = None, **options: Any) -> int | None:
    """Loads the checkpoint that the attempt begins with into the tensors of `state`, as torch.distributed.checkpoint.load does,
    on any number of ranks; all ranks call it. Returns its step, or None: there is none, and `state` is as it was.

    CheckpointError: the checkpoint was not saved by `save`.
    """
    reader = StorageReader(run=run)
    if not reader.is_there():
        return None
    _load(state, storage_reader=reader, **options)
    reader.run._loaded(reader.step, reader.reported)
    return reader.step


class StorageWriter(_Writer):
    """Where `torch.distributed.checkpoint.save` writes: each rank's shards become a part of a checkpoint of `step`."""

    def __init__(self, step: int, *, run: Run | None = None) -> None:
        super().__init__()
        self.run = run if run is not None else init()
        self.step = _step(step)
        self._parts = 0

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        del checkpoint_id

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        del is_coordinator, args, kwargs

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """The coordinator names the save. Behind the ranks' parts comes what torch.distributed.checkpoint notes."""
        import dataclasses

        save = int.from_bytes(os.urandom(8), "big")
        self._named = Part(save, len(plans), len(plans) + 1)
        return [dataclasses.replace(plan, storage_data=Part(save, i, len(plans) + 1)) for i, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        tensors: dict[str, torch.Tensor] = {}
        others: dict[str, bytes] = {}
        results = []
        part = Part(*plan.storage_data)
        for item in plan.items:
            key = _key(item.index)
            data: Any = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                others[key] = data.getvalue()
                count = len(others[key])
            else:
                tensors[key] = data.detach()
                count = tensors[key].numel() * tensors[key].element_size()
            results.append(WriteResult(index=item.index, size_in_bytes=count, storage_data=part.part))
        _save(self.run, {"format": _FORMAT, "tensors": tensors, "others": others}, self.step, part)
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        where = [[result.index.fqn, _numbers(result.index.offset), result.storage_data] for each in results for result in each]
        _save(self.run, {"format": _FORMAT, "metadata": _pack(metadata), "where": where}, self.step, self._named)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        del checkpoint_id
        return False


class StorageReader(_Reader):
    """Where `torch.distributed.checkpoint.load` reads: the checkpoint that the attempt begins with."""

    step: int
    """Of the checkpoint; known after `read_metadata`, as what follows."""
    reported: dict[str, int] | None
    """The last step of each group of metrics when it was saved."""

    def __init__(self, *, run: Run | None = None) -> None:
        super().__init__()
        self.run = run if run is not None else init()
        self.step, self.reported = 0, None
        self._where: dict[MetadataIndex, int] = {}
        self._notes: dict[str, Any] | None = None

    def is_there(self) -> bool:
        """Whether the attempt begins with a checkpoint of sharded state."""
        if self.run.parts > 0:
            self._noted()  # and of this package
            return True
        link = self.run._link
        found = link.load() if link is not None else None
        if found is not None:
            os.close(found[0])
            raise CheckpointError(
                f"The checkpoint of step {found[2]} is a whole one, which run.save wrote; load it with run.load."
            )
        return False

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        del checkpoint_id
        self._notes = None

    def _files(self, part: int, ranges: list[tuple[int, int]] | None = None) -> _checkpoint.Files:
        files = self.run._load_files(part, ranges)
        if files is None:
            raise CheckpointError("There is no checkpoint to load.")
        return files

    def _state(self, files: _checkpoint.Files) -> dict[str, Any]:
        """What was saved. Its tensors are the memory of the files."""
        saved = _checkpoint.read_state(files)
        is_ours = isinstance(saved.state, dict) and saved.state.get("format") == _FORMAT
        if not is_ours:
            raise CheckpointError(
                f"The checkpoint of step {saved.step} has {self.run.parts} parts that run.save(sharded=True) wrote; load"
                " them with run.load."
            )
        self.step, self.reported = saved.step, saved.reported
        state: dict[str, Any] = saved.state
        return state

    def _needed(self, part: int, items: list[ReadItem]) -> dict[str, Any]:
        """The part, with those bytes of its tensors that the items want. What is on other nodes is fetched no further."""
        known, need = 0, _HEAD_BYTES
        while known < need:
            known = need
            files = self._files(part, [(0, known)])
            need = files.head_bytes(known)
        state = self._state(files)
        places = [_place(_slice(state, item), files.memory) for item in items if item.type != LoadItemType.BYTE_IO]
        if all(end <= known for _, end in places):
            return state
        return self._state(self._files(part, _merged([(0, known), *places])))

    def _noted(self) -> dict[str, Any]:
        """What torch.distributed.checkpoint has noted: the last part."""
        if self._notes is None:
            self._notes = self._state(self._files(self.run.parts - 1))
        return self._notes

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        del args, kwargs
        head = self._noted()
        metadata = _unpack(head["metadata"])
        metadata.storage_data = {
            MetadataIndex(fqn, None if offset is None else torch.Size(offset)): int(part) for fqn, offset, part in head["where"]
        }
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        del is_coordinator, args, kwargs
        self._where = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        items: dict[int, list[ReadItem]] = {}
        for item in plan.items:
            items.setdefault(self._where[item.storage_index], []).append(item)
        for part, wanted in sorted(items.items()):
            state = self._needed(part, wanted)
            for item in wanted:
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(state["others"][_key(item.storage_index)]))
                    continue
                target = planner.resolve_tensor(item).detach()
                target.copy_(_slice(state, item))
                planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        del checkpoint_id
        return False


def _save(run: Run, state: dict[str, Any], step: int, part: Part) -> None:
    if run._link is None:
        raise CheckpointError(
            "Outside Shoal there are no nodes to keep the parts; save sharded state with torch.distributed.checkpoint's own"
            " FileSystemWriter."
        )
    try:
        run._save(_checkpoint.lay_out(state, step, reported=run._steps), step, part)
    except MemoryError as error:
        raise CheckpointError(f"The checkpoint of step {step} is not saved, for no memory is left.") from error


def _slice(state: dict[str, Any], item: ReadItem) -> torch.Tensor:
    """What the item wants of a part."""
    source: torch.Tensor = state["tensors"][_key(item.storage_index)]
    for axis, (start, count) in enumerate(zip(item.storage_offsets, item.lengths)):
        source = source.narrow(axis, start, count)
    return source


def _place(source: torch.Tensor, memory: memoryview) -> tuple[int, int]:
    """Where in `memory` the bytes of a view lie: the first one, and where they end, with what lies between them. A view that is
    not of this memory needs all of it."""
    if source.numel() == 0:
        return 0, 0
    last = sum((count - 1) * stride for count, stride in zip(source.shape, source.stride()))
    begin = source.data_ptr() - ctypes.addressof(ctypes.c_char.from_buffer(memory))
    end = begin + (last + 1) * source.element_size()
    return (begin, end) if 0 <= begin and end <= len(memory) else (0, len(memory))


def _merged(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """These places as ranges (first byte, bytes), at most RANGES_MAX: what lies closer than a chunk comes together anyway."""
    gap = _CHUNK_BYTES
    while True:
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(places):
            if merged and begin <= merged[-1][1] + gap:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((begin, end))
        if len(merged) <= RANGES_MAX:
            return [(begin, end - begin) for begin, end in merged]
        gap *= 2


def _numbers(offset: Any) -> list[int] | None:
    return None if offset is None else [int(each) for each in offset]


def _key(index: MetadataIndex) -> str:
    """The name of a value in its part: a shard that does not begin where its tensor begins has its place behind a @."""
    if index.offset is None or not any(index.offset):
        return index.fqn
    return f"{index.fqn}@{','.join(str(each) for each in index.offset)}"


def _pack(metadata: Metadata) -> dict[str, Any]:
    """As plain values, so that no pickle is read. NotSerialisable: a planner's own data."""
    tensors: dict[str, Any] = {}
    others: list[str] = []
    for name, each in metadata.state_dict_metadata.items():
        if isinstance(each, TensorStorageMetadata):
            chunks = [[_numbers(chunk.offsets), _numbers(chunk.sizes)] for chunk in each.chunks]
            tensors[name] = [each.properties.dtype, _numbers(each.size), bool(each.properties.requires_grad), chunks]
        else:
            others.append(name)
    paths = metadata.planner_data
    is_plain = paths is None or (isinstance(paths, dict) and all(isinstance(path, (tuple, list)) for path in paths.values()))
    if not is_plain:
        raise NotSerialisable(
            f"The planner keeps data of its own ({type(paths).__name__}) with the checkpoint; use DefaultSavePlanner."
        )
    return {
        "tensors": tensors,
        "others": others,
        "paths": None if paths is None else {name: list(path) for name, path in paths.items()},
        "version": metadata.version if hasattr(metadata, "version") else None,
    }


def _unpack(packed: dict[str, Any]) -> Metadata:
    known: dict[str, Any] = {name: BytesStorageMetadata() for name in packed["others"]}
    for name, (dtype, size, requires_grad, chunks) in packed["tensors"].items():
        known[name] = TensorStorageMetadata(
            properties=TensorProperties(dtype=dtype, requires_grad=requires_grad),
            size=torch.Size(size),
            chunks=[ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes in chunks],
        )
    paths = packed["paths"]
    metadata = Metadata(
        state_dict_metadata=known, planner_data=None if paths is None else {name: tuple(path) for name, path in paths.items()}
    )
    if packed.get("version") is not None and hasattr(metadata, "version"):
        metadata.version = packed["version"]
    return metadata
