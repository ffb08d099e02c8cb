"""SQL of the events that wait for the broker."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from psycopg.rows import args_row, class_row
from psycopg.types.json import Jsonb

from gridfleet.domains.partner_events.models import NewEvent, QueuedEvent, Room, Walk
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.protocol.partner_routes import EventKind

_QUEUED = ", ".join(QueuedEvent._fields)


async def insert(db: Connection, events: Sequence[NewEvent]) -> None:
    """Queue events in their order. Telemetry of a plant that has moved since it was read is left out.

    Other events may be about a plant that is leaving the organisation.
    """
    # Binary parameters: as text, an array of bodies costs more than everything else here.
    await db.execute(
        "INSERT INTO partner_event (event_id, organization_id, plant_id, api_key_id, kind, body, cause)"
        " SELECT e.event_id, e.organization_id, e.plant_id, e.api_key_id, e.kind, e.body, e.cause FROM unnest(%b::uuid[],"
        " %b::uuid[], %b::uuid[], %b::uuid[], %b::text[], %b::bytea[], %b::jsonb[]) WITH ORDINALITY"
        " AS e (event_id, organization_id, plant_id, api_key_id, kind, body, cause, position)"
        " LEFT JOIN plant p ON p.id = e.plant_id"
        f" WHERE e.kind <> '{EventKind.TELEMETRY}' OR p.organization_id = e.organization_id ORDER BY e.position",
        (*([event[column] for event in events] for column in range(6)), [_cause(event) for event in events]),
    )


def _cause(event: NewEvent) -> Jsonb | None:
    cause = current_cause(event.request_id)
    return None if cause is None else Jsonb(cause)


async def waiting(
    db: Connection, rooms: Mapping[UUID, Room], claimed: Collection[int], limit: int, size: int
) -> list[QueuedEvent]:
    """Return the oldest events without the ids in `claimed`: the first of each organisation, then the second of each, etc.

    Args:
        db: The connection.
        rooms: The room of each organisation, and the id at which to begin. The event that reaches its bytes is the last one of
            the organisation.
        claimed: The ids to leave out.
        limit: Maximum number of events.
        size: Maximum bytes of all events. The event that reaches them is the last one.
    """
    cursor = db.cursor(row_factory=class_row(QueuedEvent), binary=True)
    await cursor.execute(
        f"SELECT {_QUEUED} FROM partner_event JOIN (SELECT id, turn FROM"
        " (SELECT own.id, own.turn, sum(own.size) OVER (ORDER BY own.turn, own.id) - own.size AS before"
        " FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])"
        " AS o (organization_id, most, size, copies, start)"
        " CROSS JOIN LATERAL (SELECT id, turn, size FROM (SELECT id, size, row_number() OVER (ORDER BY id) AS turn,"
        " sum(size) OVER (ORDER BY id) - size AS before FROM"
        # The length of a large body is read without the body.
        " (SELECT id, octet_length(body)::bigint * o.copies AS size FROM partner_event e"
        " WHERE e.organization_id = o.organization_id AND id >= o.start AND id <> ALL(%s) ORDER BY id LIMIT o.most) AS oldest)"
        " AS sized"
        " WHERE before < o.size) AS own ORDER BY own.turn, own.id LIMIT %s) AS turns WHERE before < %s)"
        " AS next USING (id) ORDER BY turn, id",
        (
            list(rooms),
            [min(room.events, limit) for room in rooms.values()],
            [room.size for room in rooms.values()],
            [room.copies for room in rooms.values()],
            [room.start for room in rooms.values()],
            list(claimed),
            limit,
            size,
        ),
    )
    return await cursor.fetchall()


async def delete(db: Connection, ids: Collection[int]) -> None:
    """Delete events that the broker has confirmed."""
    await db.execute("DELETE FROM partner_event WHERE id = ANY(%s)", (list(ids),))


async def delete_older(db: Connection, age: timedelta, start: int, limit: int) -> tuple[int, int | None]:
    """Delete events that are older than `age` and not locked, among the first `limit` from the id `start`.

    Returns:
        How many were deleted, and the first id; None without events.
    """
    cursor = await db.execute(
        # By id, which rises with the time: without an index on the time, a search for old events reads all that wait.
        "WITH first AS MATERIALIZED (SELECT id FROM partner_event WHERE id >= %s ORDER BY id LIMIT %s),"
        " dropped AS (DELETE FROM partner_event WHERE id = ANY (ARRAY(SELECT id FROM partner_event"
        " WHERE id = ANY (ARRAY(SELECT id FROM first)) AND at < now() - %s FOR UPDATE SKIP LOCKED)) RETURNING 1)"
        " SELECT (SELECT count(*) FROM dropped), (SELECT min(id) FROM first)",
        (start, limit, age),
    )
    return (await cursor.fetchall())[0]


async def oldest(db: Connection, start: int) -> tuple[int, float] | None:
    """Return the first event from the id `start`, and how many seconds it has waited; None without events."""
    cursor = await db.execute(
        "SELECT id, extract(epoch FROM now() - at)::float8 FROM partner_event WHERE id >= %s ORDER BY id LIMIT 1", (start,)
    )
    return await cursor.fetchone()


async def count(db: Connection, start: int, limit: int) -> int:
    """Return the number of events from the id `start`, counted up to `limit`."""
    return await fetch_count(
        db, "SELECT count(*) FROM (SELECT FROM partner_event WHERE id >= %s ORDER BY id LIMIT %s) AS first", (start, limit)
    )


async def first_ids(db: Connection, starts: Mapping[UUID, int]) -> dict[UUID, int]:
    """Return the id of the first event of each organisation that has one from its start."""
    cursor = await db.execute(
        "SELECT o.organization_id, e.id FROM unnest(%s::uuid[], %s::bigint[]) AS o (organization_id, start)"
        " CROSS JOIN LATERAL (SELECT id FROM partner_event WHERE organization_id = o.organization_id AND id >= o.start"
        " ORDER BY id LIMIT 1) AS e",
        (list(starts), list(starts.values())),
    )
    return dict(await cursor.fetchall())


async def delete_of_others(db: Connection, organization_ids: Collection[UUID], age: timedelta, limit: int) -> int:
    """Delete up to `limit` events, not locked and older than `age`, of organisations other than these."""
    cursor = await db.execute(
        # Each organisation by itself: a search through all events would pass those that were published during a dump.
        "DELETE FROM partner_event WHERE id = ANY (ARRAY(SELECT id FROM partner_event WHERE id = ANY (ARRAY("
        "SELECT e.id FROM organization o CROSS JOIN LATERAL (SELECT id, at FROM partner_event WHERE organization_id = o.id"
        " ORDER BY id LIMIT %(limit)s) AS e"
        " WHERE NOT EXISTS (SELECT FROM unnest(%(others)s::uuid[]) AS s (id) WHERE s.id = o.id)"
        " AND e.at < now() - %(age)s LIMIT %(limit)s)) FOR UPDATE SKIP LOCKED))",
        {"others": list(organization_ids), "age": age, "limit": limit},
    )
    return cursor.rowcount


async def disk_size(db: Connection) -> int:
    """Return the bytes on disk of all events that wait, with their indexes and the space that can be used again."""
    return await fetch_count(db, "SELECT pg_total_relation_size('partner_event')")


async def delete_surplus(
    db: Connection, organization_id: UUID, start: int, walk: Walk, most: int, row: int, claimed: Collection[int], limit: int
) -> Walk | None:
    """Take a step of a walk: read up to `limit` events, and delete those beyond `most` bytes. Returns None after the oldest.

    Args:
        db: The connection.
        organization_id: The organisation.
        start: The id at which the walk ends.
        walk: The previous step.
        most: Bytes of the newest events that are kept.
        row: Bytes to count for each event in addition to its body.
        claimed: The ids of events that are kept.
        limit: Maximum number of events.
    """
    # Before the table is analyzed, the planner would sort all events of the organisation in each step.
    await db.execute("SELECT set_config('enable_sort', 'off', true)")
    cursor = db.cursor(row_factory=args_row(Walk))
    await cursor.execute(
        "WITH summed AS (SELECT id, %(size)s + sum(size) OVER (ORDER BY id DESC) AS size FROM"
        # The size of a large body on disk is read without the body.
        " (SELECT id, pg_column_size(body) + %(row)s AS size FROM partner_event WHERE organization_id = %(organization)s"
        f" AND kind = '{EventKind.TELEMETRY}' AND id >= %(start)s AND id < %(oldest)s ORDER BY id DESC LIMIT %(limit)s)"
        " AS next),"
        " surplus AS (SELECT id FROM summed WHERE size > %(most)s AND id <> ALL(%(claimed)s)),"
        " dropped AS (DELETE FROM partner_event WHERE id = ANY (ARRAY(SELECT id FROM partner_event"
        " WHERE id = ANY (ARRAY(SELECT id FROM surplus)) FOR UPDATE SKIP LOCKED)) RETURNING id)"
        " SELECT min(id), max(size), (SELECT count(*) FROM dropped) FROM summed HAVING count(*) > 0",
        {
            "organization": organization_id,
            "start": start,
            "oldest": walk.oldest,
            "size": walk.size,
            "most": most,
            "row": row,
            "claimed": list(claimed),
            "limit": limit,
        },
        prepare=False,  # so that each plan is for this organisation: others may have far fewer events
    )
    return await cursor.fetchone()


async def subscribed(db: Connection, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the organisations of plants whose events a partner receives, by plant id."""
    cursor = await db.execute(
        "SELECT id, organization_id FROM plant WHERE id = ANY(%s) AND has_subscription(organization_id, id)", (list(plant_ids),)
    )
    return dict(await cursor.fetchall())
