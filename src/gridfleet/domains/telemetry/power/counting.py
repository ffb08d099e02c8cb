"""Count a plant's energy of the day from one newest reading to the next, with pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from msgspec import structs

from gridfleet.domains.telemetry.energy.arithmetic import integrate_power, is_far, steps
from gridfleet.domains.telemetry.energy.editions import is_continued
from gridfleet.domains.telemetry.energy.periods import start_of_day
from gridfleet.domains.telemetry.energy.quarters import HOUR, QUARTER, QUARTERS
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import LayoutSource
from gridfleet.domains.telemetry.power.models import NO_ENERGY, CounterState, Energies, EnergyState, PowerState, RoleReading
from gridfleet.domains.telemetry.power.newest import MOST
from gridfleet.domains.telemetry.roles import Energy, EnergyMeter, RoleMetric, energy_meters
from gridfleet.kernel.time_zones import time_zone

__all__ = ["count_energy", "with_kept_hours"]

_ORDER: Final = {energy: index for index, energy in enumerate(Energy)}
_BEFORE_MIDNIGHT_US: Final = 3_600_000_000
_DAY_US: Final = 86_400_000_000
_MOST_RISE: Final = 1e9
"""The most energy that one reading adds, in kWh. A larger one would leave no digits of the energy of the day, even if the next
reading reverts it.
"""
_GAP_US: Final = 30 * 60_000_000
"""Readings further apart share their energy among the hours between them."""
_MWH: Final = 1_000_000
"""mWh in a kWh."""

_Parts = list[tuple[int, float]]
"""Energies in kWh, with a time at which each was measured."""


def count_energy(state: EnergyState | None, readings: Sequence[RoleReading], zone: str) -> EnergyState | None:
    """Return the state after the newest readings; `state` itself if none of them measures energy.

    The power of a source is integrated if it has no counter, or if the readings of its counters are a day older. The first
    reading of a counter adds nothing, also after an edit of its scale; neither does the first one of a day if the previous one
    is from more than an hour before the day. If that one is zero, the counter continues from its level; after more than a day
    of zeros its next positive reading adds nothing.

    Args:
        state: The state after earlier readings; None if there were none. If the zone has changed, the count begins again with
            those of its hours that the new day has.
        readings: The plant's newest readings.
        zone: The name of the time zone of the day.
    """
    by_name = {(one.source_id, one.key): one for one in readings if one.role is not None}
    meters = energy_meters(_metrics(by_name.values()))
    used = [(meter, one) for meter in meters for one in _used(meter, by_name)]
    if not used:
        return state
    day = to_datetime(max(one.time for _, one in used)).astimezone(time_zone(zone)).date()
    if state is None:
        state = EnergyState(day, time_zone=zone)
    elif day > state.day or zone != state.time_zone:
        began = EnergyState(day, counters=state.counters, powers=state.powers, time_zone=zone)
        state = _with_hours(began, NO_ENERGY, state.hours, _midnight(began))
    midnight = _midnight(state)
    hours = {hour: list(energies) for hour, energies in state.hours.items()}
    counted = list(state.counted)
    counters: dict[str, CounterState] = {}
    powers: dict[str, PowerState] = {}
    for meter, one in used:
        name = f"{one.source_id}:{one.key}"
        if one.key in meter.counters:
            parts, counters[name] = _count(state.counters.get(name), one, midnight)
        else:
            parts, powers[name] = _integrate(state.powers.get(name), one, midnight, positive=meter.positive)
        for moment, energy in parts:
            if moment >= midnight and energy:
                place = _ORDER[meter.energy]
                counted[place] += energy
                hours.setdefault(max(moment - moment % HOUR, midnight), list(NO_ENERGY))[place] += energy
    # A counter that is older than its power may come back with zeros, from which it would count its whole life.
    for name in (f"{meter.source.id}:{key}" for meter in meters for key in meter.counters):
        if name in state.counters:
            counters.setdefault(name, state.counters[name])
    cut = {hour: _cut(energies, -MOST) for hour, energies in hours.items()}
    return EnergyState(state.day, _cut(counted), counters, powers, zone, cut)


def with_kept_hours(state: EnergyState, kept: Sequence[tuple[datetime, Sequence[int | None]]]) -> EnergyState:
    """Return the state with kept energies, which include late values, in place of counted ones up to the last kept hour's end.

    Args:
        state: The state of a plant.
        kept: Hours of the plant with the energies of a `KeptHour`. If there are none, the state stays as it is.
    """
    if not kept:
        return state
    midnight = _midnight(state)
    until = microseconds(max(hour for hour, _ in kept)) + HOUR
    counted = list(NO_ENERGY)
    for hour, energies in kept:
        for place, energy in enumerate(energies):
            if energy is not None and microseconds(hour) + place % QUARTERS * QUARTER >= midnight:
                counted[place // QUARTERS] += energy / _MWH
    return _with_hours(state, counted, state.hours, until)


def _with_hours(state: EnergyState, kept: Sequence[float], hours: Mapping[int, Energies], start: int) -> EnergyState:
    """Return the state with kept energies and, from `start` on, those of `hours`."""
    hours = {hour: energies for hour, energies in hours.items() if hour >= start}
    total = [sum(column) for column in zip(kept, *hours.values(), strict=True)]
    return structs.replace(state, counted=_cut(total), hours=hours)


def _midnight(state: EnergyState) -> int:
    return microseconds(start_of_day(state.day, time_zone(state.time_zone)))


def _metrics(readings: Iterable[RoleReading]) -> list[RoleMetric]:
    return [
        RoleMetric(one.role, LayoutSource(one.source_id, one.external_id, ()), one.key)
        for one in readings
        if one.role is not None
    ]


def _used(meter: EnergyMeter, by_name: Mapping[tuple[int, str], RoleReading]) -> list[RoleReading]:
    counters, powers = ([by_name[meter.source.id, key] for key in keys] for keys in (meter.counters, meter.powers))
    if not counters or not powers:
        return counters or powers
    is_counting = max(one.time for one in counters) > max(one.time for one in powers) - _DAY_US
    return counters if is_counting else powers


def _count(state: CounterState | None, reading: RoleReading, midnight: int) -> tuple[_Parts, CounterState]:
    """Return what a counter's reading changes in the energy of the day, and its state after that."""
    value, moment, edition = reading.value, reading.time, reading.edition
    positive_at = moment if value > 0 else 0
    first = CounterState(value, value, 0.0, moment, edition=edition, positive_at=positive_at, reached_at=moment)
    if state is None:
        return [], first
    if moment <= state.time:
        return [], state
    if state.edition and edition and not is_continued(state.edition, state.last, edition, value):
        return [], first if value > 0 else state
    if state.time < midnight - _BEFORE_MIDNIGHT_US:
        if value > 0:
            return [], first
        # Devices read zero when they wake up. As a level, it would count the energy of their whole life.
        if moment - state.time > _DAY_US:
            return [], state
    if value > 0 and 0 < state.positive_at < moment - _DAY_US:
        return [], first
    # The level was misread, or the meter was exchanged for one that has counted less.
    if 0 < value < state.level and 0 < state.reached_at < moment - _DAY_US:
        return [], first
    if value <= 0 < min(state.last, state.level) and is_far(state.level, state.last):
        return [], structs.replace(state, time=moment, edition=edition, doubted_at=state.doubted_at or state.time)
    readings = [state.last, 0.0, value] if state.doubted_at else [state.last, value]
    counted = list(steps(readings, state.level, was_zero=state.was_zero))
    confirmed, before, newest = counted[0], counted[-2], counted[-1]
    added = min(newest.rise, _MOST_RISE)
    corrected = (state.doubted_at or state.time, min(confirmed.rise, _MOST_RISE) - state.added)
    rise = _spread(added, max(midnight, state.time), moment)
    changed = CounterState(before.level, value, added, moment, before.was_zero, edition, positive_at or state.positive_at)
    is_reached = value == newest.level or not state.reached_at
    return [corrected, *rise], structs.replace(changed, reached_at=moment if is_reached else state.reached_at)


def _spread(energy: float, start: int, end: int) -> _Parts:
    """Return the parts of the energy that a counter counted from `start` to `end`.

    If the two are at most `_GAP_US` apart, all of it belongs to `end`; otherwise it is spread evenly over the hours. The
    readings inside a gap are not known here, because only the newest reading of a message is counted. The kept energies of
    these hours replace the parts when the hours are closed.

    Args:
        energy: KWh.
        start: Microseconds since 2000-01-01 UTC.
        end: As `start`.
    """
    if end - start <= _GAP_US:
        return [(end, energy)]
    edges = [start, *range(start - start % HOUR + HOUR, end, HOUR), end]
    return [(first, energy * ((last - first) / (end - start))) for first, last in pairwise(edges)]


def _integrate(state: PowerState | None, reading: RoleReading, midnight: int, *, positive: bool) -> tuple[_Parts, PowerState]:
    """Return the energy between the last power and the reading, on this day, and the state after that."""
    if state is None:
        return [], PowerState(reading.value, reading.time)
    if reading.time <= state.time:
        return [], state
    times, powers = (state.time, reading.time), (state.power, reading.value)
    index = 0 if positive else 1
    of_day = integrate_power(times, powers, midnight)[index]
    of_hour = integrate_power(times, powers, max(midnight, reading.time - reading.time % HOUR))[index]
    parts = [(max(midnight, state.time), of_day - of_hour), (reading.time, of_hour)]
    return parts, PowerState(reading.value, reading.time)


def _cut(energies: Sequence[float], least: float = 0.0) -> Energies:
    produced, imported, exported, charged, discharged = (min(max(energy, least), MOST) for energy in energies)
    return produced, imported, exported, charged, discharged
