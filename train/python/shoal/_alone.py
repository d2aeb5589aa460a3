"""A run outside Shoal: metrics go to a file of JSON lines, checkpoints to directories, nobody asks to stop.

    shoal-runs/2026-11-25-141503-7121/metrics.jsonl
    shoal-runs/2026-11-25-141503-7121/checkpoints/120/state.msgpack, model.safetensors, ...

A number that is not finite is the text "NaN", "Infinity" or "-Infinity", as in ``shoal metrics --json``: JSON has no
number for it, and ``float()`` reads these texts.
The directory is made by the first report or save. SHOAL_RUN_DIR names another one; if it holds checkpoints, `load` finds the
newest, so a program goes on when it is started with the directory of an earlier run.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import time
from typing import IO, Any

from . import _checkpoint, _directories
from ._errors import CheckpointError, ShoalError

CHECKPOINTS_KEPT = 2


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() else otherwise


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _map(path: str) -> memoryview:
    with open(path, "rb") as file:
        empty = os.fstat(file.fileno()).st_size == 0  # and cannot be mapped
        view: Any = bytearray() if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return memoryview(view)


class Alone:
    """One rank without Shoal; or, under torchrun, one of several, of which rank 0 writes."""

    def __init__(self) -> None:
        self.rank = _number(os.environ.get("RANK"), 0)
        self.size = _number(os.environ.get("WORLD_SIZE"), 1)
        self.seed = _number(os.environ.get("SHOAL_SEED"), 0)
        stamp = time.strftime("%Y-%m-%d-%H%M%S")
        self.directory = os.environ.get("SHOAL_RUN_DIR") or os.path.join("shoal-runs", f"{stamp}-{os.getpid()}")
        self.restore_dir = _directories.newest(os.path.join(self.directory, "checkpoints"))
        self._file: IO[bytes] | None = None

    def report(self, group: str, step: int, metrics: dict[str, float]) -> None:
        if self.rank != 0:
            return
        numbers = {name: value if math.isfinite(value) else _word(value) for name, value in metrics.items()}
        line = json.dumps({"time": time.time(), "group": group, "step": step, "metrics": numbers}) + "\n"
        path = os.path.join(self.directory, "metrics.jsonl")
        try:
            if self._file is None:
                os.makedirs(self.directory, exist_ok=True)
                self._file = open(path, "ab", buffering=0)
            rest = line.encode()
            while rest:  # one write, so that lines of several threads stay whole, unless the disk fills up
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise ShoalError(f"The metrics of step {step} cannot be written to {path}: {error.strerror}.") from error

    def _steps(self) -> list[int]:
        try:
            names = os.listdir(os.path.join(self.directory, "checkpoints"))
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdecimal())

    def newest_step(self) -> int | None:
        """Of the checkpoint that `load` gives; None: there is none, or its directory cannot be read."""
        try:
            return max(self._steps(), default=None)
        except OSError:
            return None

    def path(self, step: int) -> str:
        return os.path.join(self.directory, "checkpoints", str(step))

    def save(self, layout: _checkpoint.Layout, step: int) -> None:
        """Writes the files beside their place and renames the directory, so that a checkpoint is whole or absent, also after a
        loss of power. CheckpointError, MemoryError."""
        import shutil

        path = self.path(step)
        room = memoryview(bytearray(layout.bytes))
        layout.write(room)
        try:
            shutil.rmtree(f"{path}.part", ignore_errors=True)  # of a save that was killed
            os.makedirs(f"{path}.part")
            for name, offset, count in layout.files:
                with open(os.path.join(f"{path}.part", name), "wb") as file:
                    file.write(room[offset : offset + count])
                    file.flush()
                    os.fsync(file.fileno())
            _sync_directory(f"{path}.part")
            shutil.rmtree(path, ignore_errors=True)
            os.rename(f"{path}.part", path)
            _sync_directory(os.path.dirname(path))
        except OSError as error:
            shutil.rmtree(f"{path}.part", ignore_errors=True)
            raise CheckpointError(f"The checkpoint of step {step} cannot be written to {path}: {error.strerror}.") from error
        for old in self._steps()[:-CHECKPOINTS_KEPT]:
            if old != step:  # steps may go back
                shutil.rmtree(self.path(old), ignore_errors=True)

    def load(self) -> tuple[_checkpoint.Files, int] | None:
        """The files of the newest checkpoint, and its step. CheckpointError."""
        path = os.path.join(self.directory, "checkpoints")
        try:
            steps = self._steps()
            if not steps:
                return None
            path = self.path(steps[-1])
            return _checkpoint.Files({name: _map(os.path.join(path, name)) for name in os.listdir(path)}), steps[-1]
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CheckpointError(f"The checkpoint {path} cannot be read: {reason}.") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
