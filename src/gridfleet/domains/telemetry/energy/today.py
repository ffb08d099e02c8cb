"""Energy of the day of one plant, from its PV sub-devices and its GRID meter."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from time import monotonic
from typing import Final
from uuid import UUID

from psycopg.errors import QueryCanceled

from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.device_templates.roles import GRID_DEVICE, PV_PREFIX
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.telemetry.computing import computed
from gridfleet.domains.telemetry.energy.arithmetic import (
    Energies,
    counter_increase,
    integrate_power,
    limited,
    self_consumption_percent,
)
from gridfleet.domains.telemetry.energy.editions import Edition, Readings, read_layouts
from gridfleet.domains.telemetry.energy.models import EnergyOfDay
from gridfleet.domains.telemetry.energy.periods import EnergyBucket
from gridfleet.domains.telemetry.energy.quarters import continued
from gridfleet.domains.telemetry.energy.readings import RunMetric, TookTooLong, read_earlier, returns
from gridfleet.domains.telemetry.energy.runs import Run
from gridfleet.domains.telemetry.energy.series import MOST_SECONDS, EnergyQuery, energy_of_plant
from gridfleet.domains.telemetry.energy.zeros import with_levels
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.history.models import LayoutSource, SeriesPosition
from gridfleet.domains.telemetry.history.raw import Values, read_values
from gridfleet.domains.telemetry.roles import RoleMetric, former_counters, role_metrics
from gridfleet.domains.telemetry.units import KILO, in_kilo
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, savepoint
from gridfleet.kernel.time_zones import UTC_NAME

__all__ = ["energy_of_day", "read_in_kilo", "without_misread"]

_BEFORE_MIDNIGHT: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


async def energy_of_day(db: Connection, org: OrgScope, plant_id: UUID, now: datetime) -> EnergyOfDay:
    """Return the energy of the UTC day that contains `now`.

    Every sub-device whose external id begins with PV produces; GRID imports and exports. The roles of their signals say what
    measures these energies. Sub-devices that were deleted since midnight are included. If the plant has so many readings that
    this takes seconds, the result of `energy_of_plant` is used.

    Raises:
        PlantNotFound: There is no such plant.
    """
    await get_plant(db, org, plant_id)
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        async with savepoint(db, MOST_SECONDS):
            produced, imported, exported = await _from_readings(db, plant_id, midnight)
    except (TookTooLong, QueryCanceled):
        day = EnergyQuery(midnight, midnight + _DAY, EnergyBucket.DAY, UTC_NAME)
        total = (await energy_of_plant(db, org, plant_id, day, now)).total
        produced, imported, exported = (energy or 0.0 for energy in (total.produced, total.imported, total.exported))
    return EnergyOfDay(
        midnight.date().isoformat(),
        round(produced, 3),
        round(imported, 3),
        round(exported, 3),
        round(self_consumption_percent(produced, exported), 2),
    )


async def _from_readings(db: Connection, plant_id: UUID, midnight: datetime) -> tuple[float, float, float]:
    """Return what was produced, imported and exported on the day, in kWh.

    Raises:
        TookTooLong: There are too many readings.
    """
    until = monotonic() + MOST_SECONDS
    produced = imported = exported = 0.0
    sources: dict[int, list[RoleMetric]] = {}
    for metric in (await role_metrics(db, [plant_id])).get(plant_id, ()):
        sources.setdefault(metric.source.id, []).append(metric)
    for metrics in sources.values():
        device, external_id = _Device(db, plant_id, metrics, midnight, until), metrics[0].source.external_id
        if external_id == GRID_DEVICE:
            imported += await device.energy(SignalRole.ENERGY_IMPORTED, SignalRole.GRID_POWER, 0)
            exported += await device.energy(SignalRole.ENERGY_EXPORTED, SignalRole.GRID_POWER, 1)
        elif external_id is not None and external_id.startswith(PV_PREFIX):
            produced += await device.energy(SignalRole.ENERGY_PRODUCED, SignalRole.PV_POWER, 0)
    return limited(produced), limited(imported), limited(exported)


class _Device:
    """The readings of one source on one day. After the monotonic time `until`, reads raise TookTooLong."""

    def __init__(self, db: Connection, plant_id: UUID, metrics: Sequence[RoleMetric], midnight: datetime, until: float) -> None:
        self._db = db
        self._plant_id = plant_id
        self._source = metrics[0].source
        self._metrics = metrics
        self._former = former_counters(metrics)
        self._midnight = midnight
        self._until = until
        self._integrals: dict[str, Energies] = {}

    async def energy(self, counter: SignalRole, power: SignalRole, direction: int) -> float:
        """Return kWh from the counters that reported that day, otherwise from positive (0) or negative (1) power."""
        counted = [energy for key in self._keys(counter) if (energy := await self._counted(key)) is not None]
        return sum(counted) if counted else sum([(await self._integral(key))[direction] for key in self._keys(power)])

    def _keys(self, role: SignalRole) -> list[str]:
        return [one.key for one in self._metrics if one.role is role]

    async def _counted(self, key: str) -> float | None:
        """Return how far a counter rose on the day; None if it did not report."""
        readings = await self._read(key, 2 * _BEFORE_MIDNIGHT, is_counter=True)
        if bisect_left(readings.times, microseconds(self._midnight)) == len(readings.times):
            return None
        of_day = await self._from_the_hour_before(key, readings)
        [of_day] = await with_levels(self._db, [(self._source, key, of_day)])
        others = self._former.get((self._source.id, key), ())
        [returned_at] = await returns(self._db, [(self._source, key, others, of_day)])
        since, edits = bisect_left(of_day.times, microseconds(self._midnight)), of_day.edits() | returned_at
        return await computed(partial(counter_increase, of_day.values, since, edits), len(of_day.times))

    async def _from_the_hour_before(self, key: str, readings: Readings) -> Readings:
        """Return a counter's readings from the hour before midnight on, which set its level.

        The reading before them shows whether the first one was misread. It may be from the evening: devices sleep at night.
        """
        since = self._midnight - _BEFORE_MIDNIGHT
        place = bisect_left(readings.times, microseconds(since))
        earlier, found = readings.part(slice(place)), readings.part(slice(place, None))
        if place:
            return continued(earlier, found, with_last=False)
        return await without_misread(self._db, self._plant_id, self._source, key, found, since)

    async def _integral(self, key: str) -> Energies:
        if (known := self._integrals.get(key)) is None:
            powers = await self._read(key, _BEFORE_MIDNIGHT, is_counter=False)
            integrate = partial(integrate_power, powers.times, powers.values, microseconds(self._midnight))
            known = self._integrals[key] = await computed(integrate, len(powers.times))
        return known

    async def _read(self, key: str, before: timedelta, *, is_counter: bool) -> Readings:
        """Return the metric's values of the day and of some time before, in kW or kWh."""
        if monotonic() > self._until:
            raise TookTooLong
        start, end = self._midnight - before, self._midnight + _DAY
        return await read_in_kilo(self._db, self._source, key, start, end, is_counter=is_counter)


async def without_misread(
    db: Connection, plant_id: UUID, source: LayoutSource, key: str, readings: Readings, since: datetime
) -> Readings:
    """Return a counter's readings from the second one on if an earlier one shows that the first one was misread.

    Args:
        db: The connection.
        plant_id: The plant of the source.
        source: The source of the counter.
        key: The counter.
        readings: At least one reading, all those from the hour before `since` on.
        since: The earlier reading is from the day before this time.
    """
    metric, run = RunMetric(0, source, key, True), Run(plant_id, since, 0, since)
    earlier = (await read_earlier(db, [metric], [run])).get(metric.name, Readings([], []))
    is_misread = continued(earlier, readings, with_last=False).values[0] != readings.values[0]
    return readings.part(slice(int(is_misread), None))


async def read_in_kilo(
    db: Connection, source: LayoutSource, key: str, start: datetime, end: datetime, *, is_counter: bool = True
) -> Readings:
    """Return a source's values of one metric with `start` <= time < `end` in kW or kWh, each by the unit of its layout.

    Readings of a counter outside the limits of its layout are returned as negative numbers, which count as missing values.
    A metric without a known unit is assumed to be in kW or kWh, like the standard keys. If an edited template gave the metric
    another unit, both layouts may have values of the same time; the value of the newer layout is used.
    """
    picks: dict[Edition, list[SeriesPosition]] = {}
    for layout in read_layouts(source, key, is_counter=is_counter):
        position = SeriesPosition.of(source.id, layout, layout.positions[key])
        edition = Edition.of(layout.metrics[position.number])
        # The edition of the newest layout comes last.
        picks[edition] = [*picks.pop(edition, ()), position if is_counter else position._replace(low=-inf, high=inf)]
    read = [(await read_values(db, source.id, chosen, start, end), edition) for edition, chosen in picks.items()]
    return await computed(partial(_merged, read), sum(len(values.times) for values, _ in read))


def _merged(read: Sequence[tuple[Values, Edition]]) -> Readings:
    """Return all values in kW or kWh, each read in its edition. Of values of the same time, the last one counts."""
    parts = [(_scaled(values, edition.size), edition) for values, edition in read]
    if len(parts) < 2:
        return Readings(*parts[0][0]) if parts else Readings([], [])
    merged = {time: (value, edition) for part, edition in parts for time, value in zip(*part, strict=True)}
    return Readings.of(dict(sorted(merged.items())), is_edited=True)


def _scaled(values: Values, size: int) -> Values:
    if size == KILO:
        return values
    return Values(values.times, [in_kilo(value, size) for value in values.values])
