"""Buckets of energy: parts of a range that begin on quarters, hours, days or months of a time zone."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from gridfleet.kernel.clock import round_down, round_up

__all__ = ["QUARTER", "EnergyBucket", "buckets_in", "edges_of", "start_of_day"]

QUARTER: Final = timedelta(minutes=15)
"""The narrowest bucket. The offsets of all time zones are multiples of it since 1972."""


class EnergyBucket(StrEnum):
    """Width of a bucket of energy, in the time zone of the response."""

    QUARTER_HOUR = "15 minutes"
    HOUR = "1 hour"
    DAY = "1 day"
    MONTH = "1 month"


_WIDTHS: Final = {
    EnergyBucket.QUARTER_HOUR: QUARTER,
    EnergyBucket.HOUR: timedelta(hours=1),
    EnergyBucket.DAY: timedelta(days=1),
    EnergyBucket.MONTH: timedelta(days=30),
}


def buckets_in(start: datetime, end: datetime, bucket: EnergyBucket) -> int:
    """Return about how many buckets a range has; months count as 30 days."""
    return -((start - end) // _WIDTHS[bucket])


def edges_of(start: datetime, end: datetime, bucket: EnergyBucket, zone: ZoneInfo) -> list[datetime]:
    """Return the times in UTC at which buckets begin, ascending, and the end of the last one.

    The range grows to whole quarters of an hour. Its first and its last bucket are cut off at its ends. A day lasts from
    midnight to midnight, also if that takes 23 or 25 hours.
    """
    start, end = round_down(start, QUARTER), round_up(end, QUARTER)
    if bucket is EnergyBucket.QUARTER_HOUR:
        return [start + number * QUARTER for number in range((end - start) // QUARTER + 1)]
    following = _hours(start, zone) if bucket is EnergyBucket.HOUR else _dates(start, bucket, zone)
    edges = [start]
    for edge in following:
        if edge >= end:
            break
        if edge > edges[-1]:  # a date that a zone left out has no length
            edges.append(edge)
    return [*edges, end]


def _hours(start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the whole hours of the zone's clock after `start`; after a change by half an hour, the next one comes earlier."""
    hour, moment = timedelta(hours=1), start
    while True:
        offset = moment.astimezone(zone).utcoffset() or timedelta(0)
        moment = round_down(moment + offset, hour) + hour - offset
        yield moment


def _dates(start: datetime, bucket: EnergyBucket, zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the midnights after `start` that begin a day or a month."""
    day = start.astimezone(zone).date()
    if bucket is EnergyBucket.MONTH:
        day = day.replace(day=1)
    while True:
        day += timedelta(days=1) if bucket is EnergyBucket.DAY else timedelta(days=32)
        if bucket is EnergyBucket.MONTH:
            day = day.replace(day=1)
        yield start_of_day(day, zone)


def start_of_day(day: date, zone: ZoneInfo) -> datetime:
    """Return the time in UTC at which a day begins, a whole quarter of an hour.

    If midnight occurs twice, the day begins at the first one. If midnight is skipped, the day begins when the clocks change.
    """
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    # Local mean times, until 1972, had offsets of odd minutes.
    return round_down(midnight, QUARTER)
