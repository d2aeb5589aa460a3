"""Checkpoints that are directories, ``step-N`` each, as `Run.checkpoint_dir` makes them."""

from __future__ import annotations

import os

TIMES_MIN = 10**12  # names from here on are times in milliseconds, of directories that were made without a step
KEPT = 2  # the daemon, or the program, may still read the one before the newest


def _steps(root: str) -> list[int]:
    """Steps of the directories below `root`, in order; none if it is not there."""
    names = os.listdir(root) if os.path.isdir(root) else []
    return sorted(int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdecimal())


def step_of(path: str) -> int:
    """Steps that the files of a directory have seen; 0: its name does not tell."""
    number = os.path.basename(path)[5:] if os.path.basename(path).startswith("step-") else ""
    return int(number) if number.isdecimal() and int(number) < TIMES_MIN else 0


def newest(root: str) -> str | None:
    """The directory with the largest step below `root`, or None."""
    steps = _steps(root)
    return os.path.join(root, f"step-{steps[-1]}") if steps else None


def remove_old(root: str, step: int) -> None:
    """Removes all but the newest `KEPT`. That of `step`, just made, stays in any case, since steps may go back."""
    import shutil

    for old in _steps(root)[:-KEPT]:
        if old != step:
            shutil.rmtree(os.path.join(root, f"step-{old}"), ignore_errors=True)
