"""For the Trainer of Lightning 2::

    callback = ShoalCallback()
    trainer = lightning.Trainer(callbacks=[callback])
    trainer.fit(model, data, ckpt_path=callback.ckpt_path)

Programs that import ``pytorch_lightning`` use it, too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from .._errors import CheckpointError
from .._run import Run, init

try:
    try:
        from lightning.pytorch.callbacks import Callback
        from lightning.pytorch.loggers import Logger
    except ModuleNotFoundError:
        from pytorch_lightning.callbacks import Callback
        from pytorch_lightning.loggers import Logger
except ImportError as error:
    raise ImportError(
        f"shoal.integrations.lightning needs the package lightning, which cannot be imported ({error});"
        " install it with: pip install lightning."
    ) from error

__all__ = ["ShoalCallback"]
FILE = "trainer.ckpt"


class ShoalCallback(Callback):
    """Reports, saves, resumes and leaves, for a `lightning.Trainer`. Put it behind other callbacks with a state: what comes
    behind it is saved as it was before the step.

    - What the model logs (``self.log``) is reported, by rank 0, at the Trainer's logging points and with its steps
      (``log_every_n_steps``): in the group "training", "validation" or "test", whichever the Trainer is at, under its own name.
      A validation has the number of steps that are behind it, as the checkpoint there, where the Trainer counts one less.
    - A checkpoint of the Trainer is saved each `save_every` steps, or at the end of each epoch, and at the end of the training;
      its file is ``trainer.ckpt``.
    - When Shoal asks the trial to leave, the Trainer saves and ends its training after the same step on all ranks, whatever its
      ``min_epochs`` and ``min_steps``. Inside of an epoch it leaves without a validation.

    save_every: steps of optimizers (``trainer.global_step``) between checkpoints; None: an epoch.
    run: default: `shoal.init`'s. Outside Shoal metrics and checkpoints go to its directory.

    A training that resumes inside of an epoch begins the epoch's data anew, as Lightning says, unless the loader has
    ``state_dict`` and ``load_state_dict``.

    ValueError: `save_every` is below 1. CheckpointError at a save: the strategy writes checkpoints in parts. GroupBroken: a
    rank is gone. A ``fast_dev_run`` is left alone.
    """

    def __init__(self, save_every: int | None = None, run: Run | None = None) -> None:
        if save_every is not None and save_every < 1:
            raise ValueError(f"save_every is {save_every}; it has to be a number of steps from 1, or None.")
        self.save_every = save_every
        self.run = run if run is not None else init()
        self._logger: _RunLogger | None = None
        self._is_on = True
        self._step = 0  # the last that was seen
        self._saved = -1  # the last that was saved
        self._is_leaving = False
        self._limit_val_batches: Any = None  # as it was, while it is 0 so that the Trainer leaves without a validation

    @property
    def ckpt_path(self) -> str | None:
        """For ``trainer.fit``: the file of the newest checkpoint that an earlier attempt saved, or None. Outside Shoal that of
        the directory which SHOAL_RUN_DIR names."""
        directory = self.run._newest_directory()
        return os.path.join(directory, FILE) if directory is not None else None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Takes part in the Trainer's logging."""
        self._is_on = not trainer.fast_dev_run
        if self._is_on and self._logger not in trainer.loggers:
            self._logger = _RunLogger(self.run, trainer)
            trainer.loggers = [*trainer.loggers, self._logger]

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """A training that resumes has its first step saved already."""
        self._step = trainer.global_step
        self._saved = self._step if self._step > 0 else -1
        self._is_leaving = False

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each step of an optimizer asks whether to leave; all ranks get the same answer."""
        before, self._step = self._step, trainer.global_step
        if not self._is_on or self._step == before:
            return
        if self.run.should_stop():
            self._save(trainer)
            self._leave(trainer)
        elif self.save_every is not None and self._step // self.save_every != before // self.save_every:
            self._save(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Saves at the end of an epoch. The Trainer comes here, too, when it leaves inside of an epoch."""
        if self._limit_val_batches is not None and self._logger is not None:
            self._logger.is_silent = True  # no means over a part of the epoch: the next attempt goes on with it
        elif self._is_on and (self.save_every is None or self._is_leaving):
            self._save(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Saves the end of the training."""
        if self._limit_val_batches is not None:
            trainer.limit_val_batches, self._limit_val_batches = self._limit_val_batches, None
            if self._logger is not None:
                self._logger.is_silent = False
        elif self._is_on and self._saved != trainer.global_step:
            self._save(trainer)

    def _leave(self, trainer: Any) -> None:
        self._is_leaving = trainer.should_stop = True
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None  # they are for training that stops early
        if not trainer.is_last_batch:
            self._limit_val_batches, trainer.limit_val_batches = trainer.limit_val_batches, 0

    def _save(self, trainer: Any) -> None:
        """All ranks call it: a strategy may gather the state from them. Rank 0 writes."""
        step = trainer.global_step
        with self.run.checkpoint_dir(step) if self.run.rank == 0 else contextlib.nullcontext("") as mine:
            path = os.path.join(trainer.strategy.broadcast(mine), FILE)
            trainer.save_checkpoint(path, weights_only=False)
            if self.run.rank == 0 and not os.path.isfile(path):
                raise CheckpointError(
                    f"The strategy {type(trainer.strategy).__name__} has not written the checkpoint as one file; a checkpoint"
                    " in parts is not kept, so choose the full state (FSDPStrategy: state_dict_type='full')."
                )
        self._saved = step


class _RunLogger(Logger):
    """What the Trainer logs becomes reports."""

    def __init__(self, run: Run, trainer: Any) -> None:
        super().__init__()
        self._run, self._trainer = run, trainer
        self.is_silent = False

    @property
    def name(self) -> str:
        return "shoal"

    @property
    def version(self) -> str:
        return f"trial-{self._run.trial}"

    @property
    def save_dir(self) -> str:
        """Where the Trainer would write without a logger: a logger decides it, if it is the only one."""
        path: str = self._trainer.default_root_dir
        return path

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Called with the numbers of one logging point."""
        if self._run.rank == 0 and not self.is_silent:
            at = self._trainer
            group = "test" if at.testing else "validation" if at.validating or at.sanity_checking else "training"
            if group == "validation" and step is not None and step + 1 == at.global_step:
                step += 1  # the Trainer has the index of the last batch here
            self._run.report(metrics, step=step, group=group)

    def log_hyperparams(self, *_arguments: Any, **_named: Any) -> None:
        """The trial has its hyperparameters already."""
