"""SQL of the totals of a fleet."""

from datetime import date
from typing import Any, Final

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


def _visible(org: OrgScope, column: str) -> tuple[str, dict[str, Any]]:
    if org.plant_ids is None:
        return "", {"org": org.organization_id}
    return f" AND {column} = ANY(%(plants)s)", {"org": org.organization_id, "plants": list(org.plant_ids)}


async def open_alerts(db: Connection, org: OrgScope) -> FleetAlerts:
    """Return the numbers of alerts that are not resolved."""
    condition, parameters = _visible(org, "plant_id")
    by_severity = ", ".join(f"count(*) FILTER (WHERE severity = '{severity}')" for severity in SEVERITIES)
    cursor = await db.execute(
        f"SELECT {by_severity}, count(DISTINCT plant_id) FROM alert"
        f" WHERE organization_id = %(org)s AND status <> 'RESOLVED'{condition}",
        parameters,
    )
    row = await cursor.fetchone()
    assert row is not None
    return FleetAlerts(*row)


async def summary(db: Connection, org: OrgScope, alerts: FleetAlerts, before: FleetEnergy | None, today: date) -> FleetSummary:
    """Return the totals with these alerts. One pass over the plants computes all of them.

    Args:
        db: The connection.
        org: The organisation.
        alerts: The numbers of alerts.
        before: Energy of the earlier days of the month; None if it is not known.
        today: The present day of the organisation.
    """
    condition, parameters = _visible(org, "p.id")
    parameters["today"] = today
    columns = [
        "now()",
        "count(*)",
        *(f"count(*) FILTER (WHERE p.status = '{one}')" for one in PlantStatus),
        *(f"count(*) FILTER (WHERE p.lifecycle_status = '{one}')" for one in Lifecycle),
        *(f"sum(w.{one}) FILTER (WHERE fresh)" for one in _POWERS),
        "count(*) FILTER (WHERE fresh)",
        "count(w.measured_at) FILTER (WHERE fresh IS NOT TRUE)",
        f"coalesce(sum({_STORED}) FILTER (WHERE fresh), 0)",
        "coalesce(sum(capacity) FILTER (WHERE fresh AND w.soc IS NOT NULL), 0)",
        "count(capacity) FILTER (WHERE fresh AND w.soc IS NOT NULL)",
        *(f"coalesce(sum(w.{one}_kwh) FILTER (WHERE w.energy_day = {TODAY}), 0)" for one in _ENERGIES),
    ]
    cursor = await db.execute(
        f"SELECT {', '.join(columns)} FROM (SELECT p.id, p.status, p.lifecycle_status, p.usual_interval_seconds, p.capacity_kwh"
        f" FROM plant p WHERE p.organization_id = %(org)s{condition}) AS p LEFT JOIN plant_power w ON w.plant_id = p.id"
        f" CROSS JOIN LATERAL (SELECT {FRESH} AS fresh,"
        " CASE WHEN w.capacity_kwh > 0 THEN w.capacity_kwh"
        f" WHEN p.capacity_kwh > 0 THEN least(p.capacity_kwh, {MOST:.0f}) END AS capacity) AS f",
        parameters,
    )
    row = await cursor.fetchone()
    assert row is not None
    as_of, plants, *numbers = row
    pv, battery, grid, load = (one if one is None else round(one, 3) for one in numbers[7:11])
    energy_today = FleetEnergy(*(round(one, 3) for one in numbers[16:21]))
    return FleetSummary(
        plants,
        FleetStatuses(*numbers[:3]),
        FleetLifecycles(*numbers[3:7]),
        alerts,
        FleetPowerNow(pv, battery, grid, load, numbers[11], numbers[12]),
        FleetStorage(round(numbers[13], 3), round(numbers[14], 3), numbers[15]),
        energy_today,
        before and FleetEnergy(*(round(sum(both), 3) for both in zip(astuple(before), astuple(energy_today), strict=True))),
        as_of,
    )
