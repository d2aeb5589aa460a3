"""The run: what a training program says to Shoal, and asks of it."""

from __future__ import annotations

import atexit
import contextlib
import json
import mmap
import operator
import os
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, overload

from . import _checkpoint, _directories, _msgpack, _reports
from ._alone import Alone
from ._errors import CheckpointError, DaemonLost, GroupBroken, ShoalError
from ._library import DATA, Link, Part

if TYPE_CHECKING:
    from ._elastic import ElasticRun

FLUSH_SLICE_MS = 200
CLOSE_SECONDS = 60.0
TOLD_SECONDS = 10.0  # a wait for other ranks that lasts so long is told of
HOLDER = "SHOAL_RUN_PID"  # for child processes: the id of the process that holds this rank's connection


class _NoHparam(KeyError):
    """There is no such hyperparameter. A KeyError whose text is its sentence."""

    def __init__(self, name: Any, known: Mapping[str, Any]) -> None:
        sentence = f"There is no hyperparameter {name!r}; this trial has: {', '.join(sorted(known)) or 'none'}."
        if not os.environ.get("SHOAL_SOCKET"):
            sentence += """ Outside Shoal they are given by SHOAL_HPARAMS='{"lr": 0.1}'."""
        super().__init__(sentence)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyError, self.args


class Hparams(dict[str, Any]):
    """Hyperparameters: a dict that does not change. ``copy()`` gives a plain dict."""

    def __missing__(self, name: str) -> NoReturn:
        raise _NoHparam(name, self)

    def _refuse(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise TypeError("Hyperparameters do not change during a run; change a copy: dict(run.hparams).")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def copy(self) -> dict[str, Any]:
        return {key: _thawed(value) for key, value in self.items()}

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        del memo
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return Hparams, (dict(self),)


def _thawed(value: Any) -> Any:
    """A copy of a value of JSON, with plain dicts."""
    if isinstance(value, dict):
        return {key: _thawed(item) for key, item in value.items()}
    return [_thawed(item) for item in value] if isinstance(value, list) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return Hparams({key: _frozen(item) for key, item in value.items()})
    return value


def _read_hparams() -> Hparams:
    path, text = os.environ.get("SHOAL_HPARAMS_FILE"), os.environ.get("SHOAL_HPARAMS")
    source = "SHOAL_HPARAMS_FILE" if path else "SHOAL_HPARAMS"
    try:
        if path:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        value = json.loads(text) if text else {}
    except (OSError, ValueError) as error:
        raise ShoalError(f"The hyperparameters in {source} cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise ShoalError(f"{source} holds a {type(value).__name__}; it has to hold a JSON object of names to values.")
    frozen: Hparams = _frozen(value)
    return frozen


def _read_rungs() -> list[int]:
    text = os.environ.get("SHOAL_RUNGS", "")
    lengths = [int(word) if word.isdecimal() else 0 for word in text.split()]
    if any(length <= before for before, length in zip([0, *lengths], lengths)):
        raise ShoalError(f"SHOAL_RUNGS is {text!r}; it has to be whole numbers, ascending from 1.")
    return lengths


class _Head(NamedTuple):
    """What ranks tell each other at the beginning of a call that all make."""

    call: int
    """Index in _CALLS."""
    stop: bool
    reason: bytes
    """Of the stop."""
    root: int
    saves: int
    """Calls of `Run.save` so far."""
    digest: bytes
    """Of the keys, types and shapes of the last saved state; zeros: unknown."""
    bytes: int
    """Of the value that follows."""


_CALLS = ("run.should_stop()", "run.barrier()", "run.all_gather()", "run.broadcast()")
_HEAD = struct.Struct(">B?16sIQ16sQ")


def _holder() -> int | None:
    """The id of the process that holds this rank's connection, if it is another one that lives. The daemon listens to the
    last connection of a rank only, so a second one would cut the first off."""
    text = os.environ.get(HOLDER, "")
    if not text.isdecimal() or int(text) == os.getpid():
        return None
    try:
        os.kill(int(text), 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # it lives, and belongs to another user
    return int(text)


class _Elsewhere:
    """The place of a rank whose connection another process holds, as far as the environment tells it."""

    def __init__(self) -> None:
        self.experiment = os.environ.get("SHOAL_EXPERIMENT", "-")
        self.trial, self.attempt, self.rank, self.size, self.seed = (
            int(os.environ.get(f"SHOAL_{name}") or otherwise)
            for name, otherwise in (("TRIAL", 0), ("ATTEMPT", 0), ("RANK", 0), ("SIZE", 1), ("SEED", 0))
        )


class Run:
    """One rank of a trial. Made by `shoal.init`; may be used in a ``with`` block, which closes it.

    Calls may come from any thread. Another process of the same rank, such as a worker of a DataLoader, may read attributes;
    calls that report, save, load or meet other ranks are a ShoalError there.
    """

    rank: int
    """Number of this rank, 0 to ``size - 1``."""
    size: int
    """Number of ranks of the trial."""
    local_rank: int
    """Number of this rank among those of its host; the number of its GPU."""
    seed: int
    """Of the trial, the same on all ranks: for generators that begin alike."""
    hparams: Hparams
    """Hyperparameters of the trial, by name; nested maps are dicts. Outside Shoal those of SHOAL_HPARAMS, a JSON object."""
    step: int
    """Step of the checkpoint that `load` gave; 0 before."""
    is_elastic = False

    def __init__(self) -> None:
        self._link: Link | None = None
        self._alone: Alone | None = None
        self._pid = os.getpid()
        self._closed = False
        self._steps: dict[str, int] = {}  # the last of each group of metrics
        self._first = 0  # behind which a group without one begins
        self._marked = 0  # the last step of which libshoal knows that it has ended
        self._has_batches = False  # of `batches`, which tells of steps
        self._packer = _reports.Packer()
        self._saves: tuple[int, bytes, list[str]] = (0, bytes(16), [])  # count, digest and names of the last save
        self._warned: set[str] = set()
        self._metric: str | None = None  # that the trials are compared by; None: not known yet
        self._stop_reason = ""
        self._waits: tuple[float, str] | None = None  # for other ranks: since when, in which call
        self.hparams = _read_hparams()
        self._rungs = _read_rungs()
        self.step = 0
        place: Link | Alone | _Elsewhere
        holder = _holder()
        if not os.environ.get("SHOAL_SOCKET"):
            place = self._alone = Alone()
            self._tell_place(self._alone)
        elif holder is not None:
            place, self._pid = _Elsewhere(), holder
        else:
            place = self._link = self._connect()
            self._sender = _reports.Sender(self._link.report, self._tend)
            os.environ[HOLDER] = str(self._pid)
        self._place = place
        self.rank, self.size, self.seed = place.rank, place.size, place.seed
        self.local_rank = int(os.environ.get("LOCAL_RANK") or 0)
        atexit.register(self.close)

    def _connect(self) -> Link:
        return Link()

    @staticmethod
    def _tell_place(alone: Alone) -> None:
        if alone.rank == 0:
            step = alone.newest_step()
            found = f", and load() gives its checkpoint of step {step}" if step is not None else ""
            sentence = f"this program runs outside Shoal; metrics and checkpoints go to {alone.directory}{found}"
            print(f"shoal: {sentence}", file=sys.stderr, flush=True)

    def __repr__(self) -> str:
        rank = f"rank {self.rank} of {self.size}"
        if self._alone is not None:
            return f"<Run outside Shoal in {self._alone.directory}: {rank}>"
        return f"<Run of experiment {self.experiment}, trial {self.trial}, attempt {self.attempt}: {rank}>"

    # ---- what this run is ----

    @property
    def in_shoal(self) -> bool:
        """Whether this program was started by Shoal."""
        return self._alone is None

    @property
    def experiment(self) -> str:
        """Id of the experiment, 16 hexadecimal digits; "-" outside Shoal."""
        return "-" if isinstance(self._place, Alone) else self._place.experiment

    @property
    def trial(self) -> int:
        """Number of the trial in its experiment, from 0."""
        return 0 if isinstance(self._place, Alone) else self._place.trial

    @property
    def attempt(self) -> int:
        """Number of this attempt at the trial, from 1; 0 outside Shoal."""
        return 0 if isinstance(self._place, Alone) else self._place.attempt

    @property
    def device(self) -> Any:
        """The ``torch.device`` of this rank: its GPU if there is one, else the processor."""
        import torch

        return (
            torch.device("cuda", self.local_rank % torch.cuda.device_count())
            if torch.cuda.is_available()
            else torch.device("cpu")
        )

    @property
    def output_dir(self) -> str:
        """Directory of files that Shoal keeps: ``$SHOAL_OUTPUT_DIR``, or ``outputs`` in the run's directory."""
        return self._directory("SHOAL_OUTPUT_DIR", "outputs")

    def _directory(self, variable: str, otherwise: str) -> str:
        path = os.environ.get(variable)
        if path:
            return path
        if self._alone is None:
            raise ShoalError(
                f"{variable} is not set, though this program runs in Shoal, which sets it; start the program with its worker's"
                " whole environment."
            )
        path = os.path.join(self._alone.directory, otherwise)
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise ShoalError(f"{path} cannot be made: {error.strerror}; set SHOAL_RUN_DIR to another directory.") from error
        return path

    @property
    def restore_dir(self) -> str | None:
        """Directory with the files of the newest checkpoint that `checkpoint_dir` wrote in an earlier attempt, or outside Shoal
        in an earlier run in SHOAL_RUN_DIR; None: there is none. What else the program has renamed into $SHOAL_CHECKPOINT_DIR
        lies in the directory."""
        if self._alone is not None:
            path = self._alone.restore_dir
        else:
            path = self._newest_directory() or os.environ.get("SHOAL_RESTORE_DIR")
        self._first = max(self._first, _directories.step_of(path or ""))
        return path

    def _newest_directory(self) -> str | None:
        """The newest directory that `checkpoint_dir` made in an earlier attempt; outside Shoal the newest in the run's
        directory now. None: there is none."""
        if self.in_shoal:
            return _directories.newest(os.environ.get("SHOAL_RESTORE_DIR") or "")
        assert self._alone is not None
        return _directories.newest(os.path.join(self._alone.directory, "checkpoints"))

    # ---- hyperparameters ----

    def hparam(self, name: str, default: Any = ...) -> Any:
        """A hyperparameter by its dotted name, ``"optimizer.lr"``. KeyError if there is none and no `default`."""
        value: Any = self.hparams
        if name in self.hparams:
            return self.hparams[name]
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                if default is ...:
                    raise _NoHparam(name, self.hparams)
                return default
            value = value[part]
        return value

    def _suggest(self, name: str, otherwise: Any) -> Any:
        return self.hparam(name) if self.in_shoal else self.hparam(name, otherwise)

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False) -> float:
        """The trial's value of `name`, as of Optuna's ``trial.suggest_float``: the searcher has drawn it already, by the
        experiment's own space. Outside Shoal `low`. KeyError: the experiment has no such hyperparameter."""
        del step, log
        value = float(self._suggest(name, low))
        if not low <= value <= high:
            self._warn(f"Hyperparameter {name!r} is {value}, outside of the {low} to {high} that the program suggests.")
        return value

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """As `suggest_float`, a whole number."""
        del step, log
        value = self._suggest(name, low)
        if int(value) != value:
            raise ValueError(f"Hyperparameter {name!r} is {value}; the program asks for a whole number.")
        if not low <= value <= high:
            self._warn(f"Hyperparameter {name!r} is {value}, outside of the {low} to {high} that the program suggests.")
        return int(value)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """As `suggest_float`, one of `choices`."""
        value = self._suggest(name, choices[0])
        if value not in choices:
            self._warn(f"Hyperparameter {name!r} is {value!r}, which is none of the program's choices.")
        return value

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            print(f"shoal: {sentence}", file=sys.stderr, flush=True)

    # ---- metrics ----

    def report(self, metrics: Mapping[str, Any] | float, step: int | None = None, group: str | None = None) -> None:
        """Reports metrics of a step. Never waits, and drops nothing; any rank may call it.

        metrics: names (1 to 127 bytes, no control characters) to numbers, tensors or arrays of one number; ``{"a": {"b": 1}}``
        is ``a/b``. A number alone, as of Optuna's ``trial.report(value, step)``, is the metric that the trials are compared by;
        in a program that `shoal.search` has not started the first such call asks the daemon for its name, and outside Shoal
        the name is "value". The names of one call, with 12 bytes for each, may have 512 KiB: thousands of them.
        step: how many steps are done, as in `save`: after a resume the points go on from the checkpoint's step, and none is
        there twice. A whole number from 0; steps may go back. None: one more than the last of this group, from 1 on. After
        `load` the groups go on where they were when the checkpoint was saved; a group of which it does not tell (it was made
        by `checkpoint_dir`, and `restore_dir` was read) goes on behind the checkpoint's step.
        group: "training", "validation", "test" or another word of at most 31 bytes, without control characters; None:
        "training", and of a number alone "validation".
        Infinities and NaN are kept; metrics.jsonl, written outside Shoal, has "Infinity", "-Infinity" and "NaN" for them.

        TypeError, ValueError: the sentence names the metric. DaemonLost: the attempt is over.
        """
        if os.getpid() != self._pid or self._closed:
            self._unusable("report")
        if isinstance(metrics, (int, float)) or hasattr(metrics, "item"):
            metrics, group = {self._compared_by(): metrics}, group or "validation"
        if group is None:
            group = "training"
        if step is None:
            step = self._steps.get(group, self._first) + 1
        elif type(step) is not int:
            step = _step(step)
        if self._link is None:
            assert self._alone is not None
            flat = _reports.flatten(metrics)
            self._packer.pack(group, step, flat)
            self._alone.report(group, step, flat)
        else:
            packed = self._packer.pack(group, step, metrics)
            if self._sender.error is not None:
                raise self._sender.error
            self._sender.put(packed)
            if step > self._marked and not self._has_batches:
                self._mark(step)
        self._steps[group] = step

    log = report

    def _mark(self, step: int) -> None:
        """Tells libshoal, which measures how long steps take, that one has ended."""
        self._marked = step
        if self._link is not None:
            self._link.step_mark(step)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader, each of which is a step, so that ``shoal metrics --profile`` and ``shoal trace`` tell
        the wait for data from the rest of a step: ``for x, y in run.batches(loader)``. Without it a step is what lies between
        two reports of later steps."""
        link = self._link
        self._has_batches = True
        self._mark(max(self._marked, int(self.step)))
        batches = iter(loader)
        while True:
            began_ns = time.monotonic_ns()
            try:
                batch = next(batches)
            except StopIteration:
                return
            if link is not None:
                link.span(DATA, began_ns)
            yield batch
            self._mark(self._marked + 1)

    def _compared_by(self) -> str:
        """Name of the metric that the trials are compared by. ShoalError."""
        if self._metric is None and not self.in_shoal:
            self._metric = "value"
        elif self._metric is None:
            from ._daemon import Daemon

            shown = Daemon(os.path.dirname(os.environ["SHOAL_SOCKET"])).ask("show", experiment=self.experiment)["experiment"]
            self._metric = str(shown.get("metric") or "value")
        return self._metric

    def flush(self, timeout: float = CLOSE_SECONDS) -> None:
        """Waits until the daemon has stored all reports and saves. ShoalError after `timeout` seconds, or once all others are
        stored if the daemon has refused one."""
        if os.getpid() != self._pid:
            self._unusable("flush")
        if self._link is None:
            return
        until = time.monotonic() + timeout
        refusal: ShoalError | None = None
        while True:
            self._sender.send()
            done = False
            try:
                done = self._link.flush(FLUSH_SLICE_MS)
            except ShoalError as error:
                if isinstance(error, DaemonLost) or refusal is not None or not self._sender.pending():
                    raise
                refusal = error  # of a full disk, for example; reports wait behind it
            if done and not self._sender.pending():
                if refusal is not None:
                    raise refusal
                return
            if time.monotonic() >= until:
                raise ShoalError(f"The daemon has not stored all reports and saves within {timeout:g} s; they stay in line.")

    # ---- checkpoints ----

    def save(self, state: Any, step: int, *, sharded: bool = False, pickle: bool = False) -> None:
        """Saves a checkpoint. Returns when the state is copied; it is durable once enough nodes have it (`durable_step`).

        state: a dict (or list, ...) of tensors of PyTorch, arrays of NumPy and plain values, nested as you like, for example
        ``{"model": model.state_dict(), "optimizer": opt.state_dict()}``. Tensors go into safetensors files.
        step: steps that the state has seen, an int or a whole number of NumPy or PyTorch.
        sharded: each rank saves a state of its own, a part of the checkpoint, and all ranks call it at the same place. The
            checkpoint is there once every part is stored; with a part missing it never is. `load` then gives each rank its own
            part, if the ranks are as many as before, and any part by its number. (For FSDP and DTensors see
            `shoal.torch_checkpoint`, which loads on any number of ranks.)
        pickle: allows values of other types, by pickle.

        Without `sharded` all ranks may call it with the same state; rank 0's is saved, and a rank with other keys in its state,
        or that has saved another number of times, is a CheckpointError on all ranks at the next `should_stop` or barrier.

        NotSerialisable names the path of what cannot be saved; CheckpointError: no memory, or the daemon has refused this save
        or the last one (a full disk). After an error all is as before: training may go on, and the next save works. An error of
        one rank with `sharded` is an error of all.
        """
        if os.getpid() != self._pid or self._closed:
            self._unusable("save")
        step = _step(step)
        if sharded and (self.size > 1 or self._link is not None):
            self._save_sharded(state, step, pickle)
            return
        self._saves = (self._saves[0] + 1, bytes(16), [])
        try:
            layout = _checkpoint.lay_out(state, step, pickle, self._steps)
            if self.size > 1:
                import hashlib

                names = sorted(layout.names())
                digest = hashlib.blake2b("\n".join(names).encode(), digest_size=16).digest()
                self._saves = (self._saves[0], digest, names)
            if self.rank == 0:
                self._save(layout, step)
        except MemoryError as error:
            raise CheckpointError(
                f"The checkpoint of step {step} is not saved, for no memory is left; training may go on."
            ) from error

    def _save_sharded(self, state: Any, step: int, pickle: bool) -> None:
        """Each rank's own state. All ranks learn what went wrong on one before any of them hands a part over."""
        layout, error = None, ""
        try:
            layout = _checkpoint.lay_out(state, step, pickle, self._steps)
        except (ShoalError, MemoryError) as wrong:
            error = str(wrong) or "no memory is left"
        number = int.from_bytes(os.urandom(8), "big") if self.rank == 0 else 0
        everyone = self.all_gather([step, error, number])
        for rank, (other, fault, _) in enumerate(everyone):
            if fault:
                raise CheckpointError(f"The checkpoint of step {step} is not saved; on rank {rank}: {fault}")
            if other != step:
                raise CheckpointError(
                    f"Rank {rank} saves step {other}, and rank {self.rank} step {step}; a checkpoint in parts is of one step."
                )
        assert layout is not None
        self._save(layout, step, Part(everyone[0][2], self.rank, self.size))

    def _save(self, layout: _checkpoint.Layout, step: int, part: Part | None = None) -> None:
        if self._link is None:
            assert self._alone is not None
            self._alone.save(layout, step)
            return
        self._sender.send()  # the daemon judges the checkpoint by the metrics that it has
        with self._link.locked():  # what is begun and not committed does not count, and the next save begins anew
            layout.write(self._link.save_begin(layout.bytes))
            self._link.save_commit(step, layout.cuts, part)

    def load(self, like: Any = None, *, part: int | None = None, map_location: Any = None, pickle: bool = False) -> Any:
        """The state of the newest durable checkpoint, as `save` got it, or None if there is none; `step` is its step.

        like: a state as it would be saved now; if the checkpoint's has other keys, shapes or types, CheckpointError names
        what differs. Without it, a checkpoint of another model fails in the model's own ``load_state_dict``.
        part: of a checkpoint that was saved with ``sharded=True``, the part of the rank that had this number; `parts` tells how
            many there are. None: this rank's own, where the ranks are as many as when it was saved; else a CheckpointError.
        map_location: device of the tensors; default: the processor. Tensors share memory that is mapped from a file.
        pickle: allows values that were saved with ``pickle=True``.

        CheckpointError: the checkpoint is damaged, or another program wrote it.
        """
        if os.getpid() != self._pid or self._closed:
            self._unusable("load")
        try:
            files = self._load_files(self._part_of(part))
            if files is None:
                return None
            state, step, reported = _checkpoint.read_state(files, pickle)
        except CheckpointError as error:
            raise CheckpointError(f"{error} {self._without_checkpoint()}") from error
        if like is not None:
            different = _checkpoint.differences(state, like)
            if different:
                raise CheckpointError(
                    f"The checkpoint of step {step} is of another state than this program's: {'; '.join(different)}."
                    f" {self._without_checkpoint()}"
                )
        self._loaded(step, reported)
        return _to_device(state, map_location) if map_location is not None else state

    def _loaded(self, step: int, reported: dict[str, int] | None) -> None:
        self.step = step
        self._steps, self._first = ({}, step) if reported is None else (reported, 0)

    def _without_checkpoint(self) -> str:
        """What to do about a checkpoint that is of no use."""
        if self._alone is None:
            get = f"shoal checkpoint get {self.experiment}/{self.trial} DIR"
            return f"A new experiment begins without it; `{get}` writes its files."
        place = os.path.join(self._alone.directory, "checkpoints")
        return f"Move it out of {place} to begin without it, or set SHOAL_RUN_DIR to another directory."

    @property
    def parts(self) -> int:
        """How many parts the checkpoint that `load` gives has: the number of ranks that saved it with ``sharded=True``. 0: it
        is a whole one, or there is none. CheckpointError."""
        if os.getpid() != self._pid or self._closed:
            self._unusable("parts")
        return self._link.parts() if self._link is not None else 0

    def _part_of(self, asked: int | None) -> int | None:
        """The part to load; None: the checkpoint is a whole one. CheckpointError."""
        parts = self.parts
        if asked is not None and not 0 <= asked < max(parts, 1):
            has = f"{parts} parts" if parts else "no parts: it is a whole one, or there is none"
            raise CheckpointError(f"There is no part {asked}; the checkpoint has {has}.")
        if parts == 0:
            return None
        if asked is None and parts != self.size:
            raise CheckpointError(
                f"The checkpoint has {parts} parts, each of another rank, and this trial has {self.size}"
                f" rank{'s' * (self.size != 1)}; load them one by one, run.load(part=0) to run.load(part={parts - 1}), or save"
                " and load sharded tensors with shoal.torch_checkpoint."
            )
        return self.rank if asked is None else asked

    def _load_files(self, part: int | None = None, ranges: list[tuple[int, int]] | None = None) -> _checkpoint.Files | None:
        if self._link is None:
            assert self._alone is not None
            found = self._alone.load()
            return None if found is None else found[0]
        opened = self._link.load(part, ranges) if ranges is not None else self._link.load(part)
        if opened is None:
            return None
        fd, count, _ = opened
        try:
            view = mmap.mmap(fd, count, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"The checkpoint of {count} bytes cannot be mapped: {error}.") from error
        finally:
            os.close(fd)
        return _checkpoint.open_files(memoryview(view))

    @contextlib.contextmanager
    def checkpoint_dir(self, step: int | None = None) -> Iterator[str]:
        """A directory to write a checkpoint's files into, for programs and frameworks that save by themselves::

            with run.checkpoint_dir(step=120) as path:
                model.save_pretrained(path)

        At the end of the block the directory is a checkpoint; after an exception it is gone. The next attempt finds the files
        of the newest in `restore_dir`. Rank 0 writes; on other ranks the directory is thrown away. The newest two, by their
        steps, stay on this machine's disk; older ones are removed once a new one is complete.

        step: steps that the files have seen; None: the directory's name has the time instead.
        """
        import shutil
        import tempfile

        if os.getpid() != self._pid or self._closed:
            self._unusable("checkpoint_dir")
        root = self._directory("SHOAL_CHECKPOINT_DIR", "checkpoints")
        number = _step(step) if step is not None else int(time.time() * 1000)
        try:
            beside = tempfile.mkdtemp(prefix=".shoal-", dir=os.path.dirname(os.path.abspath(root)))
        except OSError as error:
            raise CheckpointError(f"A directory for a checkpoint cannot be made beside {root}: {error.strerror}.") from error
        try:
            yield beside
            if self.rank == 0:
                self._keep(beside, os.path.join(root, f"step-{number}"))
                _directories.remove_old(root, number)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _keep(self, beside: str, path: str) -> None:
        """Makes a directory of files a checkpoint. An older one of this name is removed when the new one is in its place."""
        import shutil

        old = f"{beside}.old"
        try:
            os.chmod(beside, 0o755)
            if os.path.lexists(path):
                os.rename(path, old)
            try:
                os.rename(beside, path)
            except OSError:
                if os.path.lexists(old):
                    os.rename(old, path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise CheckpointError(f"The checkpoint {path} cannot be put into its place: {error.strerror}.") from error

    @property
    def durable_step(self) -> int:
        """Step of the newest checkpoint that enough nodes have; 0: none yet, or outside Shoal."""
        return self._link.durable_step() if self._link else 0

    # ---- the end ----

    def until(self, step: float) -> int | None:
        """How far the trial may go now, in a search that stops trials early: the length of the first rung behind `step`; the
        last rung's from there on, since the trial is done then. None: the experiment has no rungs, and the program goes as
        far as it likes.

        step: how far the trial has come, in the unit of ``searcher.max_length``: steps, or the epochs, seconds or other metric
        that the configuration names. At each rung the program reports its validation, which is compared with other trials'
        and decides whether the trial goes on::

            while (end := run.until(step)) is None or step < end:
                step = train(step, end or steps)
                run.report({"loss": validate()}, step=step, group="validation")
                if run.should_stop():
                    break

        Outside Shoal the rungs are those of SHOAL_RUNGS, ascending whole numbers with blanks between them.
        """
        if not self._rungs:
            return None
        return next((length for length in self._rungs if length > step), self._rungs[-1])

    def should_stop(self, sync: bool = True) -> bool:
        """Whether Shoal asks this trial to save and leave: a pause, a cancel, a preemption, ``shoal stop``.

        With several ranks all call it at the same place, and all get the same answer. With ``sync=False`` a rank asks for
        itself: ranks then see it at different steps. GroupBroken: a rank called something else, has ended, or did not call
        within five minutes, or the experiment's ``collective_timeout`` where it is set.
        """
        if os.getpid() != self._pid or self._closed:
            self._unusable("should_stop")
        if self._link is None:
            return False
        mine = self._link.should_stop()
        if self.size == 1 or not sync:
            return mine
        with self._watch("run.should_stop()"):
            asked = [head for head in self._meet("run.should_stop()", stop=mine) if head.stop]
        if asked:
            self._stop_reason = asked[0].reason.rstrip(b"\0").decode()
        return bool(asked)

    def should_prune(self) -> bool:
        """As `should_stop`, by the name of Optuna's ``trial.should_prune``: an objective then raises ``TrialPruned``, or
        returns."""
        return self.should_stop()

    @property
    def stop_reason(self) -> str:
        """Why `should_stop` is true: "pause", "stop", "cancel", "preempt" or "leave"; "" before."""
        if self._stop_reason or self._link is None:
            return self._stop_reason  # of the rank that was told first
        return self._link.stop_reason()

    # ---- ranks together ----

    def _meet(self, doing: str, *, stop: bool = False, root: int = 0, count: int = 0) -> list[_Head]:
        """All ranks exchange which call they make, whether one was asked to stop, and what each saved last. All raise the same
        GroupBroken if their calls differ, and the same CheckpointError if their saves do."""
        assert self._link is not None
        saves, digest, _ = self._saves
        reason = self._link.stop_reason().encode() if stop else b""
        mine = _HEAD.pack(_CALLS.index(doing), stop, reason, root, saves, digest, count)
        heads = [_Head(*_HEAD.unpack(each)) for each in self._link.all_gather(mine, doing)]
        calls = [_CALLS[head.call] + (f" of rank {head.root}" if head.root else "") for head in heads]
        for rank, call in enumerate(calls):
            if call != calls[0]:
                raise GroupBroken(f"Ranks made different calls: rank 0 {calls[0]}, rank {rank} {call}.")
        counted = {rank: head.saves for rank, head in enumerate(heads) if head.saves or rank == 0}
        digests = {head.digest for head in heads if any(head.digest)}
        if len(set(counted.values())) > 1 or len(digests) > 1:
            self._refuse_saves(counted)
        return heads

    def _refuse_saves(self, counted: dict[int, int]) -> NoReturn:
        """Ranks have saved another number of times, or different keys. All ranks come here, and begin to count anew."""
        mine, self._saves = self._saves[2], (0, bytes(16), [])
        everyone = [set(names) for names in self.all_gather(mine)]
        advice = "Rank 0's states are the ones that are saved; call run.save on all ranks alike, or on rank 0 only."
        for rank, count in counted.items():
            if count != counted[0]:
                times = f"rank 0 {counted[0]} times, rank {rank} {count} times"
                raise CheckpointError(f"Ranks have called run.save another number of times: {times}. {advice}")
        for rank, names in enumerate(everyone):
            more, less = sorted(names - everyone[0])[:3], sorted(everyone[0] - names)[:3]
            if names and (more or less):
                only = [f"only rank {rank} has {', '.join(more)}"] if more else []
                only += [f"only rank 0 has {', '.join(less)}"] if less else []
                raise CheckpointError(f"Ranks have called run.save with different states: {'; '.join(only)}. {advice}")
        raise CheckpointError(f"Ranks have called run.save with different states. {advice}")

    @contextlib.contextmanager
    def _watch(self, doing: str) -> Iterator[None]:
        """Around a call that waits for other ranks: what was reported before is on its way meanwhile."""
        self._sender.send()
        self._waits = time.monotonic(), doing
        try:
            yield
        except GroupBroken as error:
            advice = (
                f"Every rank has to call {doing} as often as the others"
                if error.is_of_calls
                else "Leave, and Shoal begins the next attempt from the newest checkpoint"
            )
            raise GroupBroken(f"{error} {advice}; reports and saves are kept.") from error
        finally:
            self._waits = None

    def _tend(self) -> None:
        """Looks after the connection, and tells of a call that waits for other ranks. On the thread of the reports."""
        assert self._link is not None
        self._link.pump()
        waits = self._waits
        if waits is not None and time.monotonic() - waits[0] >= TOLD_SECONDS:
            self._waits = None
            sentence = (
                f"rank {self.rank} has waited {TOLD_SECONDS:g} s in {waits[1]} for other ranks; all ranks have to call it."
            )
            print(f"shoal: {sentence}", file=sys.stderr, flush=True)

    def barrier(self) -> None:
        """Waits until all ranks have called it. GroupBroken."""
        self._together("run.barrier()")
        if self.size > 1 and self._link is not None:
            with self._watch("run.barrier()"):
                self._meet("run.barrier()")

    def all_gather(self, value: Any) -> list[Any]:
        """The plain values of all ranks, in rank order; for small things. GroupBroken, NotSerialisable."""
        self._together("run.all_gather()")
        mine = _plain(value)
        if self.size == 1 or self._link is None:
            return [_msgpack.unpack(mine)[0]]
        with self._watch("run.all_gather()"):
            widest = max(head.bytes for head in self._meet("run.all_gather()", count=len(mine)))
            parts = self._link.all_gather(mine.ljust(widest, b"\0"), "run.all_gather()")
        return [_msgpack.unpack(part)[0] for part in parts]

    def broadcast(self, value: Any = None, root: int = 0) -> Any:
        """The plain value of rank `root`, on all ranks. GroupBroken, NotSerialisable."""
        self._together("run.broadcast()")
        if not 0 <= root < self.size:
            raise ValueError(f"root is {root}; there are ranks 0 to {self.size - 1}.")
        mine = _plain(value) if self.rank == root else b""
        if self.size == 1 or self._link is None:
            return _msgpack.unpack(mine)[0]
        with self._watch("run.broadcast()"):
            heads = self._meet("run.broadcast()", root=root, count=len(mine))
            data = bytearray(mine.ljust(heads[root].bytes, b"\0"))
            self._link.broadcast(data, root, "run.broadcast()")
        return _msgpack.unpack(data)[0]

    def _together(self, doing: str) -> None:
        if os.getpid() != self._pid or self._closed:
            self._unusable(doing)
        if self._link is None and self.size > 1:
            raise ShoalError(f"{doing} outside Shoal is for one rank; with torchrun use torch.distributed.")

    def shard(self, count: int) -> range:
        """This rank's part of `count` items: parts are contiguous, in rank order, and cover all items once."""
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    # ---- open and closed ----

    def _unusable(self, what: str) -> NoReturn:
        call = f"run.{what.replace('run.', '').replace('()', '')}()"
        if os.getpid() != self._pid:
            raise ShoalError(
                f"{call} was called in a child process; call it in process {self._pid}, the one that called shoal.init() first."
            )
        raise ShoalError(f"{call} was called after run.close().")

    def close(self) -> None:
        """Waits until all is stored, at most a minute, then ends the connection. Called at the program's end."""
        if self._closed or os.getpid() != self._pid:
            return
        try:
            self.flush()
        except ShoalError as error:
            print(f"shoal: {error}", file=sys.stderr, flush=True)
        self._closed = True
        atexit.unregister(self.close)
        if self._alone is not None:
            self._alone.close()
        if self._link is not None:
            self._sender.end()
            self._link.close()
            os.environ.pop(HOLDER, None)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _step(value: Any) -> int:
    """A step of any type of whole numbers, those of NumPy and PyTorch too. ValueError."""
    is_truth = isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")
    try:
        step = int(operator.index(value))
    except TypeError:
        step = -1
    if is_truth or not 0 <= step < 1 << 64:
        raise ValueError(f"step is {value!r}; it has to be a whole number from 0.")
    return step


def _plain(value: Any) -> bytes:
    try:
        return _msgpack.pack(value)
    except (TypeError, RecursionError, OverflowError) as error:
        raise TypeError(f"Ranks exchange plain values only: {error}.") from error


def _to_device(state: Any, device: Any) -> Any:
    if hasattr(state, "to") and hasattr(state, "device"):
        return state.to(device)
    if isinstance(state, Mapping):
        moved = type(state)((key, _to_device(value, device)) for key, value in state.items())  # type: ignore[call-arg]
        if hasattr(state, "_metadata"):
            moved._metadata = state._metadata  # type: ignore[attr-defined]
        return moved
    if type(state) in (list, tuple):
        return type(state)(_to_device(value, device) for value in state)
    return state


_current: Run | None = None
_lock = threading.Lock()


def _after_fork() -> None:
    """In a child made by fork: a lock that another thread of the parent held would never be free."""
    global _lock
    _lock = threading.Lock()
    if _current is not None and _current._link is not None:
        _current._link.forget_threads()


os.register_at_fork(after_in_child=_after_fork)


@overload
def init(elastic: Literal[True]) -> ElasticRun: ...


@overload
def init(elastic: bool = False) -> Run: ...


def init(elastic: bool = False) -> Run:
    """The run of this process; a second call gives the same one, and so does a call in a child made by ``fork``.

    Inside Shoal it connects to the daemon of this machine; ranks do not wait for each other. Outside Shoal all calls work, for
    one rank: metrics and checkpoints go to a directory in ``./shoal-runs/``, which a line on standard error names; with that
    directory in SHOAL_RUN_DIR a later run goes on from its newest checkpoint.

    elastic: the run is an `ElasticRun`, whose group outlives its ranks; for experiments with ``min_slots`` or ``max_slots``.

    ShoalError: libshoal is missing, or the daemon does not answer; or the run was made without `elastic` before.
    """
    global _current
    with _lock:
        if _current is None or _current._closed:
            if elastic:
                from ._elastic import ElasticRun

                _current = ElasticRun()
            else:
                _current = Run()
        if elastic and not _current.is_elastic:
            raise ShoalError("shoal.init() was called before shoal.init(elastic=True); the first call has to ask for it.")
        return _current
