"""Newest power and energy of a plant, and the readings that they come from."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Final, NamedTuple

import msgspec

from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.telemetry.energy.editions import Edition
from gridfleet.kernel.time_zones import UTC_NAME

__all__ = ["NO_ENERGY", "CounterState", "Energies", "EnergyState", "NewestPower", "PowerState", "RoleReading"]

Energies = tuple[float, float, float, float, float]
"""Energies in kWh in the order of `Energy`: produced, imported, exported, charged, discharged."""
NO_ENERGY: Final[Energies] = (0.0, 0.0, 0.0, 0.0, 0.0)


class RoleReading(NamedTuple):
    """The newest value of a metric with a role, in kW, kWh or %.

    `role` is None for the capacity of a battery, in kWh. `external_id` is None for the plant itself. `time` is in microseconds
    since 2000-01-01 UTC.
    """

    role: SignalRole | None
    source_id: int
    external_id: str | None
    key: str
    value: float
    time: int
    edition: Edition | None = None
    """How the reading of a counter was decoded; None for other roles."""


class NewestPower(NamedTuple):
    """What a plant measures now: powers in kW, state of charge and health in %, capacity in kWh; None if unknown.

    Attributes:
        measured_at: Time of the newest value. The others are at most `FRESH` older.
    """

    measured_at: datetime
    pv: float | None
    battery: float | None
    grid: float | None
    load: float | None
    soc: float | None
    soh: float | None
    capacity: float | None


class CounterState(msgspec.Struct, frozen=True, array_like=True):
    """The state of the count of an energy counter, in kWh.

    Attributes:
        level: Its level before the last reading.
        last: Its last reading, which is misread if the next one reverts it.
        added: What the last reading added to the energy of the day.
        time: The time of the last reading in microseconds since 2000-01-01 UTC.
        was_zero: Whether zeros came before the last reading, as in `arithmetic.CounterStep`.
        edition: How the last reading was decoded; None if an earlier release has counted it.
        positive_at: The time of the last positive reading; 0 if it is not known.
        doubted_at: The time of `last` if zeros have followed it, and the next positive reading shows whether it was misread;
            otherwise 0. `time` is that of the last zero then.
        reached_at: The time of the last reading at the level; 0 if it is not known.
    """

    level: float
    last: float
    added: float
    time: int
    was_zero: bool = False
    edition: Edition | None = None
    positive_at: int = 0
    doubted_at: int = 0
    reached_at: int = 0


class PowerState(msgspec.Struct, frozen=True, array_like=True):
    """The last power of a source without a counter, in kW, and its time in microseconds since 2000-01-01 UTC."""

    power: float
    time: int


class EnergyState(msgspec.Struct, frozen=True):
    """What the count of a plant's energy needs to continue.

    Attributes:
        day: The day that is counted.
        counted: Energy of the day.
        counters: Counters by `{source}:{key}`.
        powers: Powers by `{source}:{key}`.
        time_zone: The zone in which the day begins and ends.
        hours: The part of `counted` in each hour that is not replaced by kept energies yet, by the start of the hour, or of the
            day if that is later, in microseconds since 2000-01-01 UTC.
    """

    day: date
    counted: Energies = NO_ENERGY
    counters: Mapping[str, CounterState] = {}
    powers: Mapping[str, PowerState] = {}
    time_zone: str = UTC_NAME
    hours: Mapping[int, Energies] = {}
