"""The mesh, from a script or a notebook: submit, follow, and read what trials have reported, written and saved.

    client = shoal.Client()
    experiment = client.submit("experiment.yaml")
    experiment.wait()
    best = experiment.best_trial()
    print(best.hparams, best.metrics("validation"))
    best.checkpoint().download("best")

It talks with the daemon of this machine through its local socket, and any node of the mesh tells the same. What a request
returns is a snapshot; ask again for newer facts. Each call may come from any thread. If the daemon is restarted, calls wait up
to 10 s for it and go on.

Errors, each one sentence: NoDaemon (none answers), NotFound (no such experiment, trial or checkpoint, or it was deleted),
ShoalError (anything else that the daemon refuses).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import math
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _checkpoint, _logs, _progress, _snapshot
from ._daemon import ANSWER_SECONDS, Daemon, Document, Late, Stop
from ._errors import CheckpointError, NoDaemon, NotFound, ShoalError

__all__ = ["Checkpoint", "Client", "Experiment", "Node", "Trial"]

_ID_DIGITS = 16
_PREFIX_DIGITS_MIN = 4
_NO_DAEMON = 3  # exit code of the command line
_CONFIG_FILE = "config"
_GROUPS = ("training", "validation", "test")  # they may be empty
_REASONS_MAX = 5  # that a wait tells


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        return None


@dataclass(frozen=True)
class Node:
    """A node of the mesh."""

    id: str
    """32 hexadecimal digits."""
    name: str
    label: str
    """The name, with digits of the id where several nodes have it."""
    address: str | None
    state: str
    """One of "alive", "suspect", "dead", "left", "evicted" and "void"."""
    slots: int
    version: str | None
    drained: bool
    """Whether it gets no new work."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a trial."""

    experiment: str
    trial: int
    step: int | None
    """Steps that it has seen; None: its program has not told."""
    attempt: int
    bytes: int
    durable: bool
    """Whether as many nodes have it as the configuration wants."""
    holders: list[str]
    """Labels of the nodes that have it."""
    path: str | None
    """Of a checkpoint that a program left in $SHOAL_CHECKPOINT_DIR its name there; None: `run.save` or libshoal wrote it."""
    _daemon: Daemon = field(repr=False, compare=False)

    @contextlib.contextmanager
    def _view(self) -> Iterator[memoryview]:
        """The bytes, mapped; tensors that are read from them may outlive the block."""
        if self.path is not None:
            reply, fd = self._daemon.ask_file("output_get", experiment=self.experiment, trial=self.trial)
        else:
            reply, fd = self._daemon.ask_file(
                "checkpoint_get", experiment=self.experiment, trial=self.trial, step=self.step or 0
            )
        try:
            mapped: Any = mmap.mmap(fd, int(reply["bytes"]), access=mmap.ACCESS_COPY) if reply["bytes"] else b""
        except (OSError, ValueError) as error:
            raise CheckpointError(f"The checkpoint of {reply['bytes']} bytes cannot be mapped: {error}.") from error
        finally:
            os.close(fd)
        yield memoryview(mapped)

    def download(self, directory: str | os.PathLike[str]) -> str:
        """Writes the checkpoint's files into `directory`, which is made, and returns its path.

        Of a checkpoint of `run.save` these are ``state.msgpack`` and ``NAME.safetensors`` for each part of the state; of one
        from $SHOAL_CHECKPOINT_DIR the program's own files; of a program in C the file ``checkpoint``. Files that are there
        are replaced. CheckpointError: a file cannot be written. NotFound: the checkpoint is gone.
        """
        place = os.path.abspath(os.fspath(directory))
        with self._view() as data:
            if self.path is not None:
                below = f"checkpoint/{self.path}"
                if not _snapshot.unpack(data, place, below):
                    raise NotFound(f"The checkpoint {self.path} is gone: its program has left a newer one.")
            elif _snapshot.entries(data) is not None:
                _snapshot.unpack(data, place)
            else:
                try:
                    os.makedirs(place, exist_ok=True)
                    _snapshot.write_file(os.path.join(place, "checkpoint"), data)
                except OSError as error:
                    raise CheckpointError(f"{place} cannot be written: {error.strerror or error}.") from error
        return place

    def load(self, *, pickle: bool = False) -> Any:
        """The state, as `run.save` got it; tensors lie on the processor. CheckpointError: another program wrote it.

        pickle: allows values that were saved with ``pickle=True``.
        """
        with self._view() as data:
            return _checkpoint.read_state(_checkpoint.open_files(data), pickle).state


class Trial:
    """A trial of an experiment, as it was when it was asked for."""

    def __init__(self, experiment: Experiment, row: Document) -> None:
        self.experiment = experiment
        self.number: int = int(row["index"])
        """From 0."""
        self.state: str = str(row["state"])
        """One of "queued", "running", "paused", "stopping", "stopped", "completed", "failed" and "cancelled"."""
        self.hparams: dict[str, Any] = row.get("hyperparameters") or {}
        """Hyperparameters by name; nested maps are dicts."""
        self.latest: dict[str, dict[str, float]] = row.get("metrics") or {}
        """The last value of each metric: group, then name."""
        self.step: int | None = row.get("step")
        """The last step that was reported; None before the first attempt."""
        self.attempt: int | None = row.get("attempt")
        """Number of the newest attempt, from 1; None before the first."""
        self.reason: str | None = row.get("reason")
        """Why the newest attempt ended, or could not begin."""
        self.error: str | None = _logs.error_of(row.get("tail") or "") if self.state == "failed" else None
        """Of a failed trial the last line of its traceback, else of its log; None: it has none."""
        self.nodes: list[str] = [str(slot.get("node_label") or slot.get("node_name")) for slot in row.get("slots") or []]
        """Labels of the nodes that run it, in rank order."""
        self._daemon = experiment._daemon

    def __repr__(self) -> str:
        return f"<Trial {self.number} of {self.experiment.name}: {self.state}>"

    def metrics(self, group: str | None = None, *, void: bool = False, points: int | None = None) -> Any:
        """All metric points that the trial has reported: a pandas.DataFrame if pandas is installed, else a list of dicts.

        group: "training", "validation", ...; None: all groups. NotFound: another word, of which there is no point.
        void: also the points beyond the step from which a later attempt went on.
        points: about so many sums over the whole of each attempt instead (1 to 10,000), which takes the node that holds the
        points some milliseconds, however many there are.

        Columns: attempt, generation, step, time (when the daemon got the point, in s since 1970; None in points of earlier
        versions), group, and one for each metric (a metric named as one of these has ``metric.`` before its name); with
        ``void=True`` also void. With ``points`` a metric has the columns ``NAME.count``, ``.min``, ``.max``, ``.mean`` and
        ``.last``; step and time are those of the last point in the sum. NaN counts, and is in no other column but ``last``.
        """
        found: list[Document] = []
        missing: list[Any] = []
        arguments: dict[str, Any] = {"experiment": self.experiment.id, "trial": self.number}
        if points is not None:
            arguments |= {"points": points, "void": void}
        for reply in self._daemon.replies("metrics", arguments, ANSWER_SECONDS, again=found.clear):
            found += reply.get("points") or []
            missing = reply.get("unreachable") or []
        if missing:
            warnings.warn(f"Points that only {', '.join(map(str, missing))} has are missing: it is unreachable.", stacklevel=2)
        groups = {str(point.get("group")) for point in found}
        if group is not None and group not in groups and group not in _GROUPS:
            known = ", ".join(sorted(groups)) or "none"
            raise NotFound(
                f"Trial {self.number} of {self.experiment.name} has reported no metrics of group {group!r}; it has: {known}."
            )
        rows = []
        for point in found:
            if (point.get("void") and not void) or group not in (None, point.get("group")):
                continue
            row = {name: point.get(name) for name in ("attempt", "generation", "step")}
            row["time"] = point["wall_ms"] / 1000 if point.get("wall_ms") else None
            row["group"] = point.get("group")
            if void:
                row["void"] = bool(point.get("void"))
            rows.append(row | {f"metric.{k}" if k in row else k: v for k, v in _columns(point.get("metrics") or {})})
        pandas = _pandas()
        return rows if pandas is None else pandas.DataFrame(rows)

    def logs(
        self,
        follow: bool = False,
        attempt: int | str | None = None,
        *,
        grep: str | None = None,
        since: float | None = None,
    ) -> Iterator[str]:
        """The lines that its workers have written, without their ends; where there are several workers a line begins with
        ``[rank=N] ``.

        follow: goes on, from the first attempt and over later ones, until the trial (with `attempt`: that attempt) is over.
        attempt: its number, or "all"; None: the newest one. NotFound: there is no such attempt, or it has no log.
        grep: only lines in which this pattern is, with ``. [a-z] ^ $ ( ) | * + ? \\d \\w \\s``; the node that holds the log
            searches.
        since: only lines that ended since, in s since 1970 (`time.time`).
        """
        yield from _logs.read(
            self._daemon, self.experiment.id, self.number, follow, attempt, pattern=grep, since_ms=since and int(since * 1000)
        )

    def stop(self) -> None:
        """Lets it save a checkpoint and leave for good, and the other trials go on. What it has reported and saved stays.

        ShoalError: it is over.
        """
        self._daemon.ask("stop", experiment=self.experiment.id, trial=self.number)

    def retry(self) -> None:
        """Lets it run again if it has failed or was stopped: from its newest checkpoint; its failures so far count no more.

        ShoalError: it runs or is completed, its experiment is cancelled, or what it saved is gone.
        """
        self._daemon.ask("retry", experiment=self.experiment.id, trial=self.number)

    def checkpoints(self) -> list[Checkpoint]:
        """Its checkpoints, the oldest first."""
        rows = self._daemon.ask("checkpoint_ls", experiment=self.experiment.id)["checkpoints"]
        found = [
            Checkpoint(
                experiment=self.experiment.id,
                trial=self.number,
                step=row.get("step"),
                attempt=int(row.get("attempt") or 0),
                bytes=int(row.get("bytes") or 0),
                durable=bool(row.get("durable")),
                holders=[str(holder.get("label") or holder.get("name")) for holder in row.get("holders") or []],
                path=row.get("path"),
                _daemon=self._daemon,
            )
            for row in rows
            if row.get("trial") == self.number
        ]
        return sorted(found, key=lambda each: (each.attempt, each.step or 0))

    def checkpoint(self, step: int | None = None) -> Checkpoint:
        """The checkpoint of `step`; None: the newest. NotFound."""
        found = self.checkpoints()
        if not found:
            raise NotFound(f"Trial {self.number} of {self.experiment.name} has no checkpoint (yet).")
        chosen = [each for each in found if step in (None, each.step)]
        if not chosen:
            steps = ", ".join(str(each.step) for each in found)
            raise NotFound(f"Trial {self.number} of {self.experiment.name} has no checkpoint of step {step}; it has: {steps}.")
        return chosen[-1]

    def row(self) -> dict[str, Any]:
        """The trial as one flat dict: ``number``, ``state``, ``reason``, ``attempt``, ``step``, ``hparams.NAME`` and
        ``GROUP.METRIC``."""
        row: dict[str, Any] = {name: getattr(self, name) for name in ("number", "state", "reason", "attempt", "step")}
        row.update(_flat("hparams", self.hparams))
        for group, metrics in self.latest.items():
            row.update({f"{group}.{name}": value for name, value in metrics.items()})
        return row


def _columns(metrics: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in metrics.items():
        if isinstance(value, Mapping):  # a sum
            yield from ((f"{name}.{part}", value.get(part)) for part in ("count", "min", "max", "mean", "last"))
        else:
            yield name, value


def _flat(prefix: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        return {prefix: value} if prefix != "hparams" else {}
    return {name: item for key, inner in value.items() for name, item in _flat(f"{prefix}.{key}", inner).items()}


def _row(experiment: Document, number: int) -> Document | None:
    for row in experiment.get("trials") or []:
        if row.get("index") == number:
            return dict(row)
    return None


class Experiment:
    """An experiment of the mesh. Its properties ask the daemon each time."""

    def __init__(self, daemon: Daemon, identity: str, name: str, config: Mapping[str, Any] | None = None) -> None:
        self._daemon = daemon
        self._config = dict(config) if config is not None else None
        self.id = identity
        """16 hexadecimal digits."""
        self.name = name

    def __repr__(self) -> str:
        return f"<Experiment {self.name}: {self.id}>"

    def _show(self) -> Document:
        shown: Document = self._daemon.ask("show", experiment=self.id)["experiment"]
        return shown

    @property
    def state(self) -> str:
        """One of "queued", "running", "paused", "completed", "failed" and "cancelled"."""
        return str(self._daemon.ask("wait", experiment=self.id)["state"])

    @property
    def config(self) -> dict[str, Any]:
        """The dict that `Client.submit` was given; of another experiment what the daemon tells of its configuration: name,
        ``searcher.metric``, ``searcher.smaller_is_better`` and ``resources.slots_per_trial``."""
        if self._config is not None:
            return self._config
        shown = self._show()
        return {
            "name": shown.get("name"),
            "searcher": {"metric": shown.get("metric"), "smaller_is_better": shown.get("smaller_is_better")},
            "resources": {"slots_per_trial": shown.get("slots_per_trial")},
        }

    @property
    def trials(self) -> list[Trial]:
        """All trials that have been made so far, in the order of their numbers."""
        return [Trial(self, row) for row in self._show().get("trials") or []]

    def trial(self, number: int) -> Trial:
        """One trial. NotFound."""
        shown = self._show()
        row = _row(shown, number)
        if row is None:
            count = len(shown.get("trials") or [])
            raise NotFound(f"{self.name} has no trial {number}; it has {count}, numbered from 0.")
        return Trial(self, row)

    def wait(self, timeout: float | None = None, progress: bool = True) -> str:
        """Waits until the experiment is over and returns its state: "completed", "failed" or "cancelled".

        timeout: seconds; after them TimeoutError, and the experiment goes on. None: no limit.
        progress: shows a bar on a terminal, a table in a notebook (a bar without rich), elsewhere a line on standard error for
        each change; at the end the reasons of trials that failed.

        ShoalError: the program of the search (searcher custom) is not started any more; the text says why.
        After KeyboardInterrupt the experiment goes on.
        """
        until = None if timeout is None else time.monotonic() + timeout
        shown = _progress.choose(self.name, progress)
        state = "unknown"
        halted: str | None = None
        replies = self._daemon.replies(shown.op, {"experiment": self.id}, until=until)
        try:
            with shown, contextlib.closing(replies):
                for reply in replies:
                    shown.update(reply)
                    last = reply["experiment"] if shown.op == "watch" else reply
                    state, halted = str(last["state"]), last.get("trouble") if last.get("halted") else None
            if halted:
                raise ShoalError(f"{self.name} goes no further: {halted}.")
            if progress:
                self._tell_failures()
        except Late as late:
            raise TimeoutError(f"{self.name} is still {state} after {timeout:g} s; it goes on.") from late
        except KeyboardInterrupt:
            _say(f"{self.name} runs on; client.experiment({self.id!r}) has it, .cancel() ends it")
            raise KeyboardInterrupt from None  # without the frames of the wait
        return state

    def _tell_failures(self) -> None:
        """Prints the reasons of failed trials, each once, and the error of the first."""
        try:
            failed = [trial for trial in self.trials if trial.state == "failed"]
        except (ShoalError, TimeoutError):
            return  # of an experiment that was deleted meanwhile, for example; the state is the answer
        numbers: dict[str, list[int]] = {}
        for trial in failed:
            numbers.setdefault(trial.reason or "for an unknown reason", []).append(trial.number)
        for reason, found in list(numbers.items())[:_REASONS_MAX]:
            which = f"trial {found[0]}" if len(found) == 1 else f"{len(found)} trials (the first is {found[0]})"
            _say(_progress.plain(f"{self.name}: {which} failed: {reason}"))
        if len(numbers) > _REASONS_MAX:
            _say(f"{len(numbers) - _REASONS_MAX} more reasons are in experiment.trials")
        if failed:
            first = failed[0]
            error = f"trial {first.number} ended with: {first.error}; " if first.error else ""
            _say(_progress.plain(f"{error}client.experiment({self.id!r}).trial({first.number}).logs() has the lines"))

    def _control(self, op: str, **arguments: Any) -> None:
        self._daemon.ask(op, experiment=self.id, **arguments)

    def pause(self) -> None:
        """Lets its trials save a checkpoint and leave, until `resume`."""
        self._control("pause")

    def resume(self) -> None:
        """Lets a paused experiment go on."""
        self._control("resume")

    def cancel(self) -> None:
        """Ends it for good. What its trials have reported and saved stays."""
        self._control("cancel")

    def extend(self, max_trials: int) -> None:
        """Gives a search further trials: `max_trials` is the number of all its trials then. An experiment that is over runs
        again; `wait` waits for it. ShoalError: a number that is not larger, or an experiment that gets none."""
        self._control("max_trials", max_trials=max_trials)

    def delete(self) -> None:
        """Ends it, and forgets its trials, metrics, logs and checkpoints on all nodes, for ever."""
        self._control("delete")

    def best_trial(self, metric: str | None = None, smaller_is_better: bool | None = None) -> Trial:
        """The trial with the best last value of a metric.

        metric: its name, of group "validation" or else of any group that has it, or ``GROUP/NAME``; None: that of the
        configuration.
        smaller_is_better: None: as the configuration says.

        NotFound: no trial has reported it; the sentence says so of trials that failed.
        """
        shown = self._show()
        wanted = metric if metric is not None else str(shown.get("metric"))
        smaller = bool(shown.get("smaller_is_better")) if smaller_is_better is None else smaller_is_better
        valued = []
        for row in shown.get("trials") or []:
            value = _value(row.get("metrics") or {}, wanted)
            if value is not None:
                valued.append((value if smaller else -value, row["index"], row))
        if not valued:
            groups = [item for row in shown.get("trials") or [] for item in (row.get("metrics") or {}).items()]
            known = ", ".join(sorted({f"{group}/{name}" for group, names in groups for name in names}))
            yet = "" if shown.get("state") in _progress.OVER else " (yet)"
            failures = _failures([Trial(self, row) for row in shown.get("trials") or []])
            reported = f"; reported are: {known or 'none'}." if known or not failures else ""
            raise NotFound(f"No trial of {self.name} has reported {wanted}{yet}{failures}{reported}")
        return Trial(self, min(valued, key=lambda each: each[:2])[2])

    def trials_dataframe(self) -> Any:
        """All trials as a pandas.DataFrame, a row each, with the columns of `Trial.row`. ImportError: pandas is not there."""
        pandas = _pandas()
        if pandas is None:
            raise ImportError(
                "pandas is not installed in this Python; install it, or use [trial.row() for trial in experiment.trials], which"
                " has the same rows as dicts."
            )
        return pandas.DataFrame([trial.row() for trial in self.trials])

    def logs(self, follow: bool = True) -> Iterator[str]:
        """The lines of all trials; where there are several a line begins with ``[trial=N] ``.

        follow: goes on until the experiment is over, and lines come as they are written; else one trial after the other.
        """
        shown = self._show()
        total = (shown.get("counts") or {}).get("total") or 0
        if not follow:
            for row in shown.get("trials") or []:
                yield from _labelled(Trial(self, row), total > 1)
        elif total == 1:
            yield from self.trial(0).logs(follow=True, attempt="all")
        else:
            merged = _logs.Merged()
            merged.add(lambda: self._trials_as_they_begin(merged))
            yield from merged

    def _trials_as_they_begin(self, merged: _logs.Merged) -> Iterator[str]:
        """A source without lines, which adds one for each trial that begins, and one for all that are over already: there may
        be thousands of these."""
        begun: set[int] = set()
        replies = self._daemon.replies("watch", {"experiment": self.id}, stop=merged.stop)
        with contextlib.closing(replies):
            for reply in replies:
                rows = reply["experiment"].get("trials") or []
                new = [Trial(self, row) for row in rows if row.get("attempt") is not None and row["index"] not in begun]
                begun.update(trial.number for trial in new)
                over = [trial for trial in new if trial.state in _progress.OVER]
                alone = [[trial] for trial in new if trial.state not in _progress.OVER]
                for trials in [over, *alone] if over else alone:
                    merged.add(functools.partial(_following, trials, merged.stop))
        yield from ()


def _failures(trials: list[Trial]) -> str:
    """How many trials have failed, and why the first has, behind a colon; "" if none has."""
    failed = [trial for trial in trials if trial.state == "failed"]
    if not failed:
        return ""
    count, total = len(failed), len(trials)
    which = f"all {total} trials" if count == total > 1 else f"{count} of {total} trials" if total > 1 else "its trial"
    return f": {which} failed: {failed[0].error or failed[0].reason or 'for an unknown reason'}"


def _say(sentence: str) -> None:
    print(f"shoal: {sentence}", file=sys.stderr, flush=True)


def _labelled(trial: Trial, is_one_of_several: bool) -> Iterator[str]:
    for line in trial.logs(attempt="all"):
        yield f"[trial={trial.number}] {line}" if is_one_of_several else line


def _following(trials: list[Trial], stop: Stop) -> Iterator[str]:
    """The lines of one trial after the other, up to `stop`."""
    for trial in trials:
        for line in _logs.read(trial._daemon, trial.experiment.id, trial.number, True, "all", stop=stop):
            yield f"[trial={trial.number}] {line}"


def _value(metrics: Mapping[str, Mapping[str, Any]], wanted: str) -> float | None:
    groups = sorted(metrics, key=lambda group: (group != "validation", group))
    for group in groups:
        for name, value in metrics[group].items():
            if wanted in (name, f"{group}/{name}") and isinstance(value, (int, float)) and not math.isnan(value):
                return float(value)
    return None


class Client:
    """The mesh, as the daemon of this machine sees it.

    directory: the daemon's data directory; None: $SHOAL_DIR, else the standard one of this machine.

    NoDaemon: none answers there.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._daemon = Daemon(directory)

    def __repr__(self) -> str:
        return f"<Client of {self._daemon.directory}>"

    def nodes(self) -> list[Node]:
        """All nodes that the daemon knows, also those that left."""
        return [
            Node(
                id=str(row.get("id")),
                name=str(row.get("name") or ""),
                label=str(row.get("label") or row.get("name") or ""),
                address=row.get("address"),
                state=str(row.get("state")),
                slots=int(row.get("slots") or 0),
                version=row.get("version"),
                drained=bool(row.get("drained")),
            )
            for row in self._daemon.ask("nodes")["nodes"]
        ]

    def experiments(self) -> list[Experiment]:
        """All experiments, the newest last."""
        rows = sorted(self._list()["experiments"], key=lambda row: (row.get("submitted_s") or 0, row["id"]))
        return [Experiment(self._daemon, row["id"], row.get("name") or "") for row in rows]

    def _list(self) -> Document:
        return self._daemon.ask("ls")

    def experiment(self, id_or_name: str) -> Experiment:
        """The experiment with this id, this name if one experiment alone has it, or this beginning of an id (at least 4).
        NotFound; ShoalError: several fit, or this node is still catching up with the others."""
        text, lower = str(id_or_name), str(id_or_name).lower()
        is_hex = re.fullmatch("[0-9a-f]+", lower) is not None
        if is_hex and len(lower) == _ID_DIGITS:
            shown = self._daemon.ask("show", experiment=lower)["experiment"]
            return Experiment(self._daemon, lower, shown.get("name") or "")
        listed = self._list()
        rows = listed["experiments"]
        is_prefix = is_hex and _PREFIX_DIGITS_MIN <= len(lower) < _ID_DIGITS
        found = [row for row in rows if row.get("name") == text or (is_prefix and row["id"].startswith(lower))]
        if len(found) == 1:
            return Experiment(self._daemon, found[0]["id"], found[0].get("name") or "")
        if found:
            ids = ", ".join(row["id"] for row in found[:4]) + (", ..." if len(found) > 4 else "")
            raise ShoalError(f"{len(found)} experiments fit {text!r}: {ids}; give one of these ids.")
        hint = " (the beginning of an id needs 4 digits)" if is_hex and len(lower) < _PREFIX_DIGITS_MIN else ""
        if listed.get("syncing"):
            raise ShoalError(
                f"This node knows no experiment with the name or id {text!r}{hint}, but is still catching up with the others;"
                " try again in some seconds."
            )
        raise NotFound(f"There is no experiment with the name or id {text!r}{hint}; client.experiments() has all.")

    def submit(
        self, config: Mapping[str, Any] | str | os.PathLike[str], files: str | os.PathLike[str] | None = None
    ) -> Experiment:
        """Starts an experiment, and returns once code and record are on disk here and, if there is one, on another node.

        config: the configuration as a dict, or the path of its YAML file.
        files: the directory whose files the program needs; it travels as by ``shoal submit`` (without what git ignores). None:
        the directory of the file, or for a dict no files.

        ShoalError: the configuration or the directory is refused; a sentence for each problem. TypeError: a value in `config`
        that JSON cannot hold. Needs the command ``shoal``.
        """
        with tempfile.TemporaryDirectory(prefix="shoal-submit-") as place:
            if isinstance(config, Mapping):
                given: Mapping[str, Any] | None = config
                _write_config(config, os.path.join(place, _CONFIG_FILE))
                path, context = _CONFIG_FILE, os.path.join(place, "empty")
                os.mkdir(context)
            else:
                given, path = None, os.path.abspath(os.fspath(config))
                context = os.path.dirname(path)
            if files is not None:
                context = os.path.abspath(os.fspath(files))
            identity = self._run_submit(place, path, context)
        found = self.experiment(identity)
        return Experiment(self._daemon, identity, found.name, given)

    def _run_submit(self, place: str, path: str, context: str) -> str:
        """Lets the command pack and send: it knows git's rules and the archive's format."""
        command = [find_command(), "submit", path, "--context", context, "--json", "--dir", self._daemon.directory]
        done = subprocess.run(command, cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        sentences = [
            re.sub(rf"^{_CONFIG_FILE}(:\d+)+: ", "", line.removeprefix("shoal: ")) for line in done.stderr.splitlines()
        ]
        if done.returncode != 0:
            kind = NoDaemon if done.returncode == _NO_DAEMON else ShoalError
            raise kind("\n".join(sentences) or f"shoal submit ended with status {done.returncode}.")
        for sentence in sentences:
            _say(sentence)
        return str(json.loads(done.stdout)["experiment"])


def _plain(value: Any) -> Any:
    """For numbers of NumPy and the like."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"The configuration holds a {type(value).__name__}, which is no plain value: {value!r:.80}.")


# YAML reads JSON, but not a character that is written as two surrogates.
_ESCAPE = re.compile(r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|.)")


def _wide(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0]
    return f"\\U{0x10000 + ((int(escape[1], 16) - 0xD800) << 10) + int(escape[2], 16) - 0xDC00:08x}"


def _write_config(config: Mapping[str, Any], path: str) -> None:
    try:
        text = json.dumps(dict(config), indent=1, default=_plain, allow_nan=False)
    except ValueError as error:
        raise ShoalError(f"The configuration cannot be written: {error}.") from error
    with open(path, "w", encoding="utf-8") as file:
        file.write(_ESCAPE.sub(_wide, text))


def find_command() -> str:
    """The path of the command ``shoal``: beside libshoal or on the PATH. ShoalError: it is in neither place."""
    library = os.environ.get("SHOAL_LIBRARY")
    places = [os.path.dirname(library)] if library else []
    places.append(os.path.join(os.path.dirname(__file__), "lib"))
    for place in places:
        for candidate in (os.path.join(place, "shoal"), os.path.join(place, "..", "bin", "shoal")):
            if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
                return os.path.abspath(candidate)
    found = shutil.which("shoal")
    if found is None:
        raise ShoalError("The command shoal is not on the PATH, and submitting needs it; install Shoal's package, or set PATH.")
    return found
