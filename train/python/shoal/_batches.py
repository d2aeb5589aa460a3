"""The batches of an elastic run: from a DataLoader, in an order that all ranks know, in parts that may change at any step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Callable

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from ._errors import ShoalError


def _refuse(why: str) -> ShoalError:
    return ShoalError(f"run.batches() cannot share out this loader: {why}.")


def order_of(loader: Any, epoch: int, seed: int, order: Callable[[int], Any] | None) -> torch.Tensor:
    """The places of an epoch's samples in the dataset, in their order; the same on all ranks."""
    if order is not None:
        return torch.as_tensor(order(epoch), dtype=torch.int64)
    count = len(loader.dataset)
    sampler = loader.sampler
    if type(sampler) is SequentialSampler:
        return torch.arange(count)
    if type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == count:
        generator = torch.Generator()
        generator.manual_seed((seed * 1_000_003 + epoch) % (1 << 63))
        return torch.randperm(count, generator=generator)
    raise _refuse(
        f"its {type(sampler).__name__} may draw other samples on each rank; give order=FUNCTION, which gives the places of an"
        " epoch's samples from the epoch's number alone"
    )


class Feed:
    """The batches of an epoch, of which each rank gets its part."""

    def __init__(self, loader: Any, epoch: int, seed: int, order: Callable[[int], Any] | None) -> None:
        if not isinstance(loader, DataLoader):
            raise TypeError(f"run.batches() takes a torch.utils.data.DataLoader, not a {type(loader).__name__}.")
        if isinstance(loader.dataset, IterableDataset):
            raise _refuse("an IterableDataset has no places to begin at; use one with len() and an index")
        if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
            raise _refuse(
                "it has a batch_sampler of its own, or no batch_size; give it batch_size, the samples of a step of all ranks"
            )
        self._loader, self._epoch, self._seed = loader, epoch, seed
        self._order = order_of(loader, epoch, seed, order)
        self._size = loader.batch_size
        whole, rest = divmod(len(self._order), self._size)
        self.steps: int = whole + (1 if not loader.drop_last and (2 * rest >= self._size or whole == 0) and rest else 0)
        self._end = whole * self._size if loader.drop_last else len(self._order)
        if self.steps == 0:
            raise _refuse(f"its {len(self._order)} samples are fewer than batch_size, {self._size}")
        self._iterator: Any = None
        self._planned: deque[tuple[int, int, int]] = deque()  # batch, first and count of the parts that come next
        self._last = (1, 0, 1)  # samples of a batch, first and count of this rank's part: by which further ones are planned
        self._next = 0

    def batch(self, at: int) -> tuple[int, int]:
        """The first place of a batch of all ranks, and how many."""
        first = at * self._size
        return first, (self._end if at == self.steps - 1 else first + self._size) - first

    def _plan(self, at: int) -> tuple[int, int, int]:
        """This rank's part of a batch, if the ranks' parts stay as they are."""
        total, begin, count = self._last
        whole = self.batch(at)[1]
        first = begin * whole // total
        return at, first, (begin + count) * whole // total - first

    def _parts(self, at: int) -> Iterator[list[int]]:
        for number in range(at, self.steps):
            planned = self._plan(number)
            self._planned.append(planned)
            first = self.batch(number)[0] + planned[1]
            yield self._order[first : first + planned[2]].tolist()

    def part(self, at: int, begin: int, count: int) -> Any:
        """This rank's part of a batch, collated."""
        if self._iterator is None or self._expected(at) != (at, begin, count):
            self._restart(at, begin, count)
        data = next(self._iterator)  # without workers it plans the batch here
        self._planned.popleft()
        self._next = at + 1
        return data

    def _expected(self, at: int) -> tuple[int, int, int] | None:
        """What the iterator gives next, if it is the part of this batch."""
        if self._planned:
            return self._planned[0]
        return self._plan(at) if self._next == at else None

    def _restart(self, at: int, begin: int, count: int) -> None:
        self.close()
        self._planned = deque()
        loader = self._loader
        generator = torch.Generator()  # of the workers' seeds: the program's own generator stays as it is
        generator.manual_seed((self._seed * 1_000_003 + self._epoch * 8191 + at) % (1 << 63))
        workers: dict[str, Any] = {}
        if loader.num_workers > 0:
            workers = {"multiprocessing_context": loader.multiprocessing_context, "timeout": loader.timeout}
            workers["prefetch_factor"] = loader.prefetch_factor
        self._last = self.batch(at)[1], begin, count
        parts: Any = self._parts(at)
        self._iterator = iter(
            DataLoader(
                loader.dataset,
                batch_sampler=parts,
                num_workers=loader.num_workers,
                collate_fn=loader.collate_fn,
                pin_memory=loader.pin_memory,
                worker_init_fn=loader.worker_init_fn,
                generator=generator,
                **workers,
            )
        )

    def close(self) -> None:
        """Ends the workers of the loader."""
        iterator, self._iterator = self._iterator, None
        shut_down = getattr(iterator, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()
