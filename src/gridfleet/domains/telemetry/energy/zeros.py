"""The level of counters whose readings begin with zeros.

Devices read zero while they are switched off, for a whole night. If such zeros set the level, the energy of the counter's whole
life would be counted in the morning.
"""

from collections.abc import Sequence
from operator import itemgetter

from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.quarters import LONGEST_GAP
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import LayoutSource
from gridfleet.domains.telemetry.history.raw import Values
from gridfleet.domains.telemetry.units import in_kilo, size_of
from gridfleet.kernel.db import Connection

__all__ = ["with_levels"]

Counter = tuple[LayoutSource, str, Values]
"""A counter's source, its key, and some of its readings in kWh."""


async def with_levels(db: Connection, counters: Sequence[Counter]) -> list[Values]:
    """Return the readings of each counter. If they begin with zeros, the last positive reading before these is put first.

    It must be at most a day older than the first positive reading after the zeros; without one the counter begins at zero.
    """
    picks: list[store.Pick] = []
    owners: list[tuple[int, int]] = []
    """The counter of each pick, and the size of its unit."""
    for number, (source, key, (times, readings)) in enumerate(counters):
        if not readings or readings[0] != 0:
            continue
        rising = next((time for time, reading in zip(times, readings, strict=True) if reading > 0), times[0])
        if rising - LONGEST_GAP >= times[0] or rising == times[0]:
            continue
        start, end = to_datetime(rising - LONGEST_GAP), to_datetime(times[0])
        for layout in sorted(source.layouts, key=lambda layout: layout.id):
            if key in layout.positions:
                position = layout.positions[key]
                picks.append(store.Pick(len(picks), source.id, layout.id, position, start, end))
                owners.append((number, size_of(layout.metrics[position].unit)))
    found = [values for _, _, values in counters]
    rows = await store.last_readings(db, picks, positive=True) if picks else []
    newest: dict[int, tuple[int, float]] = {}
    for number, time, value in sorted(rows):  # newer layouts come last
        owner, size = owners[number]
        newest[owner] = max((microseconds(time), in_kilo(value, size)), newest.get(owner, (0, 0.0)), key=itemgetter(0))
    for owner, (moment, level) in newest.items():
        found[owner] = Values([moment, *found[owner].times], [level, *found[owner].values])
    return found
