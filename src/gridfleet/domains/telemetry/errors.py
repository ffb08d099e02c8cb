"""Coded errors of telemetry queries."""

from typing import Final

from gridfleet.kernel.errors import ValidationFailed

__all__ = ["MAX_POINTS", "TooManyPoints"]

MAX_POINTS: Final = 500_000
"""Points of one JSON answer; exports as CSV or NDJSON have no cap."""


class TooManyPoints(ValidationFailed):
    """The answer would be larger than a client should hold; names a bucket that fits, where one does."""

    def __init__(self, fitting_bucket: str | None) -> None:
        advice = f"bucket: ask for {fitting_bucket}" if fitting_bucket else "from: ask for a shorter range, or name one metric"
        super().__init__(f"The answer would have more than {MAX_POINTS:,} points.", [advice])
