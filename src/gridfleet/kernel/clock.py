"""The service's clock: one place to read it, so that a test can move it. And the times at which something can be measured."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["days_before", "measurable", "utc_now"]

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Now, aware, in UTC."""
    return datetime.now(UTC)


def days_before(moment: datetime, days: int) -> datetime:
    """Return the moment `days` earlier, or the same time of 1970-01-01: an operator may keep things for a million days."""
    return moment - timedelta(days=min(days, (moment - _EARLIEST).days))


def measurable(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Return the part of a range in which measurements can lie, possibly empty: the years 1970 to 2199.

    Near the ends of the calendar, where clients put an open range, arithmetic overflows.
    """
    return min(max(start, _EARLIEST), _LATEST), min(max(end, _EARLIEST), _LATEST)
