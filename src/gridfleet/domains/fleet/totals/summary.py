"""Sum up a fleet."""

from datetime import UTC, timedelta

from gridfleet.domains.fleet.plants.models import FleetEnergy
from gridfleet.domains.fleet.totals import store
from gridfleet.domains.fleet.totals.models import FleetSummary
from gridfleet.domains.telemetry.energy.periods import EnergyBucket
from gridfleet.domains.telemetry.energy.series import MOST_PLANT_HOURS, EnergyQuery, energy_of_fleet
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["fleet_summary"]


async def fleet_summary(db: Connection, org: OrgScope) -> FleetSummary:
    """Return the totals of the plants that the caller may see.

    The energy of today is the live count. That of earlier days comes from the kept energies, which late values correct.
    """
    return await store.summary(db, org, await store.open_alerts(db, org), await _earlier_days(db, org))


async def _earlier_days(db: Connection, org: OrgScope) -> FleetEnergy | None:
    """Return the energy of the month before today; None if there are too many plants to add up."""
    today = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = today.replace(day=1)
    if first == today:
        return FleetEnergy(0.0, 0.0, 0.0, 0.0, 0.0)
    if org.plant_ids is not None and len(org.plant_ids) * ((today - first) // timedelta(hours=1)) > MOST_PLANT_HOURS:
        return None
    total = (await energy_of_fleet(db, org, EnergyQuery(first, today, EnergyBucket.MONTH, "UTC"), "UTC")).total
    energies = total.produced, total.imported, total.exported, total.charged, total.discharged
    return FleetEnergy(*(energy or 0.0 for energy in energies))
