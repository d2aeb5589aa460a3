"""An elastic run: one group of ranks that outlives its ranks (docs/design.md, "Groups that change").

The state of a training is what `ElasticRun.carry` names, the place in the epoch and the random generators. A step is applied
once all its sums have ended. A rank that is lost costs the others the step they are in; a rank that joins, or that did not
apply the last step, takes the state from the memory of one that has it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NoReturn

from . import _checkpoint
from ._errors import CheckpointError, ShoalError, StepLost
from ._library import DATA, ElasticLink
from ._run import Run, _step

if TYPE_CHECKING:
    from ._parallel import DistributedDataParallel

_OWN = "elastic"  # the name, in a state, of what is not carried
_CARRIED: Any = object()  # for run.save without a state


class Step(int):
    """How many steps are applied. Called, it gives the block of the next one: ``with run.step():``."""

    _run: ElasticRun

    def __call__(self) -> Block:
        return Block(self._run)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)


class Block:
    """The block of a step, of ``with run.step() as block:``."""

    applied = False
    """After the block: whether the step is applied. If not, the group has lost a rank, and the step comes again."""

    def __init__(self, run: ElasticRun) -> None:
        self._run = run

    def __enter__(self) -> Block:
        self._run._begin_step()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or isinstance(error, StepLost):
            self.applied = self._run._end_step(error is not None)
            return True
        self._run._abandon_step()
        return False


class ElasticRun(Run):
    """A run whose group may lose ranks and gain some, in the same processes. Made by ``shoal.init(elastic=True)``::

        run = shoal.init(elastic=True)
        model = shoal.torch.DistributedDataParallel(net)
        run.carry(model=net, optimizer=opt, scheduler=sched)
        for epoch in run.epochs(20):
            for x, y in run.batches(loader):
                with run.step():
                    opt.zero_grad()
                    loss = f(model(x), y)
                    loss.backward()
                    opt.step()
                    sched.step()
                    run.report({"loss": loss}, step=run.step + 1)

    If a rank is lost, ``backward()`` raises `StepLost` on the others, the block takes it, and the same batch comes again,
    shared by the ranks that are left: `rank` and `size` change between blocks. So what stands behind ``backward()`` in the
    block runs once for each step that is applied. Ranks that join begin at the group's epoch and batch. A run that begins loads
    the newest checkpoint by itself; `save` without a state saves what is carried.

    When Shoal asks to stop, the state is saved, and `batches` and `epochs` end on all ranks after the same step.

    `all_gather`, `broadcast` and `barrier` are refused, since a rank that joins would not know of them; `should_stop` exchanges
    nothing.
    """

    step: Step
    """How many steps are applied; ``with run.step():`` is the block of the next one."""
    is_elastic = True

    def __init__(self) -> None:
        self._carried: dict[str, Any] = {}
        self._parallels: list[DistributedDataParallel] = []
        self._epoch = self._batch = 0
        self._entered = self._is_loaded = self._stopped = self._has_gpu = False
        self._in_block = self._is_lost = False
        self._part: tuple[int, int, int, int] | None = None  # of the step's batch: its first sample, samples, and this rank's
        self._before: dict[str, Any] = {}  # a step
        self._optimizer_steps = 0  # of which optimisers have told
        self._log: int | None = None
        super().__init__()
        self._set_step(0)

    def _connect(self) -> ElasticLink:
        return ElasticLink()

    @property
    def _group(self) -> ElasticLink | None:
        assert self._link is None or isinstance(self._link, ElasticLink)
        return self._link

    def _set_step(self, step: int) -> None:
        self.step = Step(step)
        self.step._run = self

    @property
    def weight(self) -> float:
        """This rank's part of the step's samples, by which its mean gradient counts: ``1 / size`` if parts are equal."""
        return self._part[3] / self._part[1] if self._part is not None else 1 / self.size

    # ---- the state ----

    def carry(self, **objects: Any) -> None:
        """Names what training carries from step to step; called once, before the first epoch, alike on all ranks.

        objects: of which each has ``state_dict`` and ``load_state_dict`` (a module, an optimiser, a scheduler, a GradScaler, a
        class of your own), or is a ``torch.Generator``. A rank that needs the state gets it in place: tensors stay where they
        are. PyTorch's own generator travels with it.
        """
        if self._entered:
            raise ShoalError("run.carry() was called after the first epoch had begun; call it before.")
        for name, each in objects.items():
            if name == _OWN or not (hasattr(each, "load_state_dict") or hasattr(each, "set_state")):
                what = (
                    "a name that Shoal uses itself"
                    if name == _OWN
                    else f"a {type(each).__name__}, which has no load_state_dict"
                )
                raise TypeError(f"run.carry({name}=...) is {what}.")
            if _is_optimizer(each) and hasattr(each, "register_step_post_hook"):
                each.register_step_post_hook(self._note_optimizer_step)
        self._carried.update(objects)

    def _note_optimizer_step(self, *_ignored: Any) -> None:
        self._optimizer_steps += 1

    def _versions(self) -> tuple[int, int]:
        """Changes when an optimiser changes a parameter; before PyTorch 2 not if it does so by ``parameter.data``."""
        modules = [each for each in self._carried.values() if _is_module(each)] or self._parallels
        return self._optimizer_steps, sum(p._version for module in modules for p in module.parameters())

    def _state(self) -> dict[str, Any]:
        state = {
            name: each.state_dict() if hasattr(each, "load_state_dict") else each.get_state()
            for name, each in self._carried.items()
        }
        state[_OWN] = {"epoch": self._epoch, "batch": self._batch, "generators": _generators()}
        return state

    def _take(self, state: Any) -> None:
        if not isinstance(state, dict) or set(state) != {*self._carried, _OWN}:
            names = sorted(state) if isinstance(state, dict) else type(state).__name__
            raise CheckpointError(
                f"The state has {names}, and this program carries {sorted(self._carried)}; is it of another program?"
            )
        for name, each in self._carried.items():
            try:
                _load(each, state[name])
            except Exception as error:  # of any kind: the program's own code runs
                raise CheckpointError(f"{name} does not take its state: {error}") from error
        self._epoch, self._batch = state[_OWN]["epoch"], state[_OWN]["batch"]
        _set_generators(state[_OWN]["generators"])

    def _pack(self) -> bytearray:
        layout = _checkpoint.lay_out(self._state(), int(self.step), reported=self._steps)
        room = bytearray(layout.bytes)
        layout.write(memoryview(room))
        return room

    def _unpack(self, data: memoryview) -> None:
        saved = _checkpoint.read_state(_checkpoint.open_files(data))
        self._take(saved.state)
        self._steps = dict(saved.reported or {})

    def _load_newest(self) -> int:
        state = super().load()
        step = int(self.step) if state is not None else 0
        if state is not None:
            self._take(state)
        self._set_step(step)
        return step

    def load(self, like: Any = None, *, part: int | None = None, map_location: Any = None, pickle: bool = False) -> NoReturn:
        """Refused: an elastic run loads by itself what `carry` names."""
        raise ShoalError(
            "An elastic run loads the newest checkpoint by itself, in the first run.epochs(), into what run.carry() names."
        )

    def save(self, state: Any = _CARRIED, step: int | None = None, *, sharded: bool = False, pickle: bool = False) -> None:
        """As `Run.save`; without a state what is carried, at the present step, so that a run that begins anew goes on there.
        Called behind a block, on all ranks or on rank 0. With ``sharded`` it is refused: each rank has the whole state."""
        if sharded:
            raise ShoalError("run.save(sharded=True) is not for an elastic run, in which each rank has the whole state.")
        if self._in_block:
            raise ShoalError(
                "run.save() was called in the block of a step, which is not applied yet; call it behind the block."
            )
        if state is _CARRIED and self.rank != 0:
            return
        super().save(
            self._state() if state is _CARRIED else state, int(self.step) if step is None else _step(step), pickle=pickle
        )

    def _save_last(self) -> None:
        """Before this rank leaves, as Shoal asks. In no group each rank saves, because rank 0 may be gone."""
        layout = _checkpoint.lay_out(self._state(), int(self.step), reported=self._steps)
        try:
            self._save(layout, int(self.step))
        except CheckpointError as error:
            print(f"shoal: step {int(self.step)} is not saved: {error}", file=sys.stderr, flush=True)

    def _use_gpu(self) -> None:
        """Before the first group: arrays may be memory of this rank's GPU."""
        if self._group is not None and not self._has_gpu:
            self._group.use_gpu()
            self._has_gpu = True

    # ---- groups ----

    def _enter(self) -> None:
        """Enters a group, if this rank is in none: waits for the others, and takes the state if it has none. A rank that has
        its part of a batch is in one, and the time that the part takes is measured already."""
        if self._stopped or self._part is not None:
            return
        if os.getpid() != self._pid or self._closed:
            self._unusable("step")
        if not self._carried:
            raise ShoalError(
                "An elastic run begins with run.carry(model=..., optimizer=...), so that other ranks can go on with them."
            )
        group = self._group
        if group is None:
            if self.size > 1:
                raise ShoalError("An elastic run outside Shoal has one rank; with torchrun use torch.distributed.")
            if not self._is_loaded:
                self._load_newest()
            self._entered = self._is_loaded = True
            return
        if not self._is_loaded:
            group.use_state(self._pack, self._unpack, self._load_newest)
            self._is_loaded = True
        step = group.step_begin()
        if step is None:
            self._stopped = True
            if self._entered:
                self._save_last()
            return
        self._entered = True
        self.rank, self.size = group.rank, group.size
        if step != self.step:
            self._set_step(step)

    def _begin_step(self) -> None:
        if self._in_block:
            raise ShoalError("A block of run.step() was begun in another one.")
        self._enter()
        if self._stopped:
            raise SystemExit(0)  # the state is saved
        self._in_block, self._is_lost = True, False
        if self.size > 1:
            self._before = {
                "generators": _generators(),
                "versions": self._versions(),
                "small": _small_states(self._carried),
            }
            for model in self._parallels:
                model._begin_step()

    def _end_step(self, is_lost: bool) -> bool:
        self._in_block = False
        before, self._before = self._before, {}
        if is_lost or self._is_lost:
            self._is_lost = True
            self._drop(before)
            return False
        group, part = self._group, self._part
        if self.size > 1:
            for model in self._parallels:
                if not model._is_summed():
                    self._drop(before)
                    raise ShoalError(
                        "An optimiser has applied gradients of one rank, which were not summed; call the wrapper, not the"
                        " module in it, and make the last forward of a block outside of no_sync()."
                    )
        size, applied = self.size, (time.time_ns(), time.monotonic_ns())
        stops = group.step_commit() if group is not None else False
        self._part = None
        self._batch += 1
        self._set_step(self.step + 1)
        self._write_log(part, size, applied)
        if group is not None and self.rank == 0:
            group.progress(int(self.step))
        if stops:
            self._stopped = True
            if self.rank == 0:
                self._save_last()
        return True

    def _abandon_step(self) -> None:
        """The program left the block by an error of its own. The others do not wait for this rank; if the program begins to
        loop again, it enters a group as if it had lost the step."""
        self._in_block, self._part = False, None
        before, self._before = self._before, {}
        if before and self._group is not None and os.getpid() == self._pid and not self._closed:
            self._group.leave()
            self._drop(before)

    def _drop(self, before: dict[str, Any]) -> None:
        """All as it was before the step. If parameters have changed already, there is no way back, and the state is another
        rank's."""
        assert self._group is not None
        self._part = None
        for model in self._parallels:
            model._drop_step()
        if self._versions() != before["versions"]:
            self._group.forget_state()
        _restore_small_states(self._carried, before["small"])
        _set_generators(before["generators"])

    def _lost(self) -> None:
        """The group is broken, whatever the program does with the error."""
        self._is_lost = True

    # ---- the loops ----

    def epochs(self, count: int) -> Iterator[int]:
        """The numbers of the epochs, from 0 to ``count - 1``: from the epoch on in which the group, or the checkpoint, is."""
        self._enter()
        while not self._stopped and self._epoch < count:
            epoch = self._epoch
            yield epoch
            if not self._stopped and self._epoch == epoch:
                self._epoch, self._batch = epoch + 1, 0

    def batches(self, loader: Any, *, order: Callable[[int], Any] | None = None) -> Iterator[Any]:
        """This rank's parts of the batches of an epoch, from where the group is; in each epoch each sample comes once, however
        the group changes. The body has one block, ``with run.step():``; if its step is lost, the batch comes again.

        loader: a ``torch.utils.data.DataLoader``, of which `batch_size` is the number of samples in a step, of all ranks
        together. Its workers, `collate_fn` and `pin_memory` are used. With ``shuffle`` each epoch has an order of its own, the
        same on all ranks, from the trial's seed. What is left at the end of an epoch is a step of its own if it is at least
        half a batch, else a part of the last step; with `drop_last` it is left out.
        order: gives the places of an epoch's samples in the dataset, the same on all ranks; for loaders with a sampler of their
        own.

        Parts are equal, or with ``balance: on`` by the ranks' speeds; gradients are averaged by the parts.
        """
        from ._batches import Feed

        epoch = self._epoch
        feed: Feed | None = None
        with contextlib.ExitStack() as stack:
            stack.callback(self._give_part_back)
            while True:
                self._give_part_back()
                self._enter()
                if feed is None:
                    epoch = self._epoch
                    feed = Feed(loader, epoch, self.seed, order)
                    stack.callback(feed.close)
                if self._stopped or self._epoch != epoch or self._batch >= feed.steps:
                    return
                first, total = feed.batch(self._batch)
                if total < self.size:
                    raise ShoalError(
                        f"A batch of {total} samples is too small for {self.size} ranks; give the loader a larger batch_size."
                    )
                try:
                    begin, count = self._group.share(total) if self._group is not None else (0, total)
                except StepLost:
                    continue
                self._part = first, total, first + begin, count
                step, self._is_lost = self.step, False
                began_ns = time.monotonic_ns()
                data = feed.part(self._batch, begin, count)
                if self._group is not None:
                    self._group.span(DATA, began_ns)
                yield data
                if self.step == step and not self._is_lost and not self._stopped:
                    raise ShoalError(
                        "A batch of run.batches() was used without `with run.step():`, or its block ended by an error, so its"
                        " step is not applied."
                    )

    def _give_part_back(self) -> None:
        """What the program has taken of a batch, without a block."""
        if not self._in_block:
            self._part = None

    def _write_log(self, part: tuple[int, int, int, int] | None, size: int, applied: tuple[int, int]) -> None:
        """A line of the sample ledger, as shoal-train writes them, for ``shoal-train ledger``."""
        path = os.environ.get("SHOAL_STEP_LOG")
        if not path or part is None:
            return
        group = self._group
        if self._log is None:
            self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        generation = group.generation if group is not None else 1
        balanced = int(group is not None and group.is_balanced())
        line = (
            f"{applied[0] // 1_000_000} {self.experiment} {self.trial} {self.attempt} {self.rank} {int(self.step)} {generation}"
            f" {size} {part[0]} {part[1]} {part[2]} {part[3]} {applied[1] // 1000} {balanced}\n"
        )
        os.write(self._log, line.encode())

    # ---- the end ----

    def should_stop(self, sync: bool = True) -> bool:
        """Whether Shoal asks this trial to leave: the same on all ranks, and after the same step; the state is saved by then. A
        rank in no group waits here for the next one, so that `rank` and `size` are the next step's."""
        del sync
        if not self._in_block:
            self._enter()
        return self._stopped

    def barrier(self) -> NoReturn:
        """Refused."""
        self._refuse_together("run.barrier()")

    def all_gather(self, value: Any) -> NoReturn:
        """Refused."""
        del value
        self._refuse_together("run.all_gather()")

    def broadcast(self, value: Any = None, root: int = 0) -> NoReturn:
        """Refused."""
        del value, root
        self._refuse_together("run.broadcast()")

    @staticmethod
    def _refuse_together(call: str) -> NoReturn:
        raise ShoalError(
            f"{call} is not for an elastic run, because a rank that joins would not make the call; evaluate on rank 0, or on"
            " every rank for itself."
        )

    def close(self) -> None:
        """As `Run.close`. Gradients stay where the program has them."""
        if not self._closed and os.getpid() == self._pid:
            for model in self._parallels:
                model._release()
            if self._log is not None:
                os.close(self._log)
                self._log = None
        super().close()


# ---- states in place ----


def _is_module(each: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(each, torch.nn.Module)


def _is_optimizer(each: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(each, torch.optim.Optimizer)


def _owned(value: Any) -> Any:
    """A copy, whose tensors have memory of their own: that of a state which arrives is libshoal's."""
    if hasattr(value, "clone"):
        return value.clone()
    if isinstance(value, dict):
        copied = type(value)((key, _owned(item)) for key, item in value.items())
        if hasattr(value, "_metadata"):
            copied._metadata = value._metadata  # type: ignore[attr-defined]
        return copied
    return type(value)(_owned(item) for item in value) if type(value) in (list, tuple) else value


def _load(each: Any, state: Any) -> None:
    if not hasattr(each, "load_state_dict"):
        each.set_state(_owned(state))
    elif _is_module(each):
        each.load_state_dict(state)  # by copy_
    elif not (_is_optimizer(each) and _copy_into_optimizer(each, state)):
        each.load_state_dict(_owned(state))


def _copy_into_optimizer(optimizer: Any, saved: Any) -> bool:
    """Takes a state over in place. False: it has other keys or shapes than the present one."""
    now = optimizer.state_dict()
    if set(now["state"]) != set(saved["state"]) or len(now["param_groups"]) != len(saved["param_groups"]):
        return False
    pairs = []
    for number, values in saved["state"].items():
        present = now["state"][number]
        if not isinstance(present, dict) or set(present) != set(values):
            return False
        pairs += [(present[key], values[key]) for key in values]
    if any(not hasattr(a, "copy_") or not hasattr(b, "shape") or a.shape != b.shape or a.dtype != b.dtype for a, b in pairs):
        return False
    for present, group in zip(now["param_groups"], saved["param_groups"]):
        if present["params"] != group["params"]:
            return False
    for a, b in pairs:
        a.copy_(b)
    for group, values in zip(optimizer.param_groups, saved["param_groups"]):
        for key, value in values.items():
            if key == "params":
                continue
            if hasattr(group.get(key), "copy_") and hasattr(value, "shape"):
                group[key].copy_(value)
            else:
                group[key] = _owned(value)
    return True


def _generators() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_generators(states: dict[str, Any]) -> None:
    torch = sys.modules.get("torch")
    if torch is not None and "cpu" in states:
        torch.set_rng_state(states["cpu"].clone())
    if torch is not None and "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"].clone())


def _small_states(carried: dict[str, Any]) -> dict[str, Any]:
    """Of schedulers, generators and optimisers' groups, which a program may change before ``backward()``. Not of a GradScaler,
    whose state lies on the GPU, and which is updated at the end of a step: it only forgets which optimisers have stepped."""
    states: dict[str, Any] = {}
    for name, each in carried.items():
        if _is_optimizer(each):
            states[name] = [{key: value for key, value in group.items() if key != "params"} for group in each.param_groups]
        elif not hasattr(each, "load_state_dict"):
            states[name] = each.get_state()
        elif not _is_module(each) and type(each).__name__ != "GradScaler":
            states[name] = dict(each.state_dict())
    return states


def _restore_small_states(carried: dict[str, Any], states: dict[str, Any]) -> None:
    for each in carried.values():
        if type(each).__name__ == "GradScaler" and hasattr(each, "_per_optimizer_states"):
            each._per_optimizer_states.clear()
    for name, state in states.items():
        each = carried[name]
        if _is_optimizer(each):
            for group, values in zip(each.param_groups, state):
                group.update(values)
        elif hasattr(each, "load_state_dict"):
            each.load_state_dict(state)
        else:
            each.set_state(state)
