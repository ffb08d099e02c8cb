"""Count a plant's energy of the day from one newest reading to the next, with pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Final

from gridfleet.domains.telemetry.energy.arithmetic import integrate_power, steps
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import LayoutSource
from gridfleet.domains.telemetry.power.models import CounterState, Energies, EnergyState, PowerState, Reading
from gridfleet.domains.telemetry.power.newest import MOST
from gridfleet.domains.telemetry.roles import Energy, EnergyMeter, RoleMetric, energy_meters

__all__ = ["count_energy"]

_ORDER: Final = {energy: index for index, energy in enumerate(Energy)}
_BEFORE_MIDNIGHT_US: Final = 3_600_000_000
_DAY_US: Final = 86_400_000_000
_MOST_RISE: Final = 1e9
"""The most energy that one reading adds, in kWh. A larger one, which the next reading may revert, would leave no digits of the
energy of the day.
"""


def count_energy(state: EnergyState | None, readings: Sequence[Reading]) -> EnergyState | None:
    """Return the state after the newest readings; `state` without any that measure energy.

    The power of a source is integrated if it has no counter, or if its counters are a day older. The first reading of a counter
    adds nothing; neither does the first one of a day if the previous one is more than an hour older than the day.
    """
    by_name = {(one.source_id, one.key): one for one in readings if one.role is not None}
    used = [(meter, one) for meter in energy_meters(_metrics(by_name.values())) for one in _used(meter, by_name)]
    if not used:
        return state
    day = to_datetime(max(one.time for _, one in used)).date()
    if state is None:
        state = EnergyState(day)
    elif day > state.day:
        state = EnergyState(day, counters=state.counters, powers=state.powers)
    midnight = microseconds(datetime.combine(state.day, time(), UTC))
    counted = list(state.counted)
    counters: dict[str, CounterState] = {}
    powers: dict[str, PowerState] = {}
    for meter, one in used:
        name = f"{one.source_id}:{one.key}"
        if one.key in meter.counters:
            energy, counters[name] = _count(state.counters.get(name), one, midnight)
        else:
            energy, powers[name] = _integrate(state.powers.get(name), one, midnight, positive=meter.positive)
        counted[_ORDER[meter.energy]] += energy
    return EnergyState(state.day, _cut(counted), counters, powers)


def _metrics(readings: Iterable[Reading]) -> list[RoleMetric]:
    return [
        RoleMetric(one.role, LayoutSource(one.source_id, one.external_id, ()), one.key)
        for one in readings
        if one.role is not None
    ]


def _used(meter: EnergyMeter, by_name: Mapping[tuple[int, str], Reading]) -> list[Reading]:
    counters, powers = ([by_name[meter.source.id, key] for key in keys] for keys in (meter.counters, meter.powers))
    if not counters or not powers:
        return counters or powers
    is_counting = max(one.time for one in counters) > max(one.time for one in powers) - _DAY_US
    return counters if is_counting else powers


def _count(state: CounterState | None, reading: Reading, midnight: int) -> tuple[float, CounterState]:
    """Return what a counter's reading changes in the energy of the day in kWh, and its state after that."""
    value, moment = reading.value, reading.time
    if state is None or (state.time < midnight - _BEFORE_MIDNIGHT_US and moment > state.time):
        return 0.0, CounterState(value, value, 0.0, moment)
    if moment <= state.time:
        return 0.0, state
    if state.time < midnight:  # what the last reading added belongs to the day before
        [last] = steps([state.last], state.level)
        state = CounterState(last.level, last.level, 0.0, state.time)
    confirmed, newest = steps([state.last, value], state.level)
    added = min(newest.rise, _MOST_RISE)
    return min(confirmed.rise, _MOST_RISE) - state.added + added, CounterState(confirmed.level, value, added, moment)


def _integrate(state: PowerState | None, reading: Reading, midnight: int, *, positive: bool) -> tuple[float, PowerState]:
    """Return the energy in kWh between the last power and the reading, on this day, and the state after that."""
    if state is None:
        return 0.0, PowerState(reading.value, reading.time)
    if reading.time <= state.time:
        return 0.0, state
    energies = integrate_power((state.time, reading.time), (state.power, reading.value), midnight)
    return energies.positive if positive else energies.negative, PowerState(reading.value, reading.time)


def _cut(energies: Sequence[float]) -> Energies:
    produced, imported, exported, charged, discharged = (min(max(energy, 0.0), MOST) for energy in energies)
    return produced, imported, exported, charged, discharged
