"""`/api/v1/fleet/summary`."""

from gridfleet.api.http import S, endpoint, org_member
from gridfleet.domains.fleet.totals.models import FleetSummary
from gridfleet.domains.fleet.totals.summary import fleet_summary
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "GET",
    "/api/v1/fleet/summary",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=S,
    addition=True,
    kept_seconds=2,
)
async def get_fleet_summary(org: OrgScope, db: Connection) -> FleetSummary:
    """Return counts of plants and alerts, power now, stored energy, and energy today and this month.

    Only values that are fresh are in the sums of power and stored energy. The response may be two seconds old, since `asOf`.
    """
    return await fleet_summary(db, org)
