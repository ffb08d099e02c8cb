"""`/api/v1/commands`: commands to all plants of the organisation."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import CursorQuery, S, SpanQuery, endpoint, org_member
from gridfleet.domains.plants.commands.listing import queries
from gridfleet.domains.plants.commands.listing.models import CommandDetailed, CommandFilter, ListedCommand
from gridfleet.domains.plants.commands.models import CommandStatus, CommandType
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import CursorPage


class CommandQuery(CursorQuery, SpanQuery):
    """Filter of commands by plant, statuses, types, author and issue time: `from` inclusive, `to` exclusive."""

    plant_id: UUID | None = None
    status: Annotated[list[CommandStatus], Field(max_length=len(CommandStatus))] = []
    type: Annotated[list[CommandType], Field(max_length=len(CommandType))] = []
    issued_by: UUID | None = None


@endpoint(
    "GET",
    "/api/v1/commands",
    caller=org_member(OrgRole.VIEWER, scope="commands:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_all_commands(org: OrgScope, db: Connection, query: CommandQuery) -> CursorPage[ListedCommand]:
    """List commands to all plants of the organisation, newest first.

    Commands that were issued while a plant belonged to another organisation are left out.
    """
    which = CommandFilter(
        query.plant_id, frozenset(query.status), frozenset(query.type), query.issued_by, query.since, query.until
    )
    return await queries.list_all_commands(db, org, which, query.paging)


@endpoint(
    "GET",
    "/api/v1/commands/{commandId}",
    caller=org_member(OrgRole.VIEWER, scope="commands:read"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
    addition=True,
)
async def get_command(org: OrgScope, db: Connection, command_id: UUID) -> CommandDetailed:
    """Return one command with its instruction and the steps until the plant's own result."""
    return await queries.get_command(db, org, command_id)
