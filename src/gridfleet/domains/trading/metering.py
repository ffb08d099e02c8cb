"""A plant's metered energy, from its ESM if it is linked to one, else from its own meters."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.telemetry.energy.arithmetic import limited
from gridfleet.domains.telemetry.energy.metering import MeteredEnergy, metered_energy, metered_rows
from gridfleet.domains.trading.esm.client import EsmClient, EsmFailed
from gridfleet.domains.trading.esm.messages import EsmReading
from gridfleet.domains.trading.models import MeterRow
from gridfleet.domains.trading.plans import LinkedPlant, refusal
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import LONGEST_MONTH, measurable, round_down
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["MOST_ROWS", "checked_range", "esm_meters", "in_buckets", "own_meters"]

MOST_ROWS: Final = 200_000
"""The most readings of a plant's own meters in one response, which is built in memory: those of four meters for a month."""

_MINUTE: Final = timedelta(minutes=1)
_TOLERANCE_MINUTES: Final = 1e-3
_USUAL_SPAN: Final = timedelta(hours=24)
_FIRST: Final = datetime.min.replace(tzinfo=UTC)


def checked_range(start: datetime | None, end: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """Return the requested range. An open end means `now`, an open start 24 hours before the end.

    Raises:
        ValidationFailed: The range is empty or too long.
    """
    until = end or now
    since = start or max(until, _FIRST + _USUAL_SPAN) - _USUAL_SPAN
    if since >= until:
        raise ValidationFailed(details=["from: must be before to"])
    if until - since > LONGEST_MONTH:
        raise ValidationFailed(details=["from: must be at most 31 days and three hours before to"])
    return since, until


async def esm_meters(
    esm: EsmClient, plant: LinkedPlant, start: datetime, end: datetime, bucket_minutes: float
) -> list[MeterRow]:
    """Return the readings of the ESM's meters.

    Args:
        bucket_minutes: Width of the buckets that finer readings are added up to.

    Raises:
        PlantNotLinked: The ESM does not have the plant.
        EsmSilent: The ESM gave no valid response.
    """
    start, end = measurable(start, end)
    if start == end:
        return []

    def rows(readings: list[EsmReading]) -> list[MeterRow]:
        wanted = [one for one in readings if start <= one.time and one.interval <= (end - one.time) / _MINUTE]
        return sorted(in_buckets(plant.id, wanted, bucket_minutes), key=lambda row: (row.time, row.meter_id))

    try:
        return await esm.readings(plant.access, plant.external_id, start, end, rows)
    except EsmFailed as error:
        raise refusal(error) from error


def in_buckets(plant_id: UUID, readings: Iterable[EsmReading], bucket_minutes: float) -> Iterator[MeterRow]:
    """Add readings up to buckets that are aligned to the epoch. Only buckets that are covered completely are returned.

    The energy of a reading across two buckets is divided between them by time. Readings that are not finer than the buckets are
    returned unchanged. Of several readings of a meter with the same time, the last one is used.
    """
    width = timedelta(minutes=bucket_minutes)
    buckets: dict[tuple[str, datetime], list[EsmReading]] = {}
    for (meter_id, time), reading in {(one.meter_id, one.time.astimezone(UTC)): one for one in readings}.items():
        if reading.interval >= bucket_minutes:
            yield MeterRow(time, plant_id, meter_id, _plain(reading.interval), reading.energy)
            continue
        for part in _divided(reading, time, round_down(time, width) + width - time):
            buckets.setdefault((meter_id, round_down(part.time, width)), []).append(part)
    for (meter_id, start), parts in buckets.items():
        if _cover(parts, start, bucket_minutes):
            energy = 0.0
            for part in parts:
                energy = limited(energy + part.energy)
            yield MeterRow(start, plant_id, meter_id, _plain(bucket_minutes), round(energy, 6))


def _divided(reading: EsmReading, time: datetime, rest: timedelta) -> Iterator[EsmReading]:
    """Yield the part of a reading in its bucket, which ends after `rest`, and the part beyond unless it is negligible."""
    before = rest / _MINUTE
    beyond = reading.interval - before
    if beyond <= _TOLERANCE_MINUTES:
        yield EsmReading(time, reading.meter_id, reading.interval, reading.energy)
        return
    later = reading.energy * (beyond / reading.interval)
    yield EsmReading(time, reading.meter_id, before, reading.energy - later)
    yield EsmReading(time + rest, reading.meter_id, beyond, later)


def _cover(parts: Iterable[EsmReading], start: datetime, minutes: float) -> bool:
    """Return whether the readings cover exactly `minutes` minutes from `start`, without gaps or overlaps."""
    covered = 0.0
    for part in sorted(parts, key=lambda part: part.time):
        if abs((part.time - start) / _MINUTE - covered) > _TOLERANCE_MINUTES:
            return False
        covered += part.interval
    return abs(covered - minutes) <= _TOLERANCE_MINUTES


async def own_meters(
    db: Connection, org: OrgScope, plant_id: UUID, start: datetime, end: datetime, bucket_minutes: float
) -> list[MeterRow]:
    """Return the readings of the plant's METER sub-devices in kWh, by time, then external id.

    Raises:
        PlantNotFound: There is no such plant.
        ValidationFailed: There are more than `MOST_ROWS` readings, or more than five times as many buckets would be computed.
    """
    width, interval = timedelta(minutes=bucket_minutes), _plain(bucket_minutes)

    def row_of(one: MeteredEnergy) -> MeterRow:
        return MeterRow(one.start, plant_id, one.external_id, interval, one.energy)

    advice = "from: ask for a shorter range, or for wider buckets"
    return await metered_rows(metered_energy(db, org, plant_id, start, end, width, most=MOST_ROWS, advice=advice), row_of)


def _plain(minutes: float) -> float:
    return int(minutes) if minutes == int(minutes) else minutes
