"""`/api/v1/plants/{id}/suspend`, `/reactivate`, `/revoke`, and deletion of a plant."""

from uuid import UUID

from gridfleet.api.http import Call, Message, S, endpoint, org_member
from gridfleet.domains.alerts import deletion as alerts
from gridfleet.domains.plants import lifecycle
from gridfleet.domains.vcp import deletion, reactivation
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection


@endpoint(
    "POST",
    "/api/v1/plants/{id}/suspend",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S),
    addition=True,
)
async def suspend_plant(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Make an ACTIVE plant SUSPENDED: it may stay connected, and its messages are discarded."""
    await lifecycle.suspend_plant(db, org, id)
    return Message("The plant is suspended.")


@endpoint(
    "POST", "/api/v1/plants/{id}/reactivate", caller=org_member(OrgRole.ORG_ADMIN), codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S)
)
async def reactivate_plant(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Make a SUSPENDED plant ACTIVE again, with its current credentials.

    Commands and modes that wait for its next connection are sent.
    """
    await reactivation.reactivate_plant(db, org, id)
    return Message("The plant is active again.")


@endpoint(
    "POST", "/api/v1/plants/{id}/revoke", caller=org_member(OrgRole.ORG_ADMIN), codes=("BAD_REQUEST", "PLANT_NOT_FOUND", *S)
)
async def revoke_plant(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Revoke a plant's certificate and secrets permanently. It becomes DECOMMISSIONED.

    It can no longer log in, and its open connections are closed. Its open alerts of rules with `autoResolve` are resolved.
    """
    await alerts.revoke_plant(db, org, id)
    return Message("The plant is decommissioned and its credentials are gone.")


@endpoint("DELETE", "/api/v1/plants/{id}", caller=org_member(OrgRole.ORG_ADMIN), codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S))
async def delete_plant(call: Call, org: OrgScope, id: UUID) -> Message:
    """Delete a plant with its sub-devices and alerts and close its connections. Its telemetry is deleted shortly after.

    Alerts, plans, and commands that have ended, are deleted first: a million take a minute or more.
    """
    await deletion.delete_plant(call.state.shares.of(org), org, id)
    return Message("The plant is deleted.")
