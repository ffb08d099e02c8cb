"""A histogram for what happens thousands of times a second.

It shows like any other Prometheus histogram, and counts in a quarter of a microsecond where the library's takes ten times
that. It belongs to one thread, the event loop's; reading it from another is allowed.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

__all__ = ["Timings"]

BOUNDS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Timings:
    """Seconds, in buckets, by labels."""

    _type = "histogram"

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: tuple[str, ...],
        bounds: tuple[float, ...] = BOUNDS,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """`bounds` are the buckets' upper ends in seconds, rising."""
        self._name = name
        self._documentation = documentation
        self._labelnames = labels
        self._bounds = bounds
        self._ends = [*map(floatToGoString, bounds), "+Inf"]
        self._children: dict[tuple[str | int, ...], list[float]] = {}
        registry.register(self)

    def observe(self, seconds: float, *labels: str | int) -> None:
        """Counts one; `labels` are the values in the order of their names."""
        try:
            child = self._children[labels]
        except KeyError:
            child = self._children[labels] = [0.0] * (len(self._bounds) + 2)
        child[bisect_left(self._bounds, seconds)] += 1
        child[-1] += seconds

    def describe(self) -> Iterator[HistogramMetricFamily]:
        """The metric without its figures."""
        yield HistogramMetricFamily(self._name, self._documentation, labels=self._labelnames)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The metric as the library shows it."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labelnames)
        for labels, child in list(self._children.items()):
            buckets = list(zip(self._ends, accumulate(child[:-1]), strict=True))
            family.add_metric([str(label) for label in labels], buckets, child[-1])
        yield family
