"""Metrics of an embedding space for a training loop, as torchmetrics modules.

`ClosestIsPositiveAccuracy` asks of each embedding whether its nearest other one has its label, `MedianDistances` how
far apart embeddings are. Both score each batch, or a memory of the newest embeddings across batches. They need the
extra ``nearwise[metrics]`` (torch and torchmetrics).
"""

try:
    import torchmetrics as _torchmetrics  # noqa: F401
except ModuleNotFoundError as error:  # pragma: no cover - depends on the environment
    raise ModuleNotFoundError(
        "nearwise.metrics needs torch and torchmetrics: pip install 'nearwise[metrics]'", name=error.name
    ) from error

from nearwise.metrics.closest_is_positive import ClosestIsPositiveAccuracy
from nearwise.metrics.median_distances import MedianDistances
from nearwise.metrics.state import MetricState

__all__ = ["ClosestIsPositiveAccuracy", "MedianDistances", "MetricState"]
