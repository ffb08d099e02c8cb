"""Brief rows of a fleet, and their filter."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.kernel.pagination import CursorMeta

__all__ = [
    "AlertCondition",
    "FleetEnergy",
    "FleetFilter",
    "FleetPaging",
    "FleetPlant",
    "FleetPlantPage",
    "FleetPlantPageMeta",
    "FleetPower",
    "FleetSort",
    "Position",
    "SortOrder",
]


class FleetPower(msgspec.Struct, frozen=True, rename="camel"):
    """Newest powers in kW; None is not known.

    Positive power is produced by PV, charges the battery, is taken from the grid, or is consumed. `fresh` is False if the plant
    is not ONLINE, or if the values are older than 15 minutes and than three of its usual intervals.
    """

    pv_kw: float | None
    battery_kw: float | None
    grid_kw: float | None
    load_kw: float | None
    measured_at: datetime
    fresh: bool


class FleetEnergy(msgspec.Struct, frozen=True):
    """Energies in kWh."""

    produced: float
    imported: float
    exported: float
    charged: float
    discharged: float


class FleetPlant(msgspec.Struct, frozen=True, rename="camel"):
    """A plant in a list of the fleet.

    `soc` is the state of charge in %, of the time of its power. `energy_today` is that of the day in the organisation's time
    zone; None if nothing was counted today. `worst_alert` is the highest severity of its `open_alerts`, which are not resolved.
    `last_refused_at` is the time at which a message of the plant was last refused; None if none was in the last 24 hours.
    """

    id: UUID
    name: str
    serial_number: str
    status: PlantStatus
    lifecycle_status: Lifecycle
    template_id: UUID | None
    last_seen_at: datetime | None
    created_at: datetime
    power: FleetPower | None
    soc: float | None
    energy_today: FleetEnergy | None
    open_alerts: int
    worst_alert: Severity | None
    last_refused_at: datetime | None


class AlertCondition(StrEnum):
    """Plants by their alerts that are not resolved: with any, with none, or with one of this severity or a higher one."""

    ANY = "ANY"
    NONE = "NONE"
    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    EMERGENCY = "EMERGENCY"


class FleetSort(StrEnum):
    """What a list of the fleet is sorted by."""

    NAME = "name"
    SERIAL_NUMBER = "serialNumber"
    STATUS = "status"
    LAST_SEEN_AT = "lastSeenAt"
    CREATED_AT = "createdAt"
    PV = "pv"
    BATTERY = "battery"
    GRID = "grid"
    LOAD = "load"
    SOC = "soc"
    ENERGY_TODAY = "energyToday"
    ALERT = "alert"


class SortOrder(StrEnum):
    """Ascending or descending. Records without a value come last in both."""

    ASC = "asc"
    DESC = "desc"


@dataclass(frozen=True, slots=True)
class FleetFilter:
    """Which plants; None and empty collections match all.

    Attributes:
        plant_id: The plant with this id alone.
        search: A part of the name or serial number, in any case.
        template_id: The template of the plant or of one of its sub-devices.
        refused: Whether a message of the plant was refused in the last 24 hours.
    """

    plant_id: UUID | None = None
    search: str | None = None
    statuses: Collection[PlantStatus] = ()
    lifecycles: Collection[Lifecycle] = ()
    group_id: UUID | None = None
    template_id: UUID | None = None
    alert: AlertCondition | None = None
    refused: bool | None = None


class Position(NamedTuple):
    """The place of a plant in a sorted list: what it is sorted by, as text or number, and its id."""

    sort: FleetSort
    order: SortOrder
    value: str | float | None
    id: UUID


@dataclass(frozen=True, slots=True)
class FleetPaging:
    """The requested page: up to `limit` plants after the position `after`, or the first ones."""

    sort: FleetSort = FleetSort.NAME
    order: SortOrder = SortOrder.ASC
    limit: int = 50
    after: Position | None = None


class FleetPlantPageMeta(CursorMeta, frozen=True, rename="camel"):
    """The page's limit, the number of plants that match, and where the next page begins; None on the last one."""


class FleetPlantPage(msgspec.Struct, frozen=True):
    """A page of plants of the fleet."""

    data: list[FleetPlant]
    meta: FleetPlantPageMeta
