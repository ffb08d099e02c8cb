"""Records of energies."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.telemetry.energy.periods import EnergyBucket

__all__ = ["BucketOfEnergy", "DirtyHour", "EnergyAmounts", "EnergyOfDay", "EnergyOverTime", "KeptHour"]


class EnergyOfDay(msgspec.Struct, frozen=True, rename="camel"):
    """Energies in kWh of one UTC day (`YYYY-MM-DD`), and the share of the production that was not exported, in %."""

    date: str
    produced: float
    imported: float
    exported: float
    self_consumption_pct: float


class EnergyAmounts(msgspec.Struct, frozen=True, rename="camel"):
    """Energies in kWh, null where nothing was measured, and shares in %.

    `consumed` is produced + imported - exported + discharged - charged. `self_consumption` is the share of the production that
    was not exported, `self_sufficiency` the share of the consumption that was not imported.
    """

    produced: float | None
    consumed: float | None
    imported: float | None
    exported: float | None
    charged: float | None
    discharged: float | None
    self_consumption: float | None
    self_sufficiency: float | None


class BucketOfEnergy(EnergyAmounts, frozen=True, rename="camel"):
    """The energies from `start` until `end`."""

    start: datetime
    end: datetime


class EnergyOverTime(msgspec.Struct, frozen=True, rename="camel"):
    """Energies of a range, in total and in buckets that follow each other without a gap.

    Energy until `as_of` is included. Buckets begin on quarters, hours, days or months of `time_zone`.
    """

    bucket: EnergyBucket
    time_zone: str
    as_of: datetime
    total: EnergyAmounts
    buckets: list[BucketOfEnergy]


class DirtyHour(NamedTuple):
    """An hour of a plant whose energy is to be computed again."""

    plant_id: UUID
    hour: datetime


class KeptHour(NamedTuple):
    """The energies of a plant in an hour.

    Attributes:
        energies: The energies in mWh of the four quarters of the hour for each kind, in the order of `Energy`. None means not
            measured.
        falls: Whether a counter had a reading lower than the one before.
    """

    energies: list[int | None]
    falls: bool
