"""The service's clock, read in one place so that tests can change it, and the range of times that measurements can have."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["LONGEST_MONTH", "days_before", "measurable", "utc_now"]

LONGEST_MONTH: Final = timedelta(days=31, hours=1)
"""A month with 31 days in which clocks are set back, like October in Europe."""

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def days_before(moment: datetime, days: int) -> datetime:
    """Return the time `days` earlier, at the earliest the same time of 1970-01-01: an operator may configure a million days."""
    return moment - timedelta(days=min(days, (moment - _EARLIEST).days))


def measurable(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Return the part of a range in which measurements can lie, possibly empty: the years 1970 to 2199.

    Clients use the ends of the calendar for an open range. Arithmetic near them overflows.
    """
    return min(max(start, _EARLIEST), _LATEST), min(max(end, _EARLIEST), _LATEST)
