"""Sum up a fleet."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

from gridfleet.domains.fleet.days import today_in, zone_of
from gridfleet.domains.fleet.plants.models import FleetEnergy
from gridfleet.domains.fleet.totals import store
from gridfleet.domains.fleet.totals.models import FleetSummary
from gridfleet.domains.telemetry.energy.periods import EnergyBucket, start_of_day
from gridfleet.domains.telemetry.energy.series import MOST_PLANT_HOURS, EnergyQuery, energy_of_fleet
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["fleet_summary"]


async def fleet_summary(db: Connection, org: OrgScope) -> FleetSummary:
    """Return the totals of the plants that the caller may see.

    The energy of today is the live count. That of earlier days comes from the kept energies, which late values correct.
    """
    zone = await zone_of(db, org)
    today = today_in(zone)
    return await store.summary(db, org, await store.open_alerts(db, org), await _earlier_days(db, org, today, zone), today)


async def _earlier_days(db: Connection, org: OrgScope, today: date, zone: ZoneInfo) -> FleetEnergy | None:
    """Return the energy of the month before today; None if there are too many plants to add up."""
    if today.day == 1:
        return FleetEnergy(0.0, 0.0, 0.0, 0.0, 0.0)
    start, end = (start_of_day(day, zone) for day in (today.replace(day=1), today))
    if org.plant_ids is not None and len(org.plant_ids) * ((end - start) // timedelta(hours=1)) > MOST_PLANT_HOURS:
        return None
    total = (await energy_of_fleet(db, org, EnergyQuery(start, end, EnergyBucket.MONTH, zone.key), zone.key)).total
    energies = total.produced, total.imported, total.exported, total.charged, total.discharged
    return FleetEnergy(*(energy or 0.0 for energy in energies))
