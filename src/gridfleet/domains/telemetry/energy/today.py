"""Energy of the day of one plant, from its PV sub-devices and its GRID meter."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.telemetry.energy.arithmetic import (
    Energies,
    counter_increase,
    integrate_power,
    self_consumption_percent,
)
from gridfleet.domains.telemetry.energy.models import EnergyOfDay
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.history.models import Source
from gridfleet.domains.telemetry.history.raw import Values, read_values
from gridfleet.domains.telemetry.history.series import plant_sources
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["KILO_FACTORS", "energy_of_day"]

_PV_PREFIX: Final = "PV"
_GRID: Final = "GRID"
_POWER: Final = "active_power"
_BEFORE_MIDNIGHT: Final = timedelta(hours=1)
KILO_FACTORS: Final = {"W": 1e-3, "Wh": 1e-3, "kW": 1.0, "kWh": 1.0, "MW": 1e3, "MWh": 1e3}
"""To kW and kWh; a metric without a known unit is taken for kW or kWh, which the standard keys have."""


async def energy_of_day(db: Connection, org: OrgScope, plant_id: UUID, now: datetime) -> EnergyOfDay:
    """The energy of the UTC day that holds `now`. Raises `PlantNotFound`.

    Every sub-device whose external id begins with PV produces; GRID imports and exports. Sub-devices deleted since midnight
    still count with what they reported.
    """
    await get_plant(db, org, plant_id)
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    produced = imported = exported = 0.0
    for source in await plant_sources(db, org, plant_id):
        device = _Device(db, source, midnight)
        if source.external_id == _GRID:
            imported += await device.energy("energy_imported", 0)
            exported += await device.energy("energy_exported", 1)
        elif source.external_id is not None and source.external_id.startswith(_PV_PREFIX):
            produced += await device.energy("energy_produced", 0)
    return EnergyOfDay(
        midnight.date().isoformat(),
        round(produced, 3),
        round(imported, 3),
        round(exported, 3),
        round(self_consumption_percent(produced, exported), 2),
    )


class _Device:
    """One source's day."""

    def __init__(self, db: Connection, source: Source, midnight: datetime) -> None:
        self._db = db
        self._source = source
        self._midnight = midnight
        self._integral: Energies | None = None

    async def energy(self, counter: str, direction: int) -> float:
        """kWh by the counter if the device has one that reports, else of its positive (0) or negative (1) power."""
        readings, factor = await self._read(counter)
        if readings.values:
            return factor * counter_increase(_of_day(readings, microseconds(self._midnight)))
        if self._integral is None:
            powers, factor = await self._read(_POWER)
            positive, negative = integrate_power(powers.times, powers.values, microseconds(self._midnight))
            self._integral = Energies(factor * positive, factor * negative)
        return self._integral[direction]

    async def _read(self, key: str) -> tuple[Values, float]:
        """The metric's values of the day and of the hour before, and what makes kW or kWh of them."""
        layouts = [layout for layout in self._source.layouts if key in layout.positions]
        if not layouts:
            return Values([], []), 1.0
        picks = [(layout.id, layout.positions[key]) for layout in layouts]
        unit = layouts[0].metrics[layouts[0].positions[key]].unit
        start, end = self._midnight - _BEFORE_MIDNIGHT, self._midnight + timedelta(days=1)
        return await read_values(self._db, self._source.id, picks, start, end), KILO_FACTORS.get(unit, 1.0)


def _of_day(readings: Values, midnight: int) -> Sequence[float]:
    """The readings of the day, led by the last one before it."""
    before = sum(1 for time in readings.times if time < midnight)
    return list(readings.values[max(0, before - 1) :])
