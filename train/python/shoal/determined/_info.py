"""What a program is told of its place. Reads the environment only, so that a launcher may ask before its workers begin."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .. import _directories
from .._run import _read_hparams


@dataclass(frozen=True)
class TrialInfo:
    """The trial of this process."""

    trial_id: int
    """Number of the trial in its experiment, from 0."""
    experiment_id: str
    """16 hexadecimal digits."""
    hparams: dict[str, Any]
    """Hyperparameters by name; nested maps are dicts."""


@dataclass(frozen=True)
class ClusterInfo:
    """The place of this process. Shoal starts one process per slot, so each is a container of its own with one slot."""

    latest_checkpoint: str | None
    """Directory of the newest checkpoint of `core.CheckpointContext.store_path`, for `restore_path`; None: there is none."""
    trial: TrialInfo
    slot_ids: list[int]
    """The one slot of this process: its local rank."""
    container_addrs: list[str]
    """One for each rank; the first is rank 0's host, which all ranks know, and the others repeat it."""
    container_rank: int
    """Rank of this process."""


def newest_checkpoint() -> str | None:
    """The newest ``step-N`` of `shoal.Run.checkpoint_dir` that an earlier attempt left, or None."""
    return _directories.newest(os.environ.get("SHOAL_RESTORE_DIR") or "")


def get_cluster_info() -> ClusterInfo | None:
    """The place of this process, or None outside Shoal. ShoalError: the hyperparameters cannot be read."""
    if not os.environ.get("SHOAL_SOCKET"):
        return None
    trial = TrialInfo(int(os.environ.get("SHOAL_TRIAL") or 0), os.environ.get("SHOAL_EXPERIMENT", ""), _read_hparams().copy())
    return ClusterInfo(
        newest_checkpoint(),
        trial,
        [int(os.environ.get("LOCAL_RANK") or 0)],
        [os.environ.get("MASTER_ADDR", "127.0.0.1")] * int(os.environ.get("WORLD_SIZE") or 1),
        int(os.environ.get("RANK") or 0),
    )
