"""SQL of plant groups."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.plants.chosen_plants import ChosenPlants
from gridfleet.domains.plants.groups.models import CountedPlantGroup, GroupMember, GroupMemberFilter, PlantGroup
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, containing, fetch_count, fetch_value
from gridfleet.kernel.pagination import CursorPaging, Paging

_COLUMNS = ", ".join(PlantGroup.__struct_fields__)
_OURS = "organization_id = %(org)s AND (%(plants)s::uuid[] IS NULL OR p.id = ANY(%(plants)s))"
_MEMBERS = "SELECT FROM plant_group_member m WHERE m.plant_id = p.id AND m.plant_group_id = %(group)s"


def _member(**row: Any) -> GroupMember:
    row["status"] = PlantStatus(row["status"])
    row["lifecycle_status"] = Lifecycle(row["lifecycle_status"])
    return GroupMember(**row)


async def insert(db: Connection, org: OrgScope, group_id: UUID, name: str, description: str | None) -> PlantGroup:
    """Insert a group without plants."""
    cursor = db.cursor(row_factory=class_row(PlantGroup))
    await cursor.execute(
        f"INSERT INTO plant_group (id, organization_id, name, description) VALUES (%s, %s, %s, %s) RETURNING {_COLUMNS}",
        (group_id, org.organization_id, name, description),
    )
    return (await cursor.fetchall())[0]


async def find(db: Connection, org: OrgScope, group_id: UUID) -> PlantGroup | None:
    """Return the group, or None if the organisation does not have it."""
    cursor = db.cursor(row_factory=class_row(PlantGroup))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM plant_group WHERE id = %s AND organization_id = %s", (group_id, org.organization_id)
    )
    return await cursor.fetchone()


async def page(db: Connection, org: OrgScope, paging: Paging) -> list[CountedPlantGroup]:
    """Return one page of groups, newest first, with the numbers of their plants that the caller may see."""
    plants = ChosenPlants(org.plant_ids)
    cursor = db.cursor(row_factory=class_row(CountedPlantGroup))
    await cursor.execute(
        f"SELECT {_COLUMNS}, (SELECT count(*) FROM plant_group_member m WHERE m.plant_group_id = g.id"
        f" AND {plants.condition('m.plant_id')}) AS plant_count FROM plant_group g WHERE organization_id = %(org)s"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {"org": org.organization_id, "limit": paging.limit, "offset": paging.offset, **plants.parameters},
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope) -> int:
    """Return the number of the organisation's groups."""
    return await fetch_count(db, "SELECT count(*) FROM plant_group WHERE organization_id = %s", (org.organization_id,))


async def of_plant(db: Connection, org: OrgScope, plant_id: UUID) -> list[PlantGroup]:
    """Return the groups of a plant, newest first."""
    cursor = db.cursor(row_factory=class_row(PlantGroup))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM plant_group g WHERE organization_id = %s AND EXISTS ("
        "SELECT FROM plant_group_member m WHERE m.plant_group_id = g.id AND m.plant_id = %s)"
        " ORDER BY created_at DESC, id DESC",
        (org.organization_id, plant_id),
    )
    return await cursor.fetchall()


async def lock(db: Connection, org: OrgScope, group_id: UUID) -> PlantGroup | None:
    """Lock a group until the transaction ends and return it; None if the organisation has no group with this id."""
    cursor = db.cursor(row_factory=class_row(PlantGroup))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM plant_group WHERE id = %s AND organization_id = %s FOR NO KEY UPDATE",
        (group_id, org.organization_id),
    )
    return await cursor.fetchone()


async def lock_members(db: Connection, org: OrgScope, group_id: UUID) -> None:
    """Wait for plants that are being added to a group, and let no other be added until the transaction ends."""
    await db.execute(
        "SELECT FROM plant_group WHERE id = %s AND organization_id = %s FOR UPDATE", (group_id, org.organization_id)
    )


async def update(db: Connection, org: OrgScope, group_id: UUID, changes: dict[str, Any]) -> PlantGroup:
    """Write `changes` (column → value, at least one) to a locked group and return it."""
    cursor = db.cursor(row_factory=class_row(PlantGroup))
    await cursor.execute(
        f"UPDATE plant_group SET {assignments(changes)}, updated_at = now()"
        f" WHERE id = %(id)s AND organization_id = %(org)s RETURNING {_COLUMNS}",
        {**changes, "id": group_id, "org": org.organization_id},
    )
    return (await cursor.fetchall())[0]


async def has_hidden_plants(db: Connection, org: OrgScope, group_id: UUID) -> bool:
    """Return whether the group has plants that the caller may not see; False if the organisation does not have the group."""
    plants = ChosenPlants(org.plant_ids)
    query = (
        "SELECT EXISTS (SELECT FROM plant_group g JOIN plant_group_member m ON m.plant_group_id = g.id"
        f" WHERE g.id = %(group)s AND g.organization_id = %(org)s AND NOT {plants.condition('m.plant_id')})"
    )
    return bool(await fetch_value(db, query, {"group": group_id, "org": org.organization_id, **plants.parameters}))


async def delete(db: Connection, org: OrgScope, group_id: UUID) -> str | None:
    """Delete the group, but not its plants. Returns its name; None if there was none."""
    return await fetch_value(
        db, "DELETE FROM plant_group WHERE id = %s AND organization_id = %s RETURNING name", (group_id, org.organization_id)
    )


_WRITTEN = (
    """string_agg('{"id":"' || p.id || '","name":' || to_json(p.name) || ',"serialNumber":'"""
    """ || to_json(p.serial_number) || ',"status":"' || p.status || '"}', ',' ORDER BY p.created_at DESC, p.id DESC)"""
)
"""The JSON of plants, newest first, separated by commas.

PostgreSQL writes it: for 20,000 plants, rows and records would take longer, and on the event loop.
"""


async def plants_in(db: Connection, org: OrgScope, group_id: UUID) -> tuple[int, str]:
    """Return the number of the group's plants, and their JSON."""
    cursor = await db.execute(
        f"SELECT count(*), coalesce({_WRITTEN}, '') FROM plant p WHERE p.{_OURS} AND EXISTS ({_MEMBERS})",
        {**org.parameters, "group": group_id},
        prepare=False,
    )
    count, text = (await cursor.fetchall())[0]
    return count, text


_OF_GROUP = (
    "FROM plant_group_member m JOIN plant p ON p.id = m.plant_id"
    " WHERE m.plant_group_id = %(group)s AND p.organization_id = %(org)s"
)


def _members(org: OrgScope, group_id: UUID, which: GroupMemberFilter, after: UUID | None) -> tuple[str, dict[str, Any]]:
    """Return the conditions that a filter adds to `_OF_GROUP`, and all parameters."""
    plants = ChosenPlants(org.plant_ids)
    conditions = [plants.condition("p.id")]
    parameters: dict[str, Any] = {"group": group_id, "org": org.organization_id, **plants.parameters}
    if which.statuses:
        conditions.append("p.status = ANY(%(statuses)s)")
        parameters["statuses"] = list(which.statuses)
    if which.search is not None:
        conditions.append("(p.name ILIKE %(search)s OR p.serial_number ILIKE %(search)s)")
        parameters["search"] = containing(which.search)
    if after is not None:
        conditions.append("m.plant_id < %(after)s")
        parameters["after"] = after
    return "".join(f" AND {condition}" for condition in conditions), parameters


async def page_members(
    db: Connection, org: OrgScope, group_id: UUID, which: GroupMemberFilter, paging: CursorPaging[tuple[UUID]]
) -> list[GroupMember]:
    """Return up to one more than the limit of the group's plants, in the descending order of ids, which is that of creation."""
    members, parameters = _members(org, group_id, which, paging.after and paging.after[0])
    cursor = db.cursor(row_factory=kwargs_row(_member))
    await cursor.execute(
        "SELECT p.id, p.name, p.serial_number, p.status, p.lifecycle_status, p.last_seen_at,"
        f" (SELECT count(*) FROM sub_device d WHERE d.plant_id = p.id) AS device_count {_OF_GROUP}{members}"
        " ORDER BY m.plant_id DESC LIMIT %(most)s",
        {**parameters, "most": paging.limit + 1},
    )
    return await cursor.fetchall()


async def count_members(db: Connection, org: OrgScope, group_id: UUID, which: GroupMemberFilter, most: int) -> int:
    """Return the number of the group's plants in the list, at most `most`."""
    members, parameters = _members(org, group_id, which, None)
    return await fetch_count(
        db, f"SELECT count(*) FROM (SELECT {_OF_GROUP}{members} LIMIT %(most)s) AS c", {**parameters, "most": most}
    )


async def count_devices(db: Connection, org: OrgScope, group_id: UUID) -> int:
    """Return the number of sub-devices of the group's plants that the caller may see."""
    members, parameters = _members(org, group_id, GroupMemberFilter(), None)
    return await fetch_count(
        db,
        "SELECT count(*) FROM sub_device d WHERE d.organization_id = %(org)s"
        f" AND d.plant_id IN (SELECT p.id {_OF_GROUP}{members})",
        parameters,
    )


async def plants_outside(db: Connection, org: OrgScope, group_id: UUID) -> str:
    """Return the JSON of the organisation's plants that are not in the group."""
    query = f"SELECT {_WRITTEN} FROM plant p WHERE p.{_OURS} AND NOT EXISTS ({_MEMBERS})"
    return await fetch_value(db, query, {**org.parameters, "group": group_id}, prepare=False) or ""


async def hold_plants(db: Connection, org: OrgScope, plant_ids: Iterable[UUID]) -> set[UUID]:
    """Return the plants that the organisation has. They cannot be moved or deleted until the transaction ends."""
    cursor = await db.execute(
        f"SELECT p.id FROM plant p WHERE p.{_OURS} AND p.id = ANY(%(wanted)s) ORDER BY p.id FOR KEY SHARE",
        {**org.parameters, "wanted": list(plant_ids)},
    )
    return {row[0] for row in await cursor.fetchall()}


async def add(db: Connection, org: OrgScope, group_id: UUID, plant_ids: Iterable[UUID]) -> list[UUID]:
    """Add plants to a group of the organisation. Returns those that were not in it."""
    cursor = await db.execute(
        "INSERT INTO plant_group_member (plant_group_id, plant_id)"
        " SELECT g.id, wanted FROM plant_group g, unnest(%s::uuid[]) AS wanted WHERE g.id = %s AND g.organization_id = %s"
        " ON CONFLICT DO NOTHING RETURNING plant_id",
        (list(plant_ids), group_id, org.organization_id),
    )
    return [row[0] for row in await cursor.fetchall()]


async def remove(db: Connection, org: OrgScope, group_id: UUID, plant_ids: Iterable[UUID]) -> list[UUID]:
    """Remove plants from a group of the organisation. Returns those that were in it."""
    cursor = await db.execute(
        "DELETE FROM plant_group_member m USING plant_group g WHERE g.id = m.plant_group_id AND g.id = %s"
        " AND g.organization_id = %s AND m.plant_id = ANY(%s) RETURNING m.plant_id",
        (group_id, org.organization_id, list(plant_ids)),
    )
    return [row[0] for row in await cursor.fetchall()]


async def leave_all(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Remove a plant from every group of the organisation."""
    await db.execute(
        "DELETE FROM plant_group_member m USING plant_group g WHERE g.id = m.plant_group_id"
        " AND g.organization_id = %s AND m.plant_id = %s",
        (org.organization_id, plant_id),
    )
