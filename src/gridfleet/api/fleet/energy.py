"""`/api/v1/fleet/energy`."""

from gridfleet.api.http import S, endpoint, org_member
from gridfleet.api.plants.energy import EnergyRange
from gridfleet.domains.organizations.registry import get
from gridfleet.domains.telemetry.energy.models import EnergyOverTime
from gridfleet.domains.telemetry.energy.series import energy_of_fleet
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "GET",
    "/api/v1/fleet/energy",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
    kept_seconds=10,
)
async def get_fleet_energy(org: OrgScope, db: Connection, query: EnergyRange) -> EnergyOverTime:
    """Return the energy of all plants over time, in kWh.

    Hours are included some minutes after their end (`asOf`). The response may be 10 s old.
    """
    organization = await get(db, org.organization_id)
    return await energy_of_fleet(db, org, query.as_query, organization.time_zone)
