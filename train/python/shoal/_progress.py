"""What a waiting program shows of an experiment: a bar on a terminal, a table in a notebook, else a line for each change."""

from __future__ import annotations

import importlib
import importlib.util
import math
import shutil
import sys
from types import TracebackType
from typing import IO, Any

ROWS_MAX = 20
BAR_CHARACTERS = 20
OVER = ("completed", "failed", "stopped", "cancelled")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plain(text: str) -> str:
    """Without control characters: names and texts come from other machines."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def summary(document: dict[str, Any]) -> tuple[str, int, int, str]:
    """State, trials that are over, trials in all, and the rest in words, of a reply to `wait`."""
    counts = document.get("trials") or {}
    total, done = counts.get("total") or 0, sum(counts.get(state) or 0 for state in OVER)
    words = [f"{counts[state]} {state}" for state in ("running", "queued", "paused", "failed", "stopped") if counts.get(state)]
    best = document.get("best")
    if best:
        words.append(f"best {plain(str(best.get('metric')))} {_number(best.get('value'))} (trial {best.get('trial')})")
    return str(document.get("state")), done, total, ", ".join(words)


class Progress:
    """Shows nothing; the base of the others. Used in a ``with`` block."""

    op = "wait"  # the stream that it is fed from

    def __init__(self, name: str) -> None:
        self.name = plain(name)

    def update(self, document: dict[str, Any]) -> None:
        """Takes the newest reply."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


class Lines(Progress):
    """A line of text for each change."""

    def __init__(self, name: str, out: IO[str]) -> None:
        super().__init__(name)
        self._out, self._last = out, ""

    def update(self, document: dict[str, Any]) -> None:
        state, done, total, words = summary(document)
        line = f"{self.name}: {state}, {done} of {total} trials over{', ' if words else ''}{words}"
        if line != self._last:
            self._last = line
            print(line, file=self._out, flush=True)


class Bar(Progress):
    """One line that is drawn again and again."""

    def __init__(self, name: str, out: IO[str]) -> None:
        super().__init__(name)
        self._out, self._drawn = out, 0

    def update(self, document: dict[str, Any]) -> None:
        state, done, total, words = summary(document)
        full = BAR_CHARACTERS * done // total if total else 0
        bar = "#" * full + "." * (BAR_CHARACTERS - full)
        line = f"{self.name} [{bar}] {done}/{total} {state}{', ' if words else ''}{words}"
        line = line[: max(shutil.get_terminal_size().columns - 1, 20)]
        self._out.write("\r" + line.ljust(self._drawn))
        self._out.flush()
        self._drawn = len(line)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._drawn:
            self._out.write("\n")
            self._out.flush()


class Table(Progress):
    """A table of the best and the running trials, which a notebook shows and updates in place."""

    op = "watch"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._handle: Any = None

    def update(self, document: dict[str, Any]) -> None:
        table = self._table(document["experiment"])
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display(table, display_id=True)
        else:
            self._handle.update(table)

    def _table(self, experiment: dict[str, Any]) -> Any:
        rich_table: Any = importlib.import_module("rich.table")
        text: Any = importlib.import_module("rich.text").Text

        metric, trials = experiment.get("metric") or "metric", experiment.get("trials") or []
        state, done, total, words = summary({**experiment, "trials": experiment.get("counts")})
        rows = chosen_rows(trials, metric, bool(experiment.get("smaller_is_better")))
        names = list(dict.fromkeys(name for trial in rows for name in trial.get("hyperparameters") or {}))
        table = rich_table.Table(title=text(f"{self.name}: {state}, {done} of {total} trials over"), caption=text(words))
        for heading in ("trial", "state", "step", metric, *names):
            table.add_column(text(plain(str(heading))))
        for trial in rows:
            hparams, value = trial.get("hyperparameters") or {}, metric_of(trial, metric)
            cells = [trial.get("index"), trial.get("state"), trial.get("step"), value, *(hparams.get(name) for name in names)]
            table.add_row(*(text("" if cell is None else plain(_number(cell))) for cell in cells))
        return table


def metric_of(trial: dict[str, Any], metric: str) -> float | None:
    """The trial's last value of the metric that trials are compared by, or None."""
    value = ((trial.get("metrics") or {}).get("validation") or {}).get(metric)
    return float(value) if isinstance(value, (int, float)) and not math.isnan(value) else None


def chosen_rows(trials: list[dict[str, Any]], metric: str, smaller_is_better: bool) -> list[dict[str, Any]]:
    """The rows that a table has room for: the best trials first, then those that run, then the others."""

    def order(trial: dict[str, Any]) -> tuple[int, float, int]:
        value = metric_of(trial, metric)
        if value is not None:
            return 0, value if smaller_is_better else -value, trial.get("index") or 0
        return 1 if trial.get("state") == "running" else 2, 0.0, trial.get("index") or 0

    return sorted(trials, key=order)[:ROWS_MAX]


def in_notebook() -> bool:
    """Whether this program is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def choose(name: str, progress: bool) -> Progress:
    """What fits where this program runs."""
    if not progress:
        return Progress(name)
    if in_notebook():
        return Table(name) if importlib.util.find_spec("rich") else Bar(name, sys.stdout)
    return Bar(name, sys.stderr) if sys.stderr.isatty() else Lines(name, sys.stderr)
