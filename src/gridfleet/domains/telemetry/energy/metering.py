"""Energy by quarters of an hour from the counters of meters."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.telemetry.energy.arithmetic import counter_increase
from gridfleet.domains.telemetry.energy.today import KILO_FACTORS
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import Source
from gridfleet.domains.telemetry.history.raw import Values, read_values
from gridfleet.domains.telemetry.history.series import plant_sources
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["QUARTER_MINUTES", "MeterEnergy", "meter_energy"]

QUARTER_MINUTES: Final = 15
_QUARTER: Final = QUARTER_MINUTES * 60 * 1_000_000
_BEFORE: Final = timedelta(hours=1)
"""How old the reading may be that a quarter begins with."""


class MeterEnergy(NamedTuple):
    """What a meter counted in the quarter that begins at `time`: imported less exported, in kWh."""

    time: datetime
    meter: str
    energy: float


async def meter_energy(
    db: Connection, org: OrgScope, plant_id: UUID, meters: Sequence[str], start: datetime, end: datetime
) -> list[MeterEnergy]:
    """The whole quarters between `start` and `end` in which these sub-devices reported, by time, then meter."""
    found: list[MeterEnergy] = []
    for source in await plant_sources(db, org, plant_id):
        if source.external_id is None or source.external_id not in meters:
            continue
        quarters: dict[int, float] = {}
        for counter, sign in (("energy_imported", 1.0), ("energy_exported", -1.0)):
            readings, factor = await _read(db, source, counter, start, end)
            for time, energy in _quarters(readings, microseconds(start), microseconds(end)):
                quarters[time] = quarters.get(time, 0.0) + sign * factor * energy
        found += [MeterEnergy(to_datetime(time), source.external_id, round(energy, 6)) for time, energy in quarters.items()]
    return sorted(found)


async def _read(db: Connection, source: Source, key: str, start: datetime, end: datetime) -> tuple[Values, float]:
    layouts = [layout for layout in source.layouts if key in layout.positions]
    if not layouts:
        return Values([], []), 1.0
    picks = [(layout.id, layout.positions[key]) for layout in layouts]
    unit = layouts[0].metrics[layouts[0].positions[key]].unit
    return await read_values(db, source.id, picks, start - _BEFORE, end), KILO_FACTORS.get(unit, 1.0)


def _quarters(readings: Values, start: int, end: int) -> Iterator[tuple[int, float]]:
    """(quarter, increase) for every whole quarter with a reading; each begins with the last reading before it."""
    times = readings.times
    for quarter in range(-(-start // _QUARTER) * _QUARTER, end - _QUARTER + 1, _QUARTER):
        first, last = bisect_left(times, quarter), bisect_left(times, quarter + _QUARTER)
        if first < last:
            yield quarter, counter_increase(readings.values[max(0, first - 1) : last])
