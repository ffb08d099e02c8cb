"""The service's clock, read in one place so that tests can change it, and the range of times that measurements can have."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["EPOCH", "LONGEST_MONTH", "days_before", "measurable", "round_down", "round_up", "utc_now", "whole_milliseconds"]

LONGEST_MONTH: Final = timedelta(days=31, hours=3)
"""A month with 31 days in which clocks are set back, at most by three hours, like March of 2019 at Casey Station."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


def days_before(moment: datetime, days: int) -> datetime:
    """Return the time `days` earlier, at the earliest the same time of 1970-01-01: an SRE may configure a million days."""
    return moment - timedelta(days=min(days, (moment - EPOCH).days))


def whole_milliseconds(moment: datetime) -> datetime:
    """Round down to milliseconds, the precision of messages."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def measurable(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Return the part of a range in which measurements can lie, possibly empty: the years 1970 to 2199.

    Clients use the ends of the calendar for an open range. Arithmetic near them overflows.
    """
    return min(max(start, EPOCH), _LATEST), min(max(end, EPOCH), _LATEST)


def round_down(moment: datetime, width: timedelta) -> datetime:
    """Return the last whole multiple of `width` since the epoch that is not after a time."""
    return moment - (moment - EPOCH) % width


def round_up(moment: datetime, width: timedelta) -> datetime:
    """Return the first whole multiple of `width` since the epoch that is not before a time."""
    return moment + (EPOCH - moment) % width
