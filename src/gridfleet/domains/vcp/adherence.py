"""How the measured power of a site followed what was ordered: setpoints of partners and steps of schedules.

A site has one order at a time: the last command that its plant has applied. A setpoint lasts for its duration, or until the
next setpoint or mode; a step lasts until its end, or until another schedule or a cancellation. During a mode no power is
ordered.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from gridfleet.domains.plants.commands.models import AppliedPower
from gridfleet.domains.telemetry.energy.arithmetic import limited
from gridfleet.domains.vcp.sites.models import AdherenceQuarter

__all__ = ["PowerOrder", "compared", "orders_of", "quarters_between", "rounded"]

_QUARTER: Final = timedelta(minutes=15)
_HOUR: Final = timedelta(hours=1)
_TOLERANCE: Final = timedelta(seconds=30)
"""The longest time of a quarter without an order: a plant confirms a step some seconds after it has begun."""


class PowerOrder(NamedTuple):
    """A power in kW that was ordered from `start` to `end` (exclusive)."""

    start: datetime
    end: datetime
    power_kw: float


def orders_of(applied: Sequence[AppliedPower], until: datetime) -> list[PowerOrder]:
    """Return the powers that were in force, by time and without overlaps.

    Args:
        applied: The commands that the plant has applied, in the order of their issue.
        until: The time at which the last order ends at the latest.
    """
    applied = _without_idle_schedules(applied)
    # A plant acknowledges in the order of issue; a late acknowledgement does not move a command behind its successor.
    starts = [command.finished_at for command in applied]
    for number in range(len(starts) - 2, -1, -1):
        starts[number] = min(starts[number], starts[number + 1])
    orders: list[PowerOrder] = []
    for command, (start, next_start) in zip(applied, pairwise([*starts, until]), strict=True):
        end = next_start if command.ends_at is None else min(next_start, command.ends_at)
        if command.type == "SITE_SETPOINT" and command.power_kw is not None and start < end:
            orders.append(PowerOrder(start, end, command.power_kw))
    return orders


def _without_idle_schedules(applied: Sequence[AppliedPower]) -> list[AppliedPower]:
    """Return the commands without the schedules that end no step. A schedule ends the steps of all others."""
    found: list[AppliedPower] = []
    for command in applied:
        step = found[-1].schedule if found and found[-1].type == "SITE_SETPOINT" else None
        if command.type != "SCHEDULE" or (step is not None and step != command.schedule):
            found.append(command)
    return found


def quarters_between(start: datetime, end: datetime) -> list[datetime]:
    """Return the beginnings of the whole quarters of an hour between two times, none if `end` is before `start`."""
    if start >= end:
        return []
    first = start.replace(minute=start.minute // 15 * 15, second=0, microsecond=0)
    first += _QUARTER if first < start else timedelta()
    return [first + number * _QUARTER for number in range(max(0, (end - first) // _QUARTER))]


def rounded(value: float) -> float:
    """Return `value` with six decimals; the largest finite number of its sign in place of an infinite one."""
    return round(limited(value), 6) + 0.0  # not -0.0


def compared(
    quarters: Sequence[datetime], orders: Sequence[PowerOrder], measured_kwh: Mapping[datetime, float]
) -> list[AdherenceQuarter]:
    """Return ordered and measured mean power of each quarter, in kW with six decimals.

    `quarters` and `orders` are sorted by time.
    """
    found = []
    first = 0
    for quarter in quarters:
        end = quarter + _QUARTER
        while first < len(orders) and orders[first].end <= quarter:
            first += 1
        covered, ordered_kwh, number = timedelta(), 0.0, first
        while number < len(orders) and orders[number].start < end:
            order = orders[number]
            part = min(order.end, end) - max(order.start, quarter)
            covered += part
            ordered_kwh += order.power_kw * (part / _HOUR)
            number += 1
        ordered = rounded(ordered_kwh / (covered / _HOUR)) if covered >= _QUARTER - _TOLERANCE else None
        energy = measured_kwh.get(quarter)
        measured = None if energy is None else rounded(energy / (_QUARTER / _HOUR))
        deviation = None if ordered is None or measured is None else rounded(measured - ordered)
        found.append(AdherenceQuarter(quarter, ordered, measured, deviation))
    return found
