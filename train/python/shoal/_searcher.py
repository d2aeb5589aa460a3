"""`Searcher`: the program of a search with ``searcher.name: custom`` (docs/python.md, "Searches of your own")."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from ._daemon import ANSWER_SECONDS, Daemon, Document, Lost, _Connection
from ._errors import NoDaemon, ShoalError

TOKEN = "SHOAL_SEARCHER_TOKEN"


@dataclass(frozen=True)
class Create:
    """A new trial. A value that is left out is drawn at random, the same each time; ``Create({})`` draws all of them."""

    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stop:
    """The trial is stopped: its workers save and leave, and it begins no more."""

    trial: int


@dataclass(frozen=True)
class Finish:
    """No trial is created any more. Those that are there go on to their ends."""


Action = Union[Create, Stop, Finish]
Actions = Union[Iterable[Action], None]


class Searcher:
    """A search of your own: a class that says, after each event, what is to happen.

    The program is started on the node that coordinates the search. When that node is lost, or the program ends, it is started
    again, there or elsewhere, and is told of all events again, in the same order; what it answered before stands. So what it
    answers may follow from the events alone: no clock, and random numbers of a fixed seed.
    """

    def __init__(self) -> None:
        self.trials: dict[int, dict[str, Any]] = {}
        """The values of all trials that were created so far, by number."""
        self._pending: list[list[Any]] = []
        self._daemon: Daemon | None = None

    def on_start(self) -> Actions:
        """The search begins."""
        return None

    def on_report(self, trial: int, step: int, metric: float) -> Actions:
        """The trial has trained for ``searcher.every`` more, and this is what it has reported of ``searcher.metric``.
        `reported` has its other metrics."""
        return None

    def on_end(self, trial: int, how: str, metric: float) -> Actions:
        """The trial is over: ``how`` is "completed", "failed" or "stopped", ``metric`` its last one, or NaN."""
        return None

    def reported(self, trial: int, step: int) -> dict[str, float]:
        """What the trial had last reported of each metric of group validation when it was at this step.

        The nodes that hold its points are asked. In a later life the same comes, unless these nodes are gone or a user has
        retried the trial meanwhile.
        """
        if self._daemon is None:
            raise ShoalError("shoal.Searcher.reported() is for on_report and on_end, while run() asks for events.")
        found: dict[str, float] = {}
        points: list[Document] = []
        arguments = {"experiment": os.environ["SHOAL_EXPERIMENT"], "trial": trial}
        for reply in self._daemon.replies("metrics", arguments, ANSWER_SECONDS, again=points.clear):
            points += reply.get("points") or []
        for point in points:
            if point.get("group") == "validation" and not point.get("void") and int(point["step"]) <= step:
                found.update({str(name): float(value) for name, value in (point.get("metrics") or {}).items()})
        return found

    def run(self) -> None:
        """Asks for events and answers them until the search is over. Call it last."""
        token = os.environ.get(TOKEN)
        if not token:
            raise ShoalError(
                "shoal.Searcher.run() is for the program of a search: name it in searcher.entrypoint of a configuration with"
                " searcher.name custom, and submit that."
            )
        daemon = self._daemon = Daemon(os.path.dirname(os.environ.get("SHOAL_SOCKET", "")) or None)
        answer: Document = {}
        while True:
            try:
                event = _turn(daemon, {"token": token, **answer})
            except (Lost, NoDaemon) as lost:
                sys.exit(f"shoal: {lost}")  # its successor is told of all events again
            actions, more = self._answer(event)
            answer = {"event": event["event"], "actions": actions, "more": more}

    def _answer(self, event: Document) -> tuple[list[list[Any]], bool]:
        kind, most = event["kind"], int(event["most"])
        self._learn(event.get("before"))
        if kind == "start":
            self._take(self.on_start())
        elif kind in ("report", "end"):
            trial = int(event["trial"])
            if isinstance(event.get("values"), dict):
                self.trials[trial] = event["values"]
            metric = float(event["metric"])
            if kind == "report":
                self._take(self.on_report(trial, int(event["step"]), metric))
            else:
                self._take(self.on_end(trial, str(event["how"]), metric))
        actions = self._pending[:most]
        if kind == "other":  # it only hears
            return [], False
        self._pending = self._pending[most:]
        return actions, bool(self._pending)

    def _learn(self, before: Any) -> None:
        for trial, values in before["created"] if before else []:
            if isinstance(values, dict):
                self.trials.setdefault(int(trial), values)

    def _take(self, actions: Actions) -> None:
        for action in actions if actions is not None else []:
            if isinstance(action, Create):
                self._pending.append(["create", dict(action.values)])
            elif isinstance(action, Stop):
                self._pending.append(["stop", action.trial])
            elif isinstance(action, Finish):
                self._pending.append(["finish"])
            else:
                raise TypeError(f"{action!r} is no action of a search; allowed are shoal.Create, shoal.Stop and shoal.Finish")


def _turn(daemon: Daemon, arguments: Document) -> Document:
    connection = _Connection(daemon, "searcher_turn", arguments)
    try:
        event: Document = connection.reply(None)["event"]
        return event
    finally:
        connection.close()
