"""Compute a plant's newest power from the newest values of its devices, with pure functions."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.device_templates.roles import GRID_DEVICE, GRID_ROLES
from gridfleet.domains.telemetry.frames.models import to_datetime
from gridfleet.domains.telemetry.power.models import NewestPower, RoleReading

__all__ = ["FRESH", "MOST", "newest_power", "that_count"]

FRESH: Final = timedelta(minutes=15)
"""The longest time before its plant's newest value at which a value counts, and the age up to which a newest value is fresh."""
_FRESH_US: Final = FRESH // timedelta(microseconds=1)
MOST: Final = 1e12
"""Larger values are cut to this one: sums over all plants must stay finite."""

_NOW: Final = (
    SignalRole.PV_POWER,
    SignalRole.BATTERY_POWER,
    SignalRole.GRID_POWER,
    SignalRole.LOAD_POWER,
    SignalRole.SOC,
    SignalRole.SOH,
)


def that_count(readings: Iterable[RoleReading]) -> list[RoleReading]:
    """Return the readings; if there is a device GRID, without the grid roles of other devices, which meter something else."""
    every = list(readings)
    if any(one.external_id == GRID_DEVICE and one.role in GRID_ROLES for one in every):
        return [one for one in every if one.external_id in (GRID_DEVICE, None) or one.role not in GRID_ROLES]
    return every


def newest_power(readings: Iterable[RoleReading]) -> NewestPower | None:
    """Return the plant's newest power; None if it has no power and no state of charge.

    Powers of several devices add up; states of charge and health are averages, weighted by capacity if every battery reports
    one. Where the plant itself reports a role, its devices do not count. A value that is more than `FRESH` older than the
    plant's newest one does not count, except for a capacity: many devices report it only when they start.
    """
    counting = that_count(readings)
    times = [one.time for one in counting if one.role in _NOW]
    if not times:
        return None
    newest = max(times)
    fresh = [one for one in counting if one.time >= newest - _FRESH_US]
    by_role = {role: _that_measure(fresh, role) for role in _NOW}
    pv, battery, grid, load = (_sum(by_role[role]) for role in _NOW[:4])
    capacities = {one.source_id: one.value for one in counting if one.role is None and one.value > 0}
    batteries = {one.source_id for one in fresh if one.role is SignalRole.SOC and one.external_id is not None}
    known = sum(capacities[one] for one in batteries) if batteries and batteries <= capacities.keys() else None
    soc, soh = (_average(by_role[role], capacities) for role in (SignalRole.SOC, SignalRole.SOH))
    return NewestPower(to_datetime(newest), pv, battery, grid, load, soc, soh, None if known is None else _cut(known))


def _that_measure(readings: Sequence[RoleReading], role: SignalRole) -> list[RoleReading]:
    found = [one for one in readings if one.role is role]
    return [one for one in found if one.external_id is None] or found


def _sum(readings: Sequence[RoleReading]) -> float | None:
    if len(readings) < 2:
        return _cut(readings[0].value) if readings else None
    # To the milliwatt: the sum of 0.1 and 0.2 is 0.30000000000000004.
    return _cut(round(sum(_cut(one.value) for one in readings), 6))


def _average(readings: Sequence[RoleReading], capacities: dict[int, float]) -> float | None:
    if not readings:
        return None
    weights = [_cut(capacities.get(one.source_id, 0.0)) for one in readings]
    if 0.0 in weights:
        weights = [1.0] * len(readings)
    return _cut(sum(weight * _cut(one.value) for weight, one in zip(weights, readings, strict=True)) / sum(weights))


def _cut(value: float) -> float:
    return min(max(value, -MOST), MOST)
