"""SQL of sub-devices."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.device_templates.models import DeviceType
from gridfleet.domains.plants.presence.store import AHEAD, READ_UNTIL
from gridfleet.domains.plants.sub_devices.models import SubDevice, SubDeviceStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, containing, fetch_count, with_raw_json
from gridfleet.kernel.pagination import Paging

_COLUMNS = ", ".join(SubDevice.__struct_fields__)
_FILTER = (
    "plant_id = %(plant)s AND organization_id = %(org)s"
    " AND (%(type)s::text IS NULL OR type = %(type)s) AND (%(status)s::text IS NULL OR status = %(status)s)"
    " AND (%(search)s::text IS NULL OR external_id ILIKE %(search)s OR name ILIKE %(search)s OR serial_number ILIKE %(search)s)"
)


def _sub_device(**row: Any) -> SubDevice:
    row["type"] = DeviceType(row["type"])
    row["status"] = SubDeviceStatus(row["status"])
    return SubDevice(**row)


async def hold_plant(db: Connection, org: OrgScope, plant_id: UUID) -> bool:
    """Hold the plant until the transaction ends. Returns False if the caller may not see it."""
    cursor = await db.execute(
        "SELECT FROM plant WHERE id = %(plant)s AND organization_id = %(org)s"
        " AND (%(plants)s::uuid[] IS NULL OR id = ANY(%(plants)s)) FOR KEY SHARE",
        {"plant": plant_id, **org.parameters},
    )
    return cursor.rowcount > 0


async def insert(
    db: Connection,
    org: OrgScope,
    sub_device_id: UUID,
    plant_id: UUID,
    external_id: str,
    name: str,
    type: DeviceType,
    serial_number: str | None,
    template_id: UUID | None,
    metadata: dict[str, Any],
) -> SubDevice | None:
    """Insert a sub-device and return it; None if the plant has a sub-device with that external id."""
    cursor = db.cursor(row_factory=kwargs_row(_sub_device))
    await cursor.execute(
        "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, serial_number, template_id, metadata)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT sub_device_external_key DO NOTHING RETURNING {_COLUMNS}",
        (
            sub_device_id,
            org.organization_id,
            plant_id,
            external_id,
            name,
            type,
            serial_number,
            template_id,
            Jsonb(metadata),
        ),
    )
    return await cursor.fetchone()


async def find(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> SubDevice | None:
    """Return the sub-device, or None if the organisation does not have it."""
    cursor = db.cursor(row_factory=kwargs_row(_sub_device))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM sub_device WHERE plant_id = %s AND external_id = %s AND organization_id = %s",
        (plant_id, external_id, org.organization_id),
    )
    return await cursor.fetchone()


async def lock(db: Connection, org: OrgScope, plant_id: UUID, external_id: str, *, to_delete: bool = False) -> SubDevice | None:
    """Return the sub-device, locked until the transaction ends, or None if the organisation does not have it."""
    cursor = db.cursor(row_factory=kwargs_row(_sub_device))
    # Only a deletion keeps others from holding the row, such as batches that raise alerts about it.
    strength = "UPDATE" if to_delete else "NO KEY UPDATE"
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM sub_device WHERE plant_id = %s AND external_id = %s AND organization_id = %s FOR {strength}",
        (plant_id, external_id, org.organization_id),
    )
    return await cursor.fetchone()


async def update(db: Connection, org: OrgScope, sub_device_id: UUID, changes: dict[str, Any]) -> SubDevice:
    """Write `changes` (column → value, at least one) to the locked sub-device and return it."""
    cursor = db.cursor(row_factory=kwargs_row(_sub_device))
    await cursor.execute(
        f"UPDATE sub_device SET {assignments(changes)}, updated_at = now()"
        f" WHERE id = %(id)s AND organization_id = %(org)s RETURNING {_COLUMNS}",
        {**changes, "id": sub_device_id, "org": org.organization_id},
    )
    return (await cursor.fetchall())[0]


async def delete(db: Connection, org: OrgScope, sub_device_id: UUID) -> None:
    """Delete the locked sub-device, but not its telemetry."""
    await db.execute("DELETE FROM sub_device WHERE id = %s AND organization_id = %s", (sub_device_id, org.organization_id))


def _parameters(
    org: OrgScope, plant_id: UUID, type: DeviceType | None, status: SubDeviceStatus | None, search: str | None
) -> dict[str, Any]:
    pattern = None if search is None else containing(search)
    return {"plant": plant_id, "org": org.organization_id, "type": type, "status": status, "search": pattern}


async def page(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    type: DeviceType | None,
    status: SubDeviceStatus | None,
    search: str | None,
    paging: Paging,
) -> list[SubDevice]:
    """Return one page of sub-devices, newest first."""
    cursor = with_raw_json(db.cursor(row_factory=kwargs_row(_sub_device)))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM sub_device WHERE {_FILTER}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {**_parameters(org, plant_id, type, status, search), "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    type: DeviceType | None,
    status: SubDeviceStatus | None,
    search: str | None,
) -> int:
    """Return the number of sub-devices in the list."""
    return await fetch_count(
        db, f"SELECT count(*) FROM sub_device WHERE {_FILTER}", _parameters(org, plant_id, type, status, search)
    )


async def external_ids(db: Connection, org: OrgScope, plant_id: UUID, type: DeviceType) -> list[str]:
    """Return the external ids of the plant's sub-devices of this type."""
    cursor = await db.execute(
        "SELECT external_id FROM sub_device WHERE plant_id = %s AND organization_id = %s AND type = %s",
        (plant_id, org.organization_id, type),
    )
    return [external_id for (external_id,) in await cursor.fetchall()]


async def count_of_organization(db: Connection, org: OrgScope) -> int:
    """Return the number of sub-devices of the organisation."""
    return await fetch_count(db, "SELECT count(*) FROM sub_device WHERE organization_id = %s", (org.organization_id,))


async def lock_many(db: Connection, sub_device_ids: Iterable[UUID], plant_ids: Iterable[UUID]) -> None:
    """Lock sub-devices, and those of plants that `invalidate_status` changes, until the transaction ends.

    Rows are locked in the order of their ids, so that two such transactions cannot deadlock.
    """
    await db.execute(
        # One list of ids. With OR, each row that the indexes find is compared with all ids of the batch again.
        "SELECT FROM sub_device WHERE id = ANY(%s::uuid[] || ARRAY("
        "SELECT id FROM sub_device WHERE plant_id = ANY(%s) AND status <> 'UNKNOWN')) ORDER BY id FOR NO KEY UPDATE",
        (list(sub_device_ids), list(plant_ids)),
    )


async def record_presence(db: Connection, seen: Iterable[tuple[UUID, datetime, SubDeviceStatus, float | None]]) -> None:
    """Update sub-devices whose plant is not OFFLINE; time never moves back.

    Args:
        seen: Sub-device, time, status, usual interval in seconds if known.
    """
    rows = list(seen)
    await db.execute(
        # The ids once more, or the planner reads the devices of all plants as soon as a batch has some thousands.
        "UPDATE sub_device d SET last_seen_at = greatest(d.last_seen_at, seen.at), status = seen.status,"
        " usual_interval_seconds = coalesce(seen.every, d.usual_interval_seconds)"
        " FROM unnest(%(ids)s::uuid[], %(at)s::timestamptz[], %(statuses)s::text[], %(every)s::real[])"
        " AS seen (id, at, status, every), plant p"
        " WHERE d.id = ANY(%(ids)s::uuid[]) AND d.id = seen.id AND p.id = d.plant_id AND p.status <> 'OFFLINE'",
        {name: [row[column] for row in rows] for column, name in enumerate(("ids", "at", "statuses", "every"))},
    )


async def invalidate_status(db: Connection, plant_ids: Iterable[UUID]) -> None:
    """Set the sub-devices of plants that went OFFLINE to UNKNOWN."""
    await db.execute(
        "WITH held AS (SELECT id FROM sub_device WHERE plant_id = ANY(%s) AND status <> 'UNKNOWN'"
        " ORDER BY id FOR NO KEY UPDATE)"
        " UPDATE sub_device d SET status = 'UNKNOWN' FROM held WHERE d.id = held.id",
        (list(plant_ids),),
    )


async def clear_status_of(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Set the sub-devices of one plant of the organisation to UNKNOWN."""
    await db.execute(
        "UPDATE sub_device SET status = 'UNKNOWN' WHERE plant_id = %s AND organization_id = %s AND status <> 'UNKNOWN'",
        (plant_id, org.organization_id),
    )


async def mark_silent(db: Connection, most: int | None) -> int:
    """Mark sub-devices as OFFLINE if they no longer send while their plant is ONLINE, by the rules for plants.

    A `last_seen_at` in the future becomes the present, as for plants. Waits for no lock.

    Returns:
        The number of changed sub-devices, at most `most`.
    """
    return await fetch_count(
        db,
        f"WITH silent AS (SELECT d.id, d.{AHEAD} AS ahead FROM sub_device d"
        " JOIN plant p ON p.id = d.plant_id AND p.status = 'ONLINE' WHERE d.status IN ('ONLINE', 'DEGRADED')"
        f" AND (d.{AHEAD}"
        f" OR d.last_seen_at < {READ_UNTIL}"
        " - greatest(90, 3 * coalesce(d.usual_interval_seconds, 0)) * interval '1 second')"
        " LIMIT %s FOR NO KEY UPDATE OF d SKIP LOCKED),"
        " updated AS (UPDATE sub_device d SET last_seen_at = least(d.last_seen_at, now()),"
        " status = CASE WHEN silent.ahead THEN d.status ELSE 'OFFLINE' END FROM silent WHERE d.id = silent.id RETURNING 1)"
        " SELECT count(*) FROM updated",
        (most,),
    )


async def of_plants(db: Connection, plant_ids: Collection[UUID]) -> list[tuple[UUID, UUID, str, UUID | None, float | None]]:
    """Return (plant, sub-device, external id, template, usual interval in seconds) of every sub-device of the plants."""
    cursor = await db.execute(
        "SELECT plant_id, id, external_id, template_id, usual_interval_seconds FROM sub_device WHERE plant_id = ANY(%s)",
        (list(plant_ids),),
    )
    return await cursor.fetchall()


async def find_named(
    db: Connection, names: Sequence[tuple[UUID, str]]
) -> list[tuple[UUID, UUID, str, UUID | None, float | None]]:
    """Return the same as `of_plants` for those sub-devices that exist with these plants and external ids."""
    cursor = await db.execute(
        "SELECT d.plant_id, d.id, d.external_id, d.template_id, d.usual_interval_seconds"
        " FROM unnest(%s::uuid[], %s::text[]) AS n (plant_id, external_id) JOIN sub_device d USING (plant_id, external_id)",
        ([plant_id for plant_id, _ in names], [name for _, name in names]),
    )
    return await cursor.fetchall()
