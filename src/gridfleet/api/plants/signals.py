"""`/api/v1/plants/{plantId}/sub-devices/{externalId}/signals`."""

from uuid import UUID

from gridfleet.api.http import S, endpoint, org_member
from gridfleet.domains.telemetry.history.models import LatestSignal
from gridfleet.domains.telemetry.latest.queries import latest_signals
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "GET",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}/signals/latest",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("INVALID_UUID", "SUB_DEVICE_NOT_FOUND", *S),
)
async def get_latest_signals(org: OrgScope, db: Connection, plant_id: UUID, external_id: str) -> list[LatestSignal]:
    """Return the newest value of each metric of a sub-device; empty if there is none."""
    return await latest_signals(db, org, plant_id, external_id)
