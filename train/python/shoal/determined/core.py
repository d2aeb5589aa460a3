"""`init` and its context: training, checkpoints, preemption and ranks by Determined's names."""

from __future__ import annotations

import contextlib
import json
import pathlib
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from .. import _run
from .._errors import CheckpointError
from ._info import newest_checkpoint

__all__ = ["CheckpointContext", "Context", "DistributedContext", "PreemptContext", "TrainContext", "init"]

METADATA = "metadata.json"


class DistributedContext:
    """Ranks of a trial. The arguments are those that a launcher gives; inside Shoal they have to be the run's own."""

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int = 0,
        local_size: int = 1,
        cross_rank: int = 0,
        cross_size: int = 1,
        chief_ip: str | None = None,
        **_ports: Any,
    ) -> None:
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self.cross_rank, self.cross_size = cross_rank, cross_size
        self.chief_ip = chief_ip
        self._run: _run.Run | None = None

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """The ranks as Shoal gives them."""
        run = _run.init()
        return cls(
            rank=run.rank, size=run.size, local_rank=run.local_rank, cross_rank=run.rank, cross_size=run.size, chief_ip=chief_ip
        )

    from_deepspeed = from_torch_distributed

    def _of(self) -> _run.Run:
        if self._run is None:
            self._bind(_run.init())
        assert self._run is not None
        return self._run

    def _bind(self, run: _run.Run) -> None:
        if (self.rank, self.size) != (run.rank, run.size):
            raise ValueError(
                f"DistributedContext has rank {self.rank} of {self.size}, and Shoal started this process as rank {run.rank} of"
                f" {run.size}; let Shoal start one process per slot, without a launcher."
            )
        self._run = run

    def get_rank(self) -> int:
        return self.rank

    def get_size(self) -> int:
        return self.size

    def get_local_rank(self) -> int:
        return self.local_rank

    def allgather(self, stuff: Any) -> list[Any]:
        """The plain values of all ranks, in rank order. GroupBroken, NotSerialisable."""
        return self._of().all_gather(stuff)

    def gather(self, stuff: Any) -> list[Any] | None:
        """As `allgather`, on rank 0; None on the others."""
        values = self.allgather(stuff)
        return values if self.rank == 0 else None

    def broadcast(self, stuff: Any) -> Any:
        """Rank 0's plain value, on all ranks. GroupBroken, NotSerialisable."""
        return self._of().broadcast(stuff)


class TrainContext:
    """Metrics and progress."""

    def __init__(self, run: _run.Run) -> None:
        self._run = run

    def report_metrics(self, group: str, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """As `shoal.Run.report`."""
        self._run.report(metrics, step=steps_completed, group=group)

    def report_training_metrics(self, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Metrics of group "training"."""
        self._run.report(metrics, step=steps_completed, group="training")

    def report_validation_metrics(self, steps_completed: int, metrics: Mapping[str, Any]) -> None:
        """Metrics of group "validation", by which trials are compared."""
        self._run.report(metrics, step=steps_completed, group="validation")

    def report_progress(self, progress: float) -> None:
        """Has no effect: Shoal shows steps. `progress` is a part of the work, 0 to 1; ValueError outside of it."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is {progress}; it has to be from 0 to 1.")


class CheckpointContext:
    """Checkpoints as directories. Their id is the directory that `ClusterInfo.latest_checkpoint` names."""

    def __init__(self, run: _run.Run) -> None:
        self._run = run

    @contextlib.contextmanager
    def store_path(
        self, metadata: Mapping[str, Any] | None = None, *, shard: bool = False
    ) -> Iterator[tuple[pathlib.Path, str]]:
        """A directory to write files into, and an id. At the end of the block it is a checkpoint, with `metadata` (JSON values)
        as metadata.json; its step is ``metadata["steps_completed"]``. Rank 0's counts; NotImplementedError for `shard`."""
        if shard:
            raise NotImplementedError("Sharded checkpoints are not supported; let rank 0 write all files, without shard.")
        metadata = dict(metadata or {})
        with self._run.checkpoint_dir(metadata.get("steps_completed")) as path:
            yield pathlib.Path(path), str(uuid.uuid4())
            pathlib.Path(path, METADATA).write_text(json.dumps(metadata), encoding="utf-8")

    @contextlib.contextmanager
    def restore_path(self, storage_id: str) -> Iterator[pathlib.Path]:
        """The files of the newest checkpoint. `storage_id`: `ClusterInfo.latest_checkpoint`; another is a CheckpointError."""
        if storage_id != newest_checkpoint():
            raise CheckpointError(
                f"There is no checkpoint {storage_id!r} here; a trial reads its own newest, latest_checkpoint."
            )
        yield pathlib.Path(storage_id)

    def get_metadata(self, storage_id: str) -> dict[str, Any]:
        """What `store_path` got as metadata; {} if nothing. CheckpointError as `restore_path`."""
        with self.restore_path(storage_id) as path:
            file = path / METADATA
            value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return value


class PreemptContext:
    """Whether the trial is asked to save and leave."""

    def __init__(self, run: _run.Run) -> None:
        self._run = run

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """As `shoal.Run.should_stop`: all ranks call it, and get the same answer. GroupBroken."""
        del auto_ack
        return self._run.should_stop()


class Context:
    """What `init` gives; a ``with`` block closes the run at its end."""

    def __init__(self, run: _run.Run, distributed: DistributedContext) -> None:
        self._run = run
        self.distributed = distributed
        self.train = TrainContext(run)
        self.checkpoint = CheckpointContext(run)
        self.preempt = PreemptContext(run)

    def close(self) -> None:
        """Waits until all is stored."""
        self._run.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def init(*, distributed: DistributedContext | None = None, **_others: Any) -> Context:
    """The context of this process. ValueError: `distributed` has other ranks than the run. ShoalError as `shoal.init`."""
    run = _run.init()
    if distributed is None:
        distributed = DistributedContext.from_torch_distributed()
    distributed._bind(run)
    return Context(run, distributed)
