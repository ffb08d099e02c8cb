"""Values of the service's counters in the test's own process."""

from prometheus_client import Counter


def value_of(counter: Counter) -> float:
    """Return the present value of a counter, or of one of its labels."""
    [metric] = counter.collect()
    return next(sample.value for sample in metric.samples if sample.name.endswith("_total"))
