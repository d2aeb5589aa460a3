"""What a training program says to Shoal: metrics, checkpoints, and whether it is to leave.

    import shoal

    run = shoal.init()
    state = run.load()
    ...
    for step in range(run.step, steps):
        ...
        run.report({"loss": loss}, step=step + 1)
        run.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, step=step + 1)
        if run.should_stop():
            break

Outside Shoal the same program runs alone. Nothing else is imported before it is needed: neither PyTorch nor NumPy.

A script or a notebook that submits and looks on uses `Client` (shoal.client) and `search`. The program of
a search of your own is a `Searcher`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import CheckpointError, DaemonLost, GroupBroken, NoDaemon, NotFound, NotSerialisable, ShoalError, StepLost
from ._run import Hparams, Run, init

if TYPE_CHECKING:
    from . import space
    from . import torch as torch
    from ._elastic import ElasticRun
    from ._search import search
    from ._searcher import Create, Finish, Searcher, Stop
    from .client import Client

__all__ = [
    "CheckpointError",
    "Client",
    "Create",
    "DaemonLost",
    "ElasticRun",
    "Finish",
    "GroupBroken",
    "Hparams",
    "NoDaemon",
    "NotFound",
    "NotSerialisable",
    "Run",
    "Searcher",
    "ShoalError",
    "StepLost",
    "Stop",
    "init",
    "search",
    "space",
]
__version__ = "0.1.0"

_LAZY = {
    "Client": ".client",
    "ElasticRun": "._elastic",
    "search": "._search",
    **dict.fromkeys(("Create", "Finish", "Searcher", "Stop"), "._searcher"),
}


def __getattr__(name: str) -> Any:
    """What only some programs use is imported when it is first used."""
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name], __name__), name)
    elif name in ("client", "space", "torch"):
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    globals()[name] = value
    return value
