"""For PyTorch: data parallelism in a group that outlives its ranks, and a batch sampler over the samples of a trial, which all
ranks share and which resumes inside of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import torch

from ._parallel import DistributedDataParallel
from ._run import Run, init

__all__ = ["DistributedDataParallel", "Sampler"]


class Sampler(torch.utils.data.Sampler[list[int]]):
    """Says which samples each rank takes in each step, each sample once in an epoch::

        sampler = shoal.torch.Sampler(dataset, batch_size=256)
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler)
        for epoch in range(sampler.epoch, epochs):
            for x, y in loader:
                ...

    A step takes `batch_size` samples, of all ranks together; a rank's part of them is contiguous (`Run.shard`). What is left at
    the end of an epoch is a step of its own if it is at least half a batch, else a part of the last step. Make it after
    ``run.load()``: it begins with the step that the checkpoint has reached, also in the middle of an epoch and with another
    number of ranks. When the loader is iterated again, the next epoch comes.

    samples: their number, or a dataset with ``len``.
    batch_size: samples of a step, of all ranks together; at least twice the number of ranks.
    shuffle: another order in each epoch, the same on all ranks, from the trial's seed (or `seed`) and the epoch.
    step: steps done already; default: those of the checkpoint that was loaded.

    ValueError: too few samples for the batch, or a batch too small for the ranks.
    """

    def __init__(
        self,
        samples: int | Sized,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int | None = None,
        step: int | None = None,
        run: Run | None = None,
    ) -> None:
        self._run = run if run is not None else init()
        self.samples = samples if isinstance(samples, int) else len(samples)
        self.batch_size, self.shuffle = batch_size, shuffle
        self.seed = self._run.seed if seed is None else seed
        if batch_size < 2 * self._run.size and self._run.size > 1:
            raise ValueError(f"batch_size is {batch_size}; {self._run.size} ranks need at least {2 * self._run.size} together.")
        if not 0 < batch_size <= self.samples:
            raise ValueError(f"batch_size is {batch_size}; it has to be 1 to {self.samples}, the number of samples.")
        whole, rest = divmod(self.samples, batch_size)
        self.steps_per_epoch: int = whole + (1 if 2 * rest >= batch_size else 0)
        done = self._run.step if step is None else step
        self._next = divmod(done, self.steps_per_epoch)

    @property
    def epoch(self) -> int:
        """The epoch that comes next, or goes on; from 0."""
        return self._next[0]

    def part(self, step: int) -> range:
        """The places in the epoch's order that this rank takes in a step of the epoch, from 0."""
        first = step * self.batch_size
        last = self.samples if step == self.steps_per_epoch - 1 else first + self.batch_size
        mine = self._run.shard(last - first)
        return range(first + mine.start, first + mine.stop)

    def __iter__(self) -> Iterator[list[int]]:
        epoch, step = self._next
        self._next = (epoch + 1, 0)
        order: Any = None
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed((self.seed * 1_000_003 + epoch) % (1 << 63))
            order = torch.randperm(self.samples, generator=generator).tolist()
        for at in range(step, self.steps_per_epoch):
            places = self.part(at)
            yield [order[i] for i in places] if order is not None else list(places)

    def __len__(self) -> int:
        """Steps of the epoch that comes next, or goes on."""
        return self.steps_per_epoch - self._next[1]


def __getattr__(name: str) -> Any:
    """`checkpoint` is `shoal.torch_checkpoint`, which is imported when it is used: it takes a second."""
    if name != "checkpoint":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import torch_checkpoint

    return torch_checkpoint
