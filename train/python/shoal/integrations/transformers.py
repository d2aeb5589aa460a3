"""For the Trainer of Hugging Face's transformers::

    callback = ShoalCallback()
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[callback])
    trainer.train(resume_from_checkpoint=callback.resume_from_checkpoint)

Subclasses of the Trainer use it as well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

from .. import _reports
from .._errors import CheckpointError, ShoalError
from .._run import Run, init

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        f"shoal.integrations.transformers needs the package transformers, which cannot be imported ({error});"
        " install it with: pip install 'transformers[torch]'."
    ) from error

__all__ = ["ShoalCallback"]


class ShoalCallback(TrainerCallback):
    """Reports, saves, resumes and leaves, for a `transformers.Trainer`.

    - What the Trainer logs is reported, by rank 0, with the Trainer's own steps: logs of training in the group "training",
      those of ``evaluate`` in "validation" without their prefix ``eval_``, those with the prefix ``test_`` in "test".
    - Each ``checkpoint-N`` that the Trainer writes (``save_strategy``, ``save_steps``) becomes a checkpoint of the trial, with
      the states of all ranks' random generators.
    - When Shoal asks the trial to leave, the Trainer saves and ends its training after the same step on all ranks. An
      evaluation that is due at this step is left out, but for the last step of the training.

    run: default: `shoal.init`'s. Outside Shoal metrics go to its directory, and checkpoints stay where the Trainer puts them.

    ShoalError at the beginning of the training: the Trainer does not see the ranks of the trial, and each would train alone.
    CheckpointError at a save: ranks have written parts of a sharded checkpoint. GroupBroken: a rank is gone.
    """

    def __init__(self, run: Run | None = None) -> None:
        self.run = run if run is not None else init()
        self._is_leaving = False

    @property
    def resume_from_checkpoint(self) -> str | None:
        """For ``trainer.train``: the directory of the newest checkpoint that an earlier attempt saved, or None. Outside Shoal
        None: there ``get_last_checkpoint(output_dir)`` finds it."""
        return self.run._newest_directory() if self.run.in_shoal else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        """Refuses a training of which each rank would be one of its own."""
        self._is_leaving = False
        if self.run.in_shoal and args.world_size != self.run.size:
            raise ShoalError(
                f"The Trainer trains with {args.world_size} process(es), and the trial has {self.run.size} ranks; on processors"
                " give TrainingArguments(use_cpu=True), and let Shoal start one process per slot, without a launcher."
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_others: Any) -> None:
        """Reports what the Trainer logs."""
        if not state.is_world_process_zero or not logs:
            return
        group, prefix = _group_of(logs)
        metrics = {}
        for name, value in logs.items():
            try:
                metrics[name[len(prefix) :] if name.startswith(prefix) else name] = _reports.number(value)
            except (TypeError, ValueError, RuntimeError, OverflowError):
                self.run._warn(f"The log {name!r} of step {state.global_step} is no number, and is not reported.")
        if metrics:
            self.run.report(metrics, step=state.global_step, group=group)

    def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> Any:
        """Asks whether to leave; all ranks get the same answer."""
        if self.run.should_stop():
            self._is_leaving = True
            control.should_save = control.should_training_stop = True
            if state.global_step < state.max_steps:
                control.should_evaluate = False  # it comes before the save, and may take longer than there is time to leave
        return control

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_others: Any) -> Any:
        """Leaves without a second save. The Trainer comes here, too, when it leaves inside of an epoch."""
        if self._is_leaving and not float(state.epoch).is_integer():
            control.should_evaluate = control.should_save = False
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        """Keeps the checkpoint that the Trainer has written."""
        if not self.run.in_shoal or state.is_hyper_param_search:
            return
        step = state.global_step
        source = os.path.join(args.output_dir, f"checkpoint-{step}")
        generators = self._gather(source)
        if self.run.rank != 0:
            return
        # A copy, not links: the Trainer may write into these files again, and a link that the Trainer removes changes the time
        # of the file, which is a sign for the daemon that the checkpoint is not at rest.
        with self.run.checkpoint_dir(step) as path:
            shutil.copytree(source, path, dirs_exist_ok=True)
            for name, data in generators.items():
                with open(os.path.join(path, name), "wb") as file:
                    file.write(data)

    def _gather(self, source: str) -> dict[str, bytes]:
        """The files with the random generators of the other ranks, which lie on their hosts."""
        if self.run.size == 1:
            return {}
        name = f"rng_state_{self.run.rank}.pth"
        files, data = _files_below(source), b""
        if self.run.rank != 0 and name in files:
            with open(os.path.join(source, name), "rb") as file:
                data = file.read()
        everyone = self.run.all_gather({"name": name, "data": data, "files": sorted(files)})
        for rank, theirs in enumerate(everyone):
            more = set(theirs["files"]) - set(everyone[0]["files"]) - {theirs["name"]}
            if more:
                raise CheckpointError(
                    f"Rank {rank} has written {min(more)} of the checkpoint, which rank 0 lacks; a checkpoint in parts is not"
                    " kept, so save the whole model on rank 0 (FSDP: the state dict type FULL_STATE_DICT)."
                )
        return {theirs["name"]: theirs["data"] for theirs in everyone if theirs["data"]}


def _group_of(logs: Mapping[str, Any]) -> tuple[str, str]:
    """The group of a log, and the prefix that its names lose. The log of an evaluation has its speed."""
    for name in logs:
        if name.startswith("eval_"):
            return "validation", "eval_"
        if name.endswith("_runtime") and name != "train_runtime":
            return ("test", "test_") if name.startswith("test_") else ("validation", "")
    return "training", ""


def _files_below(directory: str) -> set[str]:
    """Paths of the files, relative to the directory; none if it is not there."""
    return {os.path.relpath(os.path.join(above, name), directory) for above, _, names in os.walk(directory) for name in names}
