"""`/api/v1/plants/{plantId}/sub-devices/{externalId}/commands`."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Input, PageQuery, S, endpoint, org_member
from gridfleet.domains.plants.commands import dispatch
from gridfleet.domains.plants.commands.listing import queries
from gridfleet.domains.plants.commands.models import PlantCommand
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class NewCommand(Input):
    """An action that the sub-device's template declares, with its parameters."""

    action: Annotated[str, Field(max_length=64)]
    params: dict[str, Any] = {}


class IssuedCommand(msgspec.Struct, frozen=True, rename="camel"):
    """An issued command. The list of commands shows its state."""

    message: str
    command_id: UUID


@endpoint(
    "POST",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}/commands",
    caller=org_member(OrgRole.OPERATOR, scope="commands:execute"),
    codes=("COMMAND_ACTION_NOT_IN_TEMPLATE", "INVALID_UUID", "SUB_DEVICE_NOT_FOUND", *S),
    bad_input="COMMAND_ACTION_NOT_IN_TEMPLATE",
    once=True,
)
async def send_command(org: OrgScope, db: Connection, plant_id: UUID, external_id: str, body: NewCommand) -> IssuedCommand:
    """Send a command to a sub-device through its plant, which must be ACTIVE.

    The response does not wait for the plant. The command expires unless the plant reports a result within the action's time.
    Send an `Idempotency-Key` if you may repeat the request: without it, each request is a separate command.
    """
    command_id = await dispatch.issue_device_command(db, org, plant_id, external_id, body.action, body.params)
    return IssuedCommand(f"{body.action} was issued to {external_id}.", command_id)


@endpoint(
    "GET",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}/commands",
    caller=org_member(OrgRole.VIEWER, scope="commands:read"),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "SUB_DEVICE_NOT_FOUND", *S),
    addition=True,
)
async def list_commands(
    org: OrgScope, db: Connection, plant_id: UUID, external_id: str, query: PageQuery
) -> Page[PlantCommand]:
    """List the commands to a sub-device with their states, newest first."""
    return await queries.list_commands(db, org, plant_id, external_id, query.paging)
