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
its own shards; parts that are not on its node come from the nodes that hold them.
"""

from __future__ import annotations

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
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.state_dict_loader import load as _load
from torch.distributed.checkpoint.state_dict_saver import save as _dcp_save
from torch.distributed.checkpoint.storage import StorageReader as _Reader
from torch.distributed.checkpoint.storage import StorageWriter as _Writer
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _checkpoint
from ._errors import CheckpointError, NotSerialisable
from ._library import Part
from ._run import Run, _step, init

__all__ = ["StorageReader", "StorageWriter", "load", "save"]

_FORMAT = "torch.distributed.checkpoint 1"


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
        """The coordinator names the save. Part 0 is what torch.distributed.checkpoint notes; behind come the ranks' parts."""
        import dataclasses

        save = int.from_bytes(os.urandom(8), "big")
        self._named = Part(save, 0, len(plans) + 1)
        return [dataclasses.replace(plan, storage_data=Part(save, i + 1, len(plans) + 1)) for i, plan in enumerate(plans)]

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
        self._opened: dict[int, Any] = {}

    def is_there(self) -> bool:
        """Whether the attempt begins with a checkpoint of sharded state."""
        if self.run.parts > 0:
            self._part(0)  # and of this package
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
        self._opened = {}

    def _part(self, part: int) -> dict[str, Any]:
        """What was saved as this part. Its tensors are memory that is mapped from a file: only what is copied is read."""
        if part not in self._opened:
            files = self.run._load_files(part)
            if files is None:
                raise CheckpointError("There is no checkpoint to load.")
            saved = _checkpoint.read_state(files)
            is_ours = isinstance(saved.state, dict) and saved.state.get("format") == _FORMAT
            if not is_ours:
                raise CheckpointError(
                    f"The checkpoint of step {saved.step} has {self.run.parts} parts that run.save(sharded=True) wrote; load"
                    " them with run.load."
                )
            if part == 0:
                self.step, self.reported = saved.step, saved.reported
            self._opened[part] = saved.state
        opened: dict[str, Any] = self._opened[part]
        return opened

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        del args, kwargs
        head = self._part(0)
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
        import io

        for item in sorted(plan.items, key=lambda item: self._where[item.storage_index]):
            part = self._part(self._where[item.storage_index])
            key = _key(item.storage_index)
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(part["others"][key]))
                continue
            source = part["tensors"][key]
            for axis, (start, count) in enumerate(zip(item.storage_offsets, item.lengths)):
                source = source.narrow(axis, start, count)
            target = planner.resolve_tensor(item).detach()
            target.copy_(source)
            planner.commit_tensor(item, target)
        self._opened = {}
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
