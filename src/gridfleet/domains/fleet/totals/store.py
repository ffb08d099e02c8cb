"""SQL of the totals of a fleet."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Final, NamedTuple

from msgspec.structs import astuple

from gridfleet.domains.fleet.plants.models import FleetEnergy
from gridfleet.domains.fleet.plants.store import FRESH, SEVERITIES, TODAY
from gridfleet.domains.fleet.totals.models import (
    FleetAlerts,
    FleetLifecycles,
    FleetPowerNow,
    FleetStatuses,
    FleetStorage,
    FleetSummary,
)
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.domains.telemetry.power.newest import MOST
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

_POWERS: Final = ("pv_kw", "battery_kw", "grid_kw", "load_kw")
_ENERGIES: Final = ("produced", "imported", "exported", "charged", "discharged")

_STORED: Final = "CASE WHEN abs(w.soc) > 1e-9 AND capacity > 1e-9 THEN w.soc / 100 * capacity ELSE 0 END"
"""Stored energy of a plant in kWh. PostgreSQL rejects products that round to zero, and sums above the largest double."""


class _Group(NamedTuple):
    """Sums of the plants that have the same statuses, and that are all fresh, or of today, or not.

    `measured` counts those that have reported a power, `storages` those with a state of charge and a capacity.
    """

    status: str
    lifecycle_status: str
    fresh: bool
    of_today: bool
    plants: int
    measured: int
    pv_kw: float | None
    battery_kw: float | None
    grid_kw: float | None
    load_kw: float | None
    stored_kwh: float | None
    usable_kwh: float | None
    storages: int
    produced_kwh: float | None
    imported_kwh: float | None
    exported_kwh: float | None
    charged_kwh: float | None
    discharged_kwh: float | None


def _visible(org: OrgScope, column: str) -> str:
    return "" if org.plant_ids is None else f" AND {column} = ANY(%(plants)s)"


async def open_alerts(db: Connection, org: OrgScope) -> FleetAlerts:
    """Return the numbers of alerts that are not resolved."""
    by_severity = ", ".join(f"count(*) FILTER (WHERE severity = '{severity}')" for severity in SEVERITIES)
    cursor = await db.execute(
        f"SELECT {by_severity}, count(DISTINCT plant_id) FROM alert"
        f" WHERE organization_id = %(org)s AND status <> 'RESOLVED'{_visible(org, 'plant_id')}",
        org.parameters,
    )
    [row] = await cursor.fetchall()
    return FleetAlerts(*row)


async def summary(db: Connection, org: OrgScope, alerts: FleetAlerts, before: FleetEnergy | None, today: date) -> FleetSummary:
    """Return the totals with these alerts. One pass over the plants computes all of them.

    Sums of groups of plants with the same statuses take PostgreSQL half as long as sums of all plants with conditions.

    Args:
        db: The connection.
        org: The organisation.
        alerts: The numbers of alerts.
        before: Energy of the earlier days of the month; None if it is not known.
        today: The current day of the organisation.
    """
    columns = [
        "p.status",
        "p.lifecycle_status",
        f"coalesce({FRESH}, false) AS fresh",
        f"coalesce(w.energy_day = {TODAY}, false) AS of_today",
        "count(*)",
        "count(w.measured_at)",
        *(f"sum(w.{one})" for one in _POWERS),
        f"sum({_STORED})",
        "sum(capacity) FILTER (WHERE w.soc IS NOT NULL)",
        "count(capacity) FILTER (WHERE w.soc IS NOT NULL)",
        *(f"sum(w.{one}_kwh)" for one in _ENERGIES),
    ]
    condition = _visible(org, "p.id")
    cursor = await db.execute(
        f"SELECT now(), g.* FROM (VALUES (1)) AS always LEFT JOIN (SELECT {', '.join(columns)}"
        " FROM plant p LEFT JOIN plant_power w ON w.plant_id = p.id"
        " CROSS JOIN LATERAL (SELECT CASE WHEN w.capacity_kwh > 0 THEN w.capacity_kwh"
        f" WHEN p.capacity_kwh > 0 THEN least(p.capacity_kwh, {MOST:.0f}) END AS capacity) AS f"
        f" WHERE p.organization_id = %(org)s{condition} GROUP BY p.status, p.lifecycle_status, fresh, of_today) AS g ON true",
        {**org.parameters, "today": today},
        prepare=False,  # planned for the number of plants of this organisation
    )
    rows = await cursor.fetchall()
    return _summary(rows[0][0], [_Group(*row[1:]) for row in rows if row[1] is not None], alerts, before)


def _summary(as_of: datetime, groups: Sequence[_Group], alerts: FleetAlerts, before: FleetEnergy | None) -> FleetSummary:
    fresh = [one for one in groups if one.fresh]
    in_use = [one for one in groups if one.lifecycle_status != Lifecycle.DECOMMISSIONED]
    of_today = [one for one in groups if one.of_today]
    pv, battery, grid, load = (_total(fresh, name) for name in _POWERS)
    stored, usable = (_total(fresh, name) or 0.0 for name in ("stored_kwh", "usable_kwh"))
    energy_today = FleetEnergy(*(_total(of_today, f"{name}_kwh") or 0.0 for name in _ENERGIES))
    return FleetSummary(
        sum(one.plants for one in groups),
        FleetStatuses(*(sum(one.plants for one in groups if one.status == status) for status in PlantStatus)),
        sum(one.plants for one in in_use if one.status == PlantStatus.OFFLINE),
        FleetLifecycles(*(sum(one.plants for one in groups if one.lifecycle_status == status) for status in Lifecycle)),
        alerts,
        FleetPowerNow(
            pv,
            battery,
            grid,
            load,
            sum(one.plants for one in fresh),
            sum(one.measured for one in in_use if not one.fresh),
        ),
        FleetStorage(stored, usable, sum(one.storages for one in fresh)),
        energy_today,
        before and FleetEnergy(*(round(sum(both), 3) for both in zip(astuple(before), astuple(energy_today), strict=True))),
        as_of,
    )


def _total(groups: Iterable[_Group], name: str) -> float | None:
    """Return the sum of a column; None if no group has it."""
    sums = [found for one in groups if (found := getattr(one, name)) is not None]
    return round(sum(sums), 3) if sums else None
