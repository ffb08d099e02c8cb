"""Energy over time, of a plant and of a fleet."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.errors import QueryCanceled

from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.hours import energies_of_hours
from gridfleet.domains.telemetry.energy.models import BucketOfEnergy, DirtyHour, EnergyAmounts, EnergyOverTime, KeptHour
from gridfleet.domains.telemetry.energy.periods import QUARTER, EnergyBucket, buckets_in, edges_of
from gridfleet.domains.telemetry.energy.quarters import QUARTERS
from gridfleet.domains.telemetry.energy.readings import TookTooLong
from gridfleet.domains.telemetry.energy.totals import store as totals
from gridfleet.domains.telemetry.roles import role_metrics
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import measurable
from gridfleet.kernel.db import Connection, savepoint
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.time_zones import time_zone

__all__ = [
    "MOST_BUCKETS",
    "MOST_PLANT_HOURS",
    "MOST_SECONDS",
    "EnergyQuery",
    "amounts_of",
    "energy_of_fleet",
    "energy_of_plant",
]

MOST_BUCKETS: Final = 3_000
"""Maximum number of buckets in a response: a month in quarters of an hour."""
MOST_PLANT_HOURS: Final = 500_000
"""Hours of plants that are added up for an API key that is limited to some plants: a second or two of the database."""
_HOUR: Final = timedelta(hours=1)
_RECENT: Final = timedelta(hours=24)
MOST_SECONDS: Final = 5.0
"""Maximum time for which a request reads frames. Dozens of metrics that are measured every second exceed it."""

Amount = float | None
Amounts = tuple[Amount, Amount, Amount, Amount, Amount, Amount, Amount, Amount]
Sums = Sequence[int | None]
"""Energies in mWh: produced, imported, exported, charged, discharged; and of plants that have measured at the grid, produced +
discharged - charged, and produced.
"""


class EnergyQuery(NamedTuple):
    """Energies with `start` <= time < `end`, in buckets of a time zone.

    `time_zone` None stands for that of the plant or the organisation.
    """

    start: datetime
    end: datetime
    bucket: EnergyBucket
    time_zone: str | None


async def energy_of_plant(db: Connection, org: OrgScope, plant_id: UUID, query: EnergyQuery, now: datetime) -> EnergyOverTime:
    """Return the energy of a plant until `now`.

    What is not in the kept energies yet is computed from frames: the open hours, and those of the last day that changed. Older
    hours that changed are included after the next roll-up, and all of them if the plant has so many frames that this takes
    seconds.

    Raises:
        PlantNotFound: There is no such plant.
        ValidationFailed: The range is empty, or has too many buckets.
    """
    plant = await get_plant(db, org, plant_id)
    zone = query.time_zone or plant.effective_time_zone
    edges = _edges(query, zone)
    open_from = await store.watermark(db)
    since = open_from - _RECENT
    hours = await store.unfinished_hours(db, org, plant_id, since)
    if hours:
        # What a counter has risen since before these hours may be in a later one that is kept.
        around = await store.kept_around(db, [DirtyHour(plant_id, hour) for hour in hours])
        hours |= {one.hour for one in around if one.hour >= since}
    hours |= {open_from + number * _HOUR for number in range((now - open_from) // _HOUR + 1)}
    hours = {hour for hour in hours if edges[0] - _HOUR < hour < min(edges[-1], now)}
    computed: Mapping[DirtyHour, KeptHour] = {}
    as_of = now
    if hours:
        metrics, until = await role_metrics(db, [plant_id]), monotonic() + MOST_SECONDS
        try:
            async with savepoint(db, MOST_SECONDS):
                computed = await energies_of_hours(db, metrics, (DirtyHour(plant_id, hour) for hour in hours), until)
        except (TookTooLong, QueryCanceled):
            hours, as_of = set(), min(now, open_from)
    sums = _sums(edges, await totals.of_plants(db, org, [plant_id], edges, hours))
    _add(sums, edges, computed)
    return _over_time(query.bucket, zone, as_of, edges, [_metered(energies[: store.KINDS]) for energies in sums])


async def energy_of_fleet(db: Connection, org: OrgScope, query: EnergyQuery, organization_zone: str) -> EnergyOverTime:
    """Return the energy of the organisation's plants, or of those that the caller may see, until the last closed hour.

    Raises:
        ValidationFailed: The range is empty, has too many buckets, or is too long for a caller that is limited to some plants.
    """
    zone = query.time_zone or organization_zone
    edges = _edges(query, zone)
    as_of = await store.watermark(db)
    if org.plant_ids is None:
        rows = await totals.of_fleet(db, org, edges)
    else:
        longest = MOST_PLANT_HOURS // max(1, len(org.plant_ids)) * _HOUR
        if edges[-1] - edges[0] > longest:
            hours = longest // _HOUR
            raise ValidationFailed(
                details=[f"to: must be at most {hours} hours after from for a key of {len(org.plant_ids)} plants"]
            )
        rows = await totals.of_plants(db, org, list(org.plant_ids), edges, ())
    return _over_time(query.bucket, zone, as_of, edges, _sums(edges, rows))


def _edges(query: EnergyQuery, zone: str) -> list[datetime]:
    if query.start >= query.end:
        raise ValidationFailed(details=["from: must be before to"])
    start, end = measurable(query.start, query.end)
    if buckets_in(start, end, query.bucket) > MOST_BUCKETS:
        raise ValidationFailed(details=[f"to: must be at most {MOST_BUCKETS} buckets after from"])
    return edges_of(start, max(end, start + QUARTER), query.bucket, time_zone(zone))


def _sums(edges: Sequence[datetime], rows: Iterable[tuple[Any, ...]]) -> list[list[int | None]]:
    found: list[list[int | None]] = [[None] * (store.KINDS + totals.METERED) for _ in edges[1:]]
    for number, *energies in rows:
        found[number - 1] = [None if energy is None else int(energy) for energy in energies]
    return found


def _add(sums: Sequence[list[int | None]], edges: Sequence[datetime], hours: Mapping[DirtyHour, KeptHour]) -> None:
    """Add energies of hours to the buckets in which their quarters begin."""
    for one, kept in hours.items():
        for place, value in enumerate(kept.energies):
            begin = one.hour + place % QUARTERS * QUARTER
            if value is not None and edges[0] <= begin < edges[-1]:
                total = sums[bisect_right(edges, begin) - 1]
                total[place // QUARTERS] = (total[place // QUARTERS] or 0) + value


def _metered(energies: Sequence[int | None]) -> Sums:
    """Return the sums of one plant. A gap of its meter at the grid ends with a reading that counts for the whole gap."""
    produced, _, _, charged, discharged = energies
    return [*energies, (produced or 0) + (discharged or 0) - (charged or 0), produced]


def _over_time(
    bucket: EnergyBucket, zone: str, as_of: datetime, edges: Sequence[datetime], sums: Sequence[Sums]
) -> EnergyOverTime:
    columns = [[value for value in column if value is not None] for column in zip(*sums, strict=True)]
    buckets = [
        BucketOfEnergy(*amounts_of(energies), start, end) for (start, end), energies in zip(pairwise(edges), sums, strict=True)
    ]
    total = EnergyAmounts(*amounts_of([sum(column) if column else None for column in columns]))
    return EnergyOverTime(bucket, zone, as_of.astimezone(UTC), total, buckets)


def amounts_of(energies: Sums) -> Amounts:
    """Return the members of `EnergyAmounts`, in their order.

    What flows into the plant and not out of it is consumed; without a meter at the grid this is not known.
    """
    produced, imported, exported, charged, discharged, own, produced_metered = energies
    consumed = None
    if imported is not None or exported is not None:
        consumed = max(0, (own or 0) + (imported or 0) - (exported or 0))
    return (
        _kilo(produced),
        _kilo(consumed),
        _kilo(imported),
        _kilo(exported),
        _kilo(charged),
        _kilo(discharged),
        None if exported is None else _share(produced_metered, exported),
        None if imported is None else _share(consumed, imported),
    )


def _kilo(energy: int | None) -> float | None:
    return None if energy is None else energy / 1_000_000


def _share(whole: int | None, without: int) -> float | None:
    """Return the share of `whole` that is not `without`, in % within 0…100; None without a whole."""
    return round(100 * min(1.0, max(0.0, (whole - without) / whole)), 2) if whole else None
