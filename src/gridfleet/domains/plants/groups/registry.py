"""Create, find, list and change groups and their members."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec
from psycopg import errors as pg

from gridfleet.domains.audit.differences import differences
from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.plants.errors import PlantGroupNotFound
from gridfleet.domains.plants.groups import store
from gridfleet.domains.plants.groups.models import (
    CountedPlantGroup,
    GroupMember,
    GroupMemberFilter,
    PlantGroup,
    PlantGroupChanges,
)
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.errors import Forbidden, NotFound, ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import MOST_COUNTED, CursorPage, CursorPaging, Page, Paging

__all__ = [
    "add_plants",
    "count_devices",
    "create_group",
    "delete_group",
    "get_group",
    "groups_of_plant",
    "list_groups",
    "list_members",
    "plants_in",
    "plants_outside",
    "remove_plants",
    "update_group",
]

MOST_GROUPS: Final = 10_000
"""The most groups of an organisation. The response about a plant names all that it is in (docs/decisions/0428)."""
_MOST_NAMED: Final = 100
"""Plants that an audit event names. A request may add tens of thousands, and a page of events has a hundred."""


async def create_group(db: Connection, org: OrgScope, name: str, description: str | None) -> PlantGroup:
    """Create a group without plants. Raises ValidationFailed if the organisation has too many."""
    if await store.count(db, org) >= MOST_GROUPS:
        raise ValidationFailed(details=[f"name: the organisation has {MOST_GROUPS:,} groups, the maximum"])
    group = await store.insert(db, org, new_id(), name, description)
    await record_in(db, org, Event.PLANT_GROUP_CREATED, _subject(group.id), {"name": name})
    return group


async def get_group(db: Connection, org: OrgScope, group_id: UUID) -> PlantGroup:
    """Return one group.

    Raises:
        PlantGroupNotFound: There is no such group.
    """
    group = await store.find(db, org, group_id)
    if group is None:
        raise PlantGroupNotFound
    return group


async def list_groups(db: Connection, org: OrgScope, paging: Paging) -> Page[CountedPlantGroup]:
    """Return one page of the organisation's groups with the numbers of their plants, newest first."""
    return Page.of(await store.page(db, org, paging), await store.count(db, org), paging)


async def groups_of_plant(db: Connection, org: OrgScope, plant_id: UUID) -> list[PlantGroup]:
    """Return the groups of a plant, newest first."""
    return await store.of_plant(db, org, plant_id)


async def update_group(db: Connection, org: OrgScope, group_id: UUID, changes: PlantGroupChanges) -> PlantGroup:
    """Change a group and return it. An empty change returns it as it is.

    Raises:
        PlantGroupNotFound: There is no such group.
        Forbidden: The caller is limited to some plants, and the group has others.
    """
    before = await store.lock(db, org, group_id)
    if before is None:
        raise PlantGroupNotFound
    columns = given(changes)
    if not columns:
        return before
    if await store.has_hidden_plants(db, org, group_id):
        raise Forbidden("A key that is limited to some plants cannot change a group with other plants.")
    group = await store.update(db, org, group_id, columns)
    if changed := differences(before, group, columns):
        await record_in(db, org, Event.PLANT_GROUP_CHANGED, _subject(group_id), changed)
    return group


async def delete_group(db: Connection, org: OrgScope, group_id: UUID) -> None:
    """Delete a group, but not its plants.

    Raises:
        PlantGroupNotFound: There is no such group.
        Forbidden: The caller is limited to some plants, and the group has others.
    """
    await store.lock_members(db, org, group_id)
    if await store.has_hidden_plants(db, org, group_id):
        raise Forbidden("A key that is limited to some plants cannot delete a group with other plants.")
    name = await store.delete(db, org, group_id)
    if name is None:
        raise PlantGroupNotFound
    await record_in(db, org, Event.PLANT_GROUP_DELETED, _subject(group_id), {"name": name})


async def plants_in(db: Connection, org: OrgScope, group_id: UUID) -> tuple[int, msgspec.Raw]:
    """Return the number of plants in the group, and these, newest first, as the JSON of a list of `BriefPlant`.

    Raises:
        PlantGroupNotFound: There is no such group.
    """
    await get_group(db, org, group_id)
    count, text = await store.plants_in(db, org, group_id)
    return count, msgspec.Raw(f"[{text}]".encode())


async def list_members(
    db: Connection, org: OrgScope, group_id: UUID, which: GroupMemberFilter, paging: CursorPaging[tuple[UUID]]
) -> CursorPage[GroupMember]:
    """Return one page of the plants in the group, newest first.

    Raises:
        PlantGroupNotFound: There is no such group.
    """
    await get_group(db, org, group_id)
    members = await store.page_members(db, org, group_id, which, paging)
    total = await store.count_members(db, org, group_id, which, MOST_COUNTED)
    return CursorPage.of([((member.id,), member) for member in members], total, paging)


async def count_devices(db: Connection, org: OrgScope, group_id: UUID) -> int:
    """Return the number of sub-devices of the group's plants; 0 if there is no such group."""
    return await store.count_devices(db, org, group_id)


async def plants_outside(db: Connection, org: OrgScope, group_id: UUID) -> msgspec.Raw:
    """Return the organisation's plants that are not in the group, newest first, as the JSON of a list of `BriefPlant`.

    Raises:
        PlantGroupNotFound: There is no such group.
    """
    await get_group(db, org, group_id)
    return msgspec.Raw(f"[{await store.plants_outside(db, org, group_id)}]".encode())


async def add_plants(db: Connection, org: OrgScope, group_id: UUID, plant_ids: Iterable[UUID]) -> None:
    """Add all of the plants to the group, or none.

    Raises:
        PlantGroupNotFound: There is no such group.
        NotFound: One of the plants does not exist.
    """
    wanted = await _require_plants(db, org, group_id, plant_ids)
    try:
        added = await store.add(db, org, group_id, wanted)
    except pg.ForeignKeyViolation:  # the group was deleted in the meantime; the plants are held
        raise PlantGroupNotFound from None
    await _record_plants(db, org, Event.PLANT_GROUP_PLANTS_ADDED, group_id, added)


async def remove_plants(db: Connection, org: OrgScope, group_id: UUID, plant_ids: Iterable[UUID]) -> None:
    """Remove all of the plants from the group, or none.

    Raises:
        PlantGroupNotFound: There is no such group.
        NotFound: One of the plants does not exist.
    """
    wanted = await _require_plants(db, org, group_id, plant_ids)
    removed = await store.remove(db, org, group_id, wanted)
    await _record_plants(db, org, Event.PLANT_GROUP_PLANTS_REMOVED, group_id, removed)


async def _record_plants(db: Connection, org: OrgScope, event: Event, group_id: UUID, plant_ids: list[UUID]) -> None:
    """Record which plants joined or left a group: their number, and the first hundred of them."""
    if plant_ids:
        details = {"plants": len(plant_ids), "plantIds": [str(plant_id) for plant_id in sorted(plant_ids)[:_MOST_NAMED]]}
        await record_in(db, org, event, _subject(group_id), details)


def _subject(group_id: UUID) -> Subject:
    return Subject(SubjectType.PLANT_GROUP, group_id)


async def _require_plants(db: Connection, org: OrgScope, group_id: UUID, plant_ids: Iterable[UUID]) -> list[UUID]:
    await get_group(db, org, group_id)
    wanted = list(dict.fromkeys(plant_ids))
    found = await store.hold_plants(db, org, wanted)
    if missing := [plant_id for plant_id in wanted if plant_id not in found]:
        raise NotFound("One of the plants does not exist.", [f"plantIds: there is no plant {each}" for each in missing[:20]])
    return wanted
