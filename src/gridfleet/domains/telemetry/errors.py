"""Coded errors of telemetry queries."""

from typing import Final

from gridfleet.kernel.errors import ValidationFailed

__all__ = ["MAX_COLUMN_VALUES", "MAX_METRICS", "MAX_POINTS", "TooManyColumnValues", "TooManyMetrics", "TooManyPoints"]

MAX_POINTS: Final = 500_000
"""The most points of one JSON response; exports as CSV or NDJSON are unlimited."""

MAX_METRICS: Final = 100_000
"""The most metrics of one query, counted once for each layout. Each takes 10 µs, in which no other request is answered."""


MAX_COLUMN_VALUES: Final = 40_000
"""The most buckets of a response in columns, counted once for each column. Each takes 2 µs of the event loop, in turns."""


class TooManyMetrics(ValidationFailed):
    """The plant or device has more than `MAX_METRICS` metrics."""

    def __init__(self) -> None:
        super().__init__(f"The response would cover more than {MAX_METRICS:,} metrics.", ["metric: name one metric"])


class TooManyPoints(ValidationFailed):
    """The response has more than `MAX_POINTS` points, or their count is too much work.

    The details name a bucket that fits, if there is one.
    """

    def __init__(self, fitting_bucket: str | None) -> None:
        advice = f"bucket: ask for {fitting_bucket}" if fitting_bucket else "from: ask for a shorter range, or name one metric"
        super().__init__(f"The response would have more than {MAX_POINTS:,} points, or take too long to count.", [advice])


class TooManyColumnValues(ValidationFailed):
    """The columns have more than `MAX_COLUMN_VALUES` buckets together. The details name a bucket that fits, if there is one."""

    def __init__(self, fitting_bucket: str | None) -> None:
        advice = f"bucket: ask for {fitting_bucket}" if fitting_bucket else "from: ask for a shorter range, or fewer metrics"
        super().__init__(f"The columns would have more than {MAX_COLUMN_VALUES:,} buckets together.", [advice])
