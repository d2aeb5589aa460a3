"""`shoal.search`: a function of a script or a notebook as the trials of a search."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ._errors import ShoalError
from ._run import Run
from .client import Client, Experiment
from .space import is_searched

FUNCTION_FILE = "shoal_function.pickle"
RULES = (".gitignore", ".shoalignore")  # they are not read through links


def search(
    function: Callable[[Run], Any],
    space: Mapping[str, Any] | None = None,
    *,
    metric: str = "loss",
    mode: str = "min",
    trials: int | None = None,
    searcher: str | Mapping[str, Any] | None = None,
    max_length: int | Mapping[str, int] | None = None,
    sampler: str | None = None,
    initial: Sequence[Mapping[str, Any]] = (),
    warm_start: Sequence[str | Experiment] = (),
    slots: int = 1,
    name: str | None = None,
    files: str | os.PathLike[str] | None = None,
    python: str | None = None,
    config: Mapping[str, Any] | None = None,
    client: Client | None = None,
    wait: bool = True,
) -> Experiment:
    """Runs ``function(run)`` once for each trial, on the machines of the mesh, and returns the experiment::

        from shoal.space import loguniform

        def train(run):
            ...
            run.report({"loss": loss}, step=step + 1, group="validation")

        best = shoal.search(train, {"lr": loguniform(1e-5, 1e-1)}, metric="loss", trials=16).best_trial()

    The function is shipped by cloudpickle, with the values that it refers to; modules that it imports have to be on the other
    machines, in `files`, or in ``environment.requirements`` of `config`. It gets the `Run` of the trial; `run.hparams` are
    what the searcher has drawn. Trials are compared by the validation metric `metric`; a number that the function returns is
    reported as that metric, a dict as several. An objective of Optuna is such a function: ``run.suggest_float`` and the like
    give the values, ``run.report(value, step)`` reports the metric, and ``run.should_prune()`` is `Run.should_stop`.

    Each machine imports once what the function imports, and forks its trials from that process (``environment.warm``), so
    short trials begin at once. Where that cannot be, the first line of a trial's log says why.

    space: hyperparameters, as the configuration has them; `shoal.space` has helpers. None: none.
    mode: "min" or "max": whether a lower or a higher metric is better.
    trials: how many; needed if anything in the space is searched.
    searcher: "random"; "tpe", which draws trials where earlier ones did well; "asha" or "adaptive_asha", which stop bad trials
    early; or a map with this ``name``, "pbt" among them, and further keys of the configuration's searcher, such as
    ``{"name": "asha", "num_rungs": 4, "divisor": 3}``. None: random. With a searcher that stops trials the function
    reports the metric as it trains, asks ``run.until(step)`` how far it may go, and returns when ``run.should_stop()`` says so.
    max_length: how long a trial that is never stopped trains: steps, or ``{"epochs": 20}``, by a metric that it reports.
    sampler: "random"; "sobol", which fills the space more evenly; or "tpe", beside a searcher that stops trials, which draws
    where earlier trials did well. None: random.
    initial: own values for the first trials, such as ``[{"lr": 1e-3}]``; what one leaves out is drawn.
    warm_start: earlier experiments with the same space, or their names: the values of their best trials are those of the next
    trials, as many as a quarter of all, and 16 at most.
    slots: workers (GPUs, processors) of each trial; each of them calls the function.
    name: of the experiment; None: the function's.
    files: a directory that travels with the function; trials begin in a copy of it.
    python: the interpreter of the workers; None: the one that runs here, on machines that have its path (with a virtual
    environment its packages, too), elsewhere ``pythonX.Y``, of the same version, as cloudpickle needs it. With
    ``environment.requirements`` it makes the virtual environment that has them, unless ``environment.python`` is another.
    config: further keys of the configuration, such as ``{"resources": {"slot_kind": "cuda"}}``.
    client: None: ``Client()``.
    wait: shows the trials until all are over (an interrupt leaves them running); False: returns at once.

    ShoalError: cloudpickle is missing, or the configuration is refused. TypeError, ValueError: an argument. NoDaemon.
    """
    if not callable(function):
        raise TypeError(
            f"function is {function!r:.80}, which cannot be called; give a function of the run: def train(run): ..."
        )
    if mode not in ("min", "max"):
        raise ValueError(f'mode is {mode!r}; allowed are "min" and "max".')
    searched = is_searched(space)
    if searched and trials is None:
        raise ValueError("The space is to be searched; say with how many trials: trials=16.")
    if not searched and trials not in (None, 1):
        raise ValueError(f"trials is {trials}, but nothing in the space differs between trials; use shoal.space, or trials=1.")
    keys: dict[str, Any] = {"name": searcher} if isinstance(searcher, str) else dict(searcher or {})
    drawn = _drawn(keys, max_length, sampler, initial, warm_start)
    if drawn and not searched:
        first = next(iter(drawn))
        raise ValueError(f"{first} is {drawn[first]!r}, but nothing in the space is drawn; use shoal.space.")
    keys = {"name": "random" if searched else "single", "metric": metric, "smaller_is_better": mode == "min", **drawn}
    if searched:
        keys["max_trials"] = trials
    shipped = _pickle(function)
    called = name or re.sub(r"[^A-Za-z0-9_.-]+", "-", getattr(function, "__name__", "search")).strip("-") or "search"
    whole: dict[str, Any] = {
        "name": called,
        "entrypoint": _entrypoint(python, metric, config or {}),
        "hyperparameters": dict(space or {}),
        "searcher": keys,
        "resources": {"slots_per_trial": slots},
        "context": {"links": "follow"},
        "environment": {"warm": True},
    }
    if _has_requirements(config or {}):
        whole["environment"]["python"] = python or _standard()
    with tempfile.TemporaryDirectory(prefix="shoal-search-") as place:
        _gather(Path(place), shipped, None if files is None else Path(files))
        experiment = (client or Client()).submit(_merged(whole, config or {}), place)
    if wait:
        print(f"shoal: {called} is experiment {experiment.id}", file=sys.stderr, flush=True)
        experiment.wait()
    return experiment


def _drawn(
    searcher: Mapping[str, Any],
    max_length: int | Mapping[str, int] | None,
    sampler: str | None,
    initial: Sequence[Mapping[str, Any]],
    warm_start: Sequence[str | Experiment],
) -> dict[str, Any]:
    """The keys of a searcher that mean nothing unless something is drawn."""
    keys = dict(searcher)
    if max_length is not None:
        keys["max_length"] = dict(max_length) if isinstance(max_length, Mapping) else max_length
    if sampler is not None:
        keys["sampler"] = sampler
    if initial:
        keys["initial"] = [dict(values) for values in initial]
    if warm_start:
        keys["warm_start"] = [getattr(earlier, "id", earlier) for earlier in warm_start]
    return keys


def _standard() -> str:
    """The name of an interpreter of the version that runs here."""
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def _has_requirements(config: Mapping[str, Any]) -> bool:
    environment = config.get("environment")
    return isinstance(environment, Mapping) and bool(environment.get("requirements"))


def _entrypoint(python: str | None, metric: str, config: Mapping[str, Any]) -> list[str] | str:
    """The command of the workers: a list of words, or a line of the shell that chooses the interpreter on each machine."""
    arguments = ["-m", "shoal._search_worker", FUNCTION_FILE, metric]
    if _has_requirements(config):
        return ["python", *arguments]  # that of the virtual environment, which is first on the PATH
    if python is not None or not sys.executable:
        return [python or _standard(), *arguments]
    major, minor = sys.version_info[:2]
    # On another machine the same path may be of another version.
    check = shlex.quote(f"import sys; sys.exit(sys.version_info[:2] != ({major}, {minor}))")
    return f'p={shlex.quote(sys.executable)}; "$p" -c {check} 2>/dev/null || p={_standard()}; exec "$p" {shlex.join(arguments)}'


def _pickle(function: Callable[[Run], Any]) -> bytes:
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError as error:
        raise ShoalError(
            "shoal.search ships the function by cloudpickle, which is missing; pip install cloudpickle."
        ) from error
    try:
        return pickle.dumps({"version": tuple(sys.version_info[:2]), "function": cloudpickle.dumps(function)})
    except Exception as error:  # of any kind: code of the values runs
        raise ShoalError(
            f"The function cannot be shipped: {error}. Make what it refers to (files, locks, connections) inside of it."
        ) from error


def _gather(place: Path, shipped: bytes, files: Path | None) -> None:
    """A directory with the function, cloudpickle (the version that packed has to unpack), and links to the files, which are
    followed when they are sent."""
    if files is not None:
        if not files.is_dir():
            raise ShoalError(f"files is {files}, which is no directory.")
        for entry in files.resolve().iterdir():
            if entry.name in RULES:
                shutil.copy(entry, place / entry.name)
            elif entry.name != ".git":
                (place / entry.name).symlink_to(entry)
    package = Path(str(importlib.import_module("cloudpickle").__file__)).parent
    if not (place / package.name).exists():
        shutil.copytree(package, place / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    if (place / FUNCTION_FILE).is_symlink():
        (place / FUNCTION_FILE).unlink()
    (place / FUNCTION_FILE).write_bytes(shipped)
    with open(place / RULES[1], "a", encoding="utf-8") as rules:  # a rule such as *.pickle must not leave these out
        rules.write(f"\n!/{FUNCTION_FILE}\n!/{package.name}/\n")


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in more.items():
        inner = out.get(key)
        out[key] = _merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return out
