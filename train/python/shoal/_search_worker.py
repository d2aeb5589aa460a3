"""A worker of `shoal.search`: ``python3 -m shoal._search_worker FILE METRIC`` calls the function that FILE holds."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from typing import Any

from ._run import Run, init


def load(path: str) -> Any:
    """The function. Ends the program with a sentence if this Python cannot have it."""
    with open(path, "rb") as file:
        shipped = pickle.load(file)
    here = tuple(sys.version_info[:2])
    if tuple(shipped["version"]) != here:
        theirs = ".".join(map(str, shipped["version"]))
        sys.exit(
            f"shoal: the function comes from Python {theirs}, and this worker's {sys.executable} is {here[0]}.{here[1]}, which"
            f" cannot run it; name an interpreter of version {theirs} with shoal.search(..., python=...)."
        )
    try:
        return pickle.loads(shipped["function"])
    except ModuleNotFoundError as error:
        sys.exit(
            f"shoal: the function needs the module {error.name}, which {sys.executable} of this machine lacks; name another"
            " interpreter with shoal.search(..., python=...), give the module's directory with files=..., or its package with"
            " environment.requirements in config=..."
        )


def report(run: Run, result: Any, metric: str) -> None:
    """Reports what the function has returned, if it is a number or a dict of numbers."""
    if run.rank != 0:
        return
    step = max(run._steps.values(), default=0)  # it is the result of all steps
    if isinstance(result, Mapping):
        run.report(result, step=step, group="validation")
    elif isinstance(result, (int, float)) or hasattr(result, "item"):
        run.report({metric: result}, step=step, group="validation")
    elif result is not None:
        print(
            f"shoal: the function has returned a value of type {type(result).__name__}, which is neither a number nor a dict of"
            " numbers, so it is not reported.",
            file=sys.stderr,
        )


def main(arguments: list[str]) -> None:
    path, metric = arguments
    function = load(path)
    with init() as run:
        run._metric = metric
        try:
            report(run, function(run), metric)
        except Exception as error:
            if type(error).__name__ != "TrialPruned":  # Optuna's, which need not be installed here
                raise
            print("shoal: the function has pruned its trial; what it has reported counts.", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
