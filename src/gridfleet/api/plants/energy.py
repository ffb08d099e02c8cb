"""`/api/v1/plants/{id}/energy`."""

from uuid import UUID

from gridfleet.api.http import S, endpoint, org_member
from gridfleet.domains.telemetry.energy.models import EnergyOfDay
from gridfleet.domains.telemetry.energy.today import energy_of_day
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection


@endpoint(
    "GET",
    "/api/v1/plants/{id}/energy/today",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S),
    kept_seconds=10,
)
async def get_energy_today(org: OrgScope, db: Connection, id: UUID) -> EnergyOfDay:
    """Return what the plant produced, imported and exported since midnight UTC, in kWh.

    The response may be 10 s old. The energies are computed from the counters of the sub-devices whose external ids begin with
    `PV` and of `GRID`, or from their power.
    """
    return await energy_of_day(db, org, id, utc_now())
