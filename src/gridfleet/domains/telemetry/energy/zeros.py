"""The level of counters whose readings begin with zeros.

Devices read zero while they are switched off, for a whole night. If such zeros set the level, the energy of the counter's whole
life would be counted in the morning. Negative readings count as zeros. Those outside the limits of their signal were read as
negative ones.
"""

from collections.abc import Mapping, Sequence

from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.arithmetic import is_misread
from gridfleet.domains.telemetry.energy.editions import Edition, Readings, read_layouts
from gridfleet.domains.telemetry.energy.quarters import LONGEST_GAP
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import LayoutSource, SeriesPosition
from gridfleet.domains.telemetry.units import in_kilo, size_of
from gridfleet.kernel.db import Connection

__all__ = ["with_levels"]

Counter = tuple[LayoutSource, str, Readings]
"""A counter's source, its key, and some of its readings in kWh."""


async def with_levels(db: Connection, counters: Sequence[Counter]) -> list[Readings]:
    """Return the readings of each counter. If they begin with zeros, these get a level unless the counter begins at zero.

    The last positive reading within a day before the first positive one after the zeros is put first; if it was misread, with
    the one before it. Without one, the zeros get the value of the first positive reading in two cases: a source that had values
    before that day was switched off for longer; and a reading at the level of a deleted sub-device with the same external id
    shows that it is the same device.
    """
    found = [readings for _, _, readings in counters]
    risings = {number: rising for number, values in enumerate(found) if (rising := _rising(values)) is not None}
    earlier = await _earlier(db, counters, risings)
    for number, last in earlier.items():
        before = Readings.of(last, is_edited=bool(found[number].editions))
        around = found[number].part(slice(risings[number] - 1, risings[number] + 1)).after(before)
        edits = around.edits()
        has_misread = len(last) > 1 and 1 not in edits and is_misread(around.values[0], around.values, 1, edits)
        found[number] = found[number].after(before if has_misread else before.part(slice(-1, None)))
    others = {number: rising for number, rising in risings.items() if number not in earlier}
    moments = [
        (number, counters[number][0].id, to_datetime(found[number].times[rising] - LONGEST_GAP))
        for number, rising in others.items()
    ]
    switched_off = set(await store.had_values_before(db, moments)) if moments else set[int]()
    new = [(number, counters[number][0].id, counters[number][1]) for number in others if number not in switched_off]
    for number, unit, level in await store.former_levels(db, new) if new else ():
        if in_kilo(level, size_of(unit)) <= found[number].values[others[number]]:
            switched_off.add(number)
    for number in switched_off:
        rising, values = others[number], found[number].values
        found[number] = found[number]._replace(values=[*[values[rising]] * rising, *values[rising:]])
    return found


def _rising(readings: Readings) -> int | None:
    """Return the index of the first positive reading after zeros at the beginning; None if either is missing."""
    if not readings.values or readings.values[0] > 0:
        return None
    return next((place for place, reading in enumerate(readings.values) if reading > 0), None)


async def _earlier(
    db: Connection, counters: Sequence[Counter], risings: Mapping[int, int]
) -> dict[int, dict[int, tuple[float, Edition]]]:
    """Return the last two positive readings before the zeros of each counter that has any within a day, by their times."""
    picks: list[store.Pick] = []
    owners: list[tuple[int, Edition]] = []
    """The counter of each pick, and its edition."""
    for number, rising in risings.items():
        source, key, (times, _, _) = counters[number]
        start, end = to_datetime(times[rising] - LONGEST_GAP), to_datetime(times[0])
        for layout in read_layouts(source, key, is_counter=True) if start < end else ():
            _, _, position, _, low, high = SeriesPosition.of(source.id, layout, layout.positions[key])
            picks.append(store.Pick(len(picks), source.id, layout.id, position, start, end, low, high))
            owners.append((number, Edition.of(layout.metrics[position])))
    rows = await store.last_readings(db, picks, positive=True) if picks else []
    every: dict[int, dict[int, tuple[float, Edition]]] = {}
    for number, time, value in sorted(rows):  # newer layouts come last
        owner, edition = owners[number]
        every.setdefault(owner, {})[microseconds(time)] = in_kilo(value, edition.size), edition
    return {owner: dict(sorted(readings.items())[-2:]) for owner, readings in every.items()}
