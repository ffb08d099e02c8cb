"""Coded errors of telemetry queries."""

from typing import Final

from gridfleet.kernel.errors import ValidationFailed

__all__ = ["MAX_POINTS", "TooManyPoints"]

MAX_POINTS: Final = 500_000
"""The most points of one JSON response; exports as CSV or NDJSON are unlimited."""


class TooManyPoints(ValidationFailed):
    """The response has more than `MAX_POINTS` points. The details name a bucket that fits, if there is one."""

    def __init__(self, fitting_bucket: str | None) -> None:
        advice = f"bucket: ask for {fitting_bucket}" if fitting_bucket else "from: ask for a shorter range, or name one metric"
        super().__init__(f"The response would have more than {MAX_POINTS:,} points.", [advice])
