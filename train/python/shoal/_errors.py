"""The errors of this package. Each message is one sentence: what, which, why, and what to do."""

from __future__ import annotations


class ShoalError(RuntimeError):
    """Shoal could not do what was asked. The base of the errors below."""


class DaemonLost(ShoalError):
    """The daemon of this machine has not answered for a minute, or no longer knows this worker: the attempt is over."""


class GroupBroken(ShoalError):
    """A call that all ranks make together failed: a rank is gone, did not call, or called something else."""

    is_of_calls = True
    """Whether the ranks' calls differed, or one came too late; False: a rank or its connection is gone."""


class StepLost(ShoalError):
    """The group of an elastic run has lost a rank, so this step is not applied. ``with run.step()`` takes it, drops the step's
    gradients, and `ElasticRun.batches` gives the batch again."""


class CheckpointError(ShoalError):
    """A checkpoint could not be saved or read, or is of something else than this program."""


class NotSerialisable(ShoalError, TypeError):
    """A value in a state cannot be saved; the message has its path, such as ``state['model'][3]``."""


class NoDaemon(ShoalError):
    """No daemon answers on the data directory."""


class NotFound(ShoalError, LookupError):
    """There is no such experiment, trial, checkpoint or node."""
