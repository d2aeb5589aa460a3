"""The search space of `shoal.search`: what each trial draws, in the words of the configuration file.

    space = {"lr": loguniform(1e-5, 1e-1), "width": integer(16, 1024, log=True), "dropout": uniform(0, 0.5, step=0.1),
             "act": choice(["relu", "gelu"])}

A value of another kind is the same in all trials. Maps may be nested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["choice", "integer", "loguniform", "uniform", "when"]

SEARCHED = ("categorical", "int", "double", "log")


def uniform(low: float, high: float, *, step: float | None = None) -> dict[str, Any]:
    """A number from `low` to `high`, all equally likely; with `step` one of low, low + step ... high.

    ValueError: `low` is not below `high`, or `step` is not above 0. The daemon refuses a step that does not lead to `high`.
    """
    _check(low, high)
    drawn = {"type": "double", "minval": float(low), "maxval": float(high)}
    return drawn if step is None else {**drawn, "step": float(_checked_step(step))}


def loguniform(low: float, high: float) -> dict[str, Any]:
    """A number from `low` to `high` with a uniform logarithm: for learning rates. ValueError: bounds not above 0."""
    _check(low, high)
    if low <= 0:
        raise ValueError(f"low is {low}; the bounds of loguniform have to be above 0.")
    return {"type": "log", "base": 10, "minval": round(math.log10(low), 9), "maxval": round(math.log10(high), 9)}


def integer(low: int, high: int, *, log: bool = False, step: int | None = None) -> dict[str, Any]:
    """A whole number from `low` to `high`, both included.

    log: even on the logarithm: for widths and batch sizes.
    step: one of low, low + step ... high. The daemon refuses a step that does not lead to `high`.

    ValueError: `low` is above `high`, or with `log` below 1; both `log` and `step`; a `step` that is no whole number from 1.
    """
    if int(low) != low or int(high) != high or low > high:
        raise ValueError(f"The bounds are {low} and {high}; integer needs whole numbers, the lower one first.")
    if log and (low < 1 or step is not None):
        raise ValueError(
            "integer has both log and step; leave one of them out."
            if low >= 1
            else f"low is {low}; with log it has to be at least 1."
        )
    drawn = {"type": "int", "minval": int(low), "maxval": int(high)}
    if log:
        return {**drawn, "log": True}
    return drawn if step is None else {**drawn, "step": int(_checked_step(step, whole=True))}


def choice(values: Sequence[Any]) -> dict[str, Any]:
    """One of `values`: plain values, lists or maps. ValueError: there are none."""
    if isinstance(values, str) or not len(values):
        raise ValueError(f"The values are {values!r}; choice needs a list of at least one value.")
    return {"type": "categorical", "vals": list(values)}


def when(conditions: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """A hyperparameter that a trial has only if earlier ones have these values, each a value or a list of such::

        space = {"opt": choice(["sgd", "adam"]), "momentum": when({"opt": "sgd"}, uniform(0.8, 0.99))}

    conditions: earlier hyperparameters, nested ones with dots; they are of `choice` or `integer`, or the same in all trials.
    value: what this module's functions give, or a plain value.

    ValueError: there are no conditions. In other trials the hyperparameter is not in `Run.hparams`.
    """
    if not conditions:
        raise ValueError("There are no conditions; when needs a map of names to values.")
    is_drawn = isinstance(value, Mapping) and value.get("type") in (*SEARCHED, "const")
    return {**(value if is_drawn else {"type": "const", "val": value}), "when": dict(conditions)}


def is_searched(space: Any) -> bool:
    """Whether anything in the space differs between trials."""
    if not isinstance(space, Mapping):
        return False
    return space.get("type") in SEARCHED or any(is_searched(value) for value in space.values())


def _checked_step(step: float, whole: bool = False) -> float:
    if not (math.isfinite(step) and step > 0 and (not whole or int(step) == step)):
        raise ValueError(f"step is {step}; it has to be a {'whole ' if whole else ''}number above 0.")
    return step


def _check(low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"The bounds are {low} and {high}; they have to be numbers, the lower one first.")
