"""The totals of a fleet."""

from datetime import datetime

import msgspec

from gridfleet.domains.fleet.plants.models import FleetEnergy

__all__ = ["FleetAlerts", "FleetLifecycles", "FleetPowerNow", "FleetStatuses", "FleetStorage", "FleetSummary"]


class FleetStatuses(msgspec.Struct, frozen=True):
    """Number of plants by status."""

    online: int
    offline: int
    unknown: int


class FleetLifecycles(msgspec.Struct, frozen=True):
    """Number of plants by lifecycle status."""

    pending: int
    active: int
    suspended: int
    decommissioned: int


class FleetAlerts(msgspec.Struct, frozen=True):
    """Number of unresolved alerts by severity, and of the plants that have any."""

    info: int
    warning: int
    critical: int
    emergency: int
    plants: int


class FleetPowerNow(msgspec.Struct, frozen=True, rename="camel"):
    """Sums of the powers of `fresh_plants` in kW; None if none of them reports it.

    `stale_plants` are not in the sums: their last reported power is old, or they are not ONLINE. Decommissioned plants are
    left out.
    """

    pv_kw: float | None
    battery_kw: float | None
    grid_kw: float | None
    load_kw: float | None
    fresh_plants: int
    stale_plants: int


class FleetStorage(msgspec.Struct, frozen=True, rename="camel"):
    """Stored energy and usable capacity in kWh of `plants`: those with a fresh state of charge and a known capacity."""

    stored_kwh: float
    usable_kwh: float
    plants: int


class FleetSummary(msgspec.Struct, frozen=True, rename="camel"):
    """The totals of the plants that the caller may see, as of `as_of`.

    `offline_in_use` counts the plants that are OFFLINE, without those that were revoked, which stay OFFLINE.
    Energies are those of the day and of its month in the organisation's time zone, in kWh. `energy_month` is None for an API
    key that is limited to too many plants to add up their days.
    """

    plants: int
    status: FleetStatuses
    offline_in_use: int
    lifecycle_status: FleetLifecycles
    alerts: FleetAlerts
    power: FleetPowerNow
    storage: FleetStorage
    energy_today: FleetEnergy
    energy_month: FleetEnergy | None
    as_of: datetime
