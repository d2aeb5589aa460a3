"""The names that scripts for Determined's Core API use, on top of `shoal.init`::

    import shoal.determined as det

    with det.core.init() as core_context:
        core_context.train.report_training_metrics(steps_completed=10, metrics={"loss": loss})

Outside Shoal `get_cluster_info` gives None, and `core.init` a context of one rank.
"""

from . import core
from ._info import ClusterInfo, TrialInfo, get_cluster_info

LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"
"""For ``logging.basicConfig(format=...)``."""

__all__ = ["LOG_FORMAT", "ClusterInfo", "TrialInfo", "core", "get_cluster_info"]
