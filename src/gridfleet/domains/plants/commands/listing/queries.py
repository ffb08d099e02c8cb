"""List commands over all plants, and read one with its steps."""

from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec.structs import replace

from gridfleet.domains.organizations.actors import actor_names
from gridfleet.domains.plants.commands.errors import CommandNotFound
from gridfleet.domains.plants.commands.expiry import as_of
from gridfleet.domains.plants.commands.listing import store
from gridfleet.domains.plants.commands.listing.models import CommandDetailed, CommandFilter, CommandStep, ListedCommand
from gridfleet.domains.plants.commands.models import PlantCommand
from gridfleet.domains.plants.sub_devices.registry import get_sub_device
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import MOST_COUNTED, CursorPage, CursorPaging, Page, Paging, TimeKey

__all__ = ["find_commands", "get_command", "list_all_commands", "list_commands"]


async def list_all_commands(
    db: Connection, org: OrgScope, which: CommandFilter, paging: CursorPaging[TimeKey]
) -> CursorPage[ListedCommand]:
    """Return one page of the commands to the organisation's plants, newest first."""
    now = utc_now()
    commands = await store.page(db, org, which, now, paging)
    named = await _with_names(db, org, [as_of(command, now) for command in commands])
    total = await store.count(db, org, which, now, MOST_COUNTED)
    return CursorPage.of([((command.issued_at, command.id), command) for command in named], total, paging)


async def get_command(db: Connection, org: OrgScope, command_id: UUID) -> CommandDetailed:
    """Return one command with its steps.

    Raises:
        CommandNotFound: There is no such command.
    """
    found = await store.find(db, org, command_id)
    if found is None:
        raise CommandNotFound
    stored, instruction = found
    [command] = await _with_names(db, org, [as_of(stored, utc_now())])
    steps = await store.steps(db, org, command_id)
    if command.status is not stored.status:  # no process has recorded yet that it expired
        steps.append(CommandStep(command.status, command.expires_at, late=False, reported_at=None, reason=command.reason))
    return CommandDetailed(**msgspec.structs.asdict(command), instruction=instruction, steps=steps)


async def _with_names(db: Connection, org: OrgScope, commands: Sequence[ListedCommand]) -> list[ListedCommand]:
    names = await actor_names(db, org, [command.requested_by.id for command in commands])
    return [replace(command, requested_by_name=names.get(command.requested_by.id)) for command in commands]


async def list_commands(db: Connection, org: OrgScope, plant_id: UUID, external_id: str, paging: Paging) -> Page[PlantCommand]:
    """Return one page of the commands to a sub-device, newest first.

    Raises:
        SubDeviceNotFound: There is no such sub-device.
    """
    device = await get_sub_device(db, org, plant_id, external_id)
    now = utc_now()
    commands = await store.page_of_device(db, org, device.id, paging)
    return Page.of([as_of(command, now) for command in commands], await store.count_of_device(db, org, device.id), paging)


async def find_commands(db: Connection, org: OrgScope, command_ids: Sequence[UUID]) -> list[PlantCommand]:
    """Return those of the commands that the organisation issued and whose plants the caller may see."""
    now = utc_now()
    return [as_of(command, now) for command in await store.find_many(db, org, command_ids)]
