"""SQL of refused messages and unregistered devices."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import args_row, class_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.plants.refused_messages.models import RefusedMessage, UnregisteredDevice, UnregisteredSeen
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.envelope import RefusalReason

_COLUMNS = ", ".join(RefusedMessage.__struct_fields__)
_OF_PLANT = "plant_id = %(plant)s AND EXISTS (SELECT FROM plant p WHERE p.id = plant_id AND p.organization_id = %(org)s)"
_OURS = f"organization_id = %(org)s AND {_OF_PLANT}"
"""What the plant has sent since it has belonged to the organisation."""


class Surplus(NamedTuple):
    """The position of a refused message in the list of its plant."""

    plant_id: UUID
    received_at: datetime
    id: UUID


def _refused(**row: Any) -> RefusedMessage:
    row["reason"] = RefusalReason(row["reason"])
    return RefusedMessage(**row)


async def insert_refused(
    db: Connection, messages: Iterable[tuple[UUID, RefusedMessage]], since: datetime, until: datetime, most: int
) -> None:
    """Insert refused messages of existing plants, until a plant has `most` that were received after `since`, up to `until`.

    Args:
        messages: (plant, refused message).
    """
    rows = list(messages)
    # MATERIALIZED: otherwise the room is counted for each message, which takes 0.8 ms when there is none. KEY SHARE: otherwise
    # the foreign key of a plant that is being deleted fails the batch, and all plants have to be read again.
    await db.execute(
        "WITH refused AS (SELECT r.*, row_number() OVER (PARTITION BY plant_id ORDER BY number) AS position"
        " FROM unnest(%s::uuid[], %s::uuid[], %s::timestamptz[], %s::text[], %s::text[], %s::text[], %s::text[], %s::int[])"
        f" WITH ORDINALITY AS r (plant_id, {_COLUMNS}, number)),"
        " room AS MATERIALIZED (SELECT p.id AS plant_id, p.organization_id, %s - (SELECT count(*) FROM (SELECT FROM"
        " refused_message m WHERE m.plant_id = p.id AND m.received_at > %s AND m.received_at <= %s LIMIT %s) lately) AS free"
        " FROM plant p WHERE p.id IN (SELECT plant_id FROM refused) ORDER BY p.id FOR KEY SHARE OF p)"
        f" INSERT INTO refused_message (plant_id, organization_id, {_COLUMNS}) SELECT plant_id, organization_id, {_COLUMNS}"
        " FROM refused JOIN room USING (plant_id) WHERE position <= free",
        (
            [plant_id for plant_id, _ in rows],
            *([getattr(message, name) for _, message in rows] for name in RefusedMessage.__struct_fields__),
            *(most, since, until, most),
        ),
    )


async def page_refused(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> list[RefusedMessage]:
    """Return one page of the refused messages of a plant since it has belonged to the organisation, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_refused))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM refused_message WHERE {_OURS}"
        " ORDER BY received_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {"plant": plant_id, "org": org.organization_id, "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count_refused(db: Connection, org: OrgScope, plant_id: UUID) -> int:
    """Return the number of stored refused messages of the plant."""
    return await fetch_count(
        db, f"SELECT count(*) FROM refused_message WHERE {_OURS}", {"plant": plant_id, "org": org.organization_id}
    )


async def delete_old_refused(db: Connection, limit: int, max_age: timedelta) -> int:
    """Delete up to `limit` refused messages that are older than `max_age`. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM refused_message WHERE id = ANY (ARRAY(SELECT id FROM refused_message WHERE received_at < now() - %s"
        " ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED))",
        (max_age, limit),
    )
    return cursor.rowcount


async def delete_early_refused(db: Connection, limit: int, ahead: timedelta) -> int:
    """Delete up to `limit` refused messages whose time is more than `ahead` in the future. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM refused_message WHERE id = ANY (ARRAY(SELECT id FROM refused_message WHERE received_at > now() + %s"
        " ORDER BY received_at LIMIT %s FOR UPDATE SKIP LOCKED))",
        (ahead, limit),
    )
    return cursor.rowcount


async def newest_surplus(db: Connection, max_per_plant: int) -> list[Surplus]:
    """Return the newest surplus message of each plant that has more than `max_per_plant`."""
    # Plant by plant: numbering all messages takes longer the more there are, and longest during a flood, when trimming
    # matters most.
    cursor = db.cursor(row_factory=args_row(Surplus))
    await cursor.execute(
        "SELECT p.id, o.received_at, o.id FROM plant p CROSS JOIN LATERAL (SELECT received_at, id FROM refused_message"
        " WHERE plant_id = p.id ORDER BY received_at DESC, id DESC OFFSET %s LIMIT 1) AS o",
        (max_per_plant,),
    )
    return await cursor.fetchall()


async def delete_surplus(db: Connection, limit: int, newest: Surplus) -> int:
    """Delete up to `limit` refused messages of a plant: the surplus one `newest`, and older ones. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM refused_message WHERE id = ANY (ARRAY(SELECT id FROM refused_message WHERE plant_id = %s"
        " AND (received_at, id) <= (%s, %s) ORDER BY received_at DESC, id DESC LIMIT %s FOR UPDATE SKIP LOCKED))",
        (*newest, limit),
    )
    return cursor.rowcount


async def record_unregistered_devices(db: Connection, unregistered: Iterable[UnregisteredSeen], most: int) -> None:
    """Insert or update unregistered devices.

    Plants that no longer exist are left out, as are new devices of a plant that has `most` already. An entry without fields
    keeps the stored ones. What was seen before the plant moved to its organisation does not count.
    """
    rows = list(unregistered)
    await db.execute(
        "WITH seen AS (SELECT s.*, u.plant_id IS NULL AS new,"
        " row_number() OVER (PARTITION BY s.plant, u.plant_id IS NULL ORDER BY number) AS position"
        " FROM unnest(%s::uuid[], %s::text[], %s::timestamptz[], %s::bigint[], %s::jsonb[])"
        " WITH ORDINALITY AS s (plant, external, at, times, fields, number)"
        " LEFT JOIN unregistered_device u ON u.plant_id = s.plant AND u.external_id = s.external),"
        " room AS (SELECT p.id AS plant, %s - (SELECT count(*) FROM unregistered_device u WHERE u.plant_id = p.id) AS free"
        " FROM plant p WHERE p.id IN (SELECT plant FROM seen WHERE new))"
        " INSERT INTO unregistered_device (plant_id, organization_id, external_id, first_seen_at, last_seen_at, count, fields)"
        " SELECT plant, p.organization_id, external, at, at, times, fields FROM seen JOIN plant p ON p.id = plant"
        " LEFT JOIN room USING (plant) WHERE NOT new OR position <= free"
        " ON CONFLICT (plant_id, external_id) DO UPDATE"
        " SET organization_id = excluded.organization_id,"
        " first_seen_at = CASE WHEN {same} THEN unregistered_device.first_seen_at ELSE excluded.first_seen_at END,"
        " last_seen_at = greatest(unregistered_device.last_seen_at, excluded.last_seen_at),"
        " count = excluded.count + CASE WHEN {same} THEN unregistered_device.count ELSE 0 END,"
        " fields = CASE WHEN excluded.fields = '[]' AND {same} THEN unregistered_device.fields ELSE excluded.fields END".format(
            same="unregistered_device.organization_id = excluded.organization_id"
        ),
        (
            [one.plant_id for one in rows],
            [one.external_id for one in rows],
            [one.seen_at for one in rows],
            [one.times for one in rows],
            [Jsonb(one.fields) for one in rows],
            most,
        ),
    )


async def delete_old_devices(db: Connection, limit: int, max_age: timedelta) -> int:
    """Delete up to `limit` unregistered devices that were not seen for `max_age`. Returns their number.

    Waits for no lock: a batch of ingest, which locks devices in the order of its messages, may be recording them again.
    """
    cursor = await db.execute(
        "WITH free AS (SELECT plant_id, external_id FROM unregistered_device WHERE last_seen_at < now() - %s LIMIT %s"
        " FOR UPDATE SKIP LOCKED) DELETE FROM unregistered_device u USING free"
        " WHERE (u.plant_id, u.external_id) = (free.plant_id, free.external_id)",
        (max_age, limit),
    )
    return cursor.rowcount


async def plants_with_surplus_devices(db: Connection, max_per_plant: int) -> list[UUID]:
    """Return the plants that have more than `max_per_plant` unregistered devices."""
    cursor = await db.execute(
        "SELECT plant_id FROM unregistered_device GROUP BY plant_id HAVING count(*) > %s", (max_per_plant,)
    )
    return [row[0] for row in await cursor.fetchall()]


async def delete_surplus_devices(db: Connection, limit: int, plant_id: UUID, max_per_plant: int) -> int:
    """Delete up to `limit` unregistered devices of a plant, but not the `max_per_plant` seen last. Returns their number.

    Waits for no lock, as `delete_old_devices`.
    """
    cursor = await db.execute(
        # MATERIALIZED: otherwise the devices of the plant are sorted again for each of them.
        "WITH first AS MATERIALIZED (SELECT last_seen_at, external_id FROM unregistered_device WHERE plant_id = %(plant)s"
        " ORDER BY last_seen_at DESC, external_id OFFSET %(most)s LIMIT 1),"
        " free AS (SELECT u.plant_id, u.external_id FROM unregistered_device u, first f WHERE u.plant_id = %(plant)s"
        " AND (u.last_seen_at < f.last_seen_at OR (u.last_seen_at = f.last_seen_at AND u.external_id >= f.external_id))"
        " LIMIT %(limit)s FOR UPDATE OF u SKIP LOCKED)"
        " DELETE FROM unregistered_device u USING free"
        " WHERE (u.plant_id, u.external_id) = (free.plant_id, free.external_id)",
        {"plant": plant_id, "most": max_per_plant, "limit": limit},
    )
    return cursor.rowcount


async def list_unregistered_devices(db: Connection, org: OrgScope, plant_id: UUID) -> list[UnregisteredDevice]:
    """Return devices of the plant that are still not registered, most recently seen first, at most 1,000."""
    cursor = db.cursor(row_factory=class_row(UnregisteredDevice))
    await cursor.execute(
        f"SELECT external_id, first_seen_at, last_seen_at, count, fields FROM unregistered_device u WHERE {_OURS}"
        " AND NOT EXISTS (SELECT FROM sub_device d WHERE d.plant_id = u.plant_id AND d.external_id = u.external_id)"
        " ORDER BY last_seen_at DESC, external_id LIMIT 1000",
        {"plant": plant_id, "org": org.organization_id},
    )
    return await cursor.fetchall()


async def delete_unregistered_device(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> None:
    """Delete the record of a device that the organisation has registered."""
    await db.execute(
        f"DELETE FROM unregistered_device WHERE external_id = %(device)s AND {_OF_PLANT}",
        {"device": external_id, "plant": plant_id, "org": org.organization_id},
    )
