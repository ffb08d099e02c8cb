"""SQL of plants' statuses, which follow from their messages. Partners receive the changes."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.partner_events.models import StatusChange
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["AHEAD", "READ_UNTIL", "decommission", "lock_seen_before", "mark_silent", "record_presence"]

_CHANGED = "plant.id, plant.organization_id, plant.status, held.status AS before"
_PUBLISHED = (
    "SELECT updated.id, change.* FROM updated LEFT JOIN LATERAL"
    " (SELECT updated.organization_id, updated.status, clock_timestamp(), updated.reason, updated.request_id"
    " WHERE updated.status <> updated.before AND has_subscription(updated.organization_id, updated.id)) AS change ON true"
)
"""The plants that were updated, each with the change of its status if a partner receives it, else with nulls."""

AHEAD: Final = "last_seen_at > now() + interval '1 minute'"
"""Whether a row was last seen in the future. Clocks of machines differ by less than a minute."""

READ_UNTIL: Final = "least(now(), (SELECT min(drained_at) FROM ingest_shard WHERE drained_at > now() - interval '15 minutes'))"
"""The time up to which the messages of plants have been read: messages that still wait in a queue were sent later.

A queue that has not been empty for a quarter of an hour does not count: it could permanently hide which plants are silent.
"""


async def decommission(db: Connection, org: OrgScope, plant_id: UUID) -> list[StatusChange]:
    """Set the plant to DECOMMISSIONED and remove its certificates. An ONLINE plant becomes OFFLINE.

    Returns:
        That change, if a partner receives it.
    """
    cursor = await db.execute(
        "WITH held AS (SELECT id, status FROM plant WHERE id = %s AND organization_id = %s FOR NO KEY UPDATE),"
        " updated AS (UPDATE plant SET lifecycle_status = 'DECOMMISSIONED', updated_at = now(),"
        " status = CASE held.status WHEN 'ONLINE' THEN 'OFFLINE' ELSE held.status END,"
        " certificate_serial_number = NULL, certificate_fingerprint = NULL, certificate_expires_at = NULL,"
        " previous_certificate_serial_number = NULL, previous_certificate_valid_until = NULL"
        " FROM held WHERE plant.id = held.id"
        f" RETURNING {_CHANGED}, 'decommissioned' AS reason, NULL AS request_id) {_PUBLISHED}",
        (plant_id, org.organization_id),
    )
    return _changes(await cursor.fetchall())


async def record_presence(
    db: Connection,
    seen: Iterable[tuple[UUID, datetime, str, float | None, str | None, datetime | None, str | None]],
) -> tuple[list[UUID], list[StatusChange]]:
    """Update plants, except DECOMMISSIONED ones. `last_seen_at` never moves back.

    Args:
        seen: Plant, time, status, usual interval in seconds if known, reason of the status, when the message was sent if it
            must not bring back a plant that went OFFLINE later, and the message's request id if known.

    Returns:
        The plants that were updated, and the changes of their statuses that a partner receives.
    """
    rows = list(seen)
    cursor = await db.execute(
        "WITH held AS (SELECT id, status FROM plant WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE),"
        " updated AS (UPDATE plant SET last_seen_at = greatest(plant.last_seen_at, seen.at), status = seen.status,"
        " usual_interval_seconds = coalesce(seen.every, plant.usual_interval_seconds)"
        " FROM held JOIN unnest(%(ids)s::uuid[], %(at)s::timestamptz[], %(statuses)s::text[], %(every)s::real[],"
        " %(reasons)s::text[], %(sent_at)s::timestamptz[], %(request_ids)s::text[])"
        " AS seen (id, at, status, every, reason, sent_at, request_id) ON seen.id = held.id"
        " WHERE plant.id = held.id AND plant.lifecycle_status <> 'DECOMMISSIONED'"
        " AND (plant.status <> 'OFFLINE' OR coalesce(seen.sent_at > plant.last_seen_at, true))"
        f" RETURNING {_CHANGED}, seen.reason, seen.request_id) {_PUBLISHED}",
        {
            name: [row[column] for row in rows]
            for column, name in enumerate(("ids", "at", "statuses", "every", "reasons", "sent_at", "request_ids"))
        },
    )
    updated = await cursor.fetchall()
    return [row[0] for row in updated], _changes(updated)


async def lock_seen_before(db: Connection, times: Mapping[UUID, datetime]) -> dict[UUID, datetime]:
    """Lock the ACTIVE plants that were last seen before these times, in the order of their ids. Returns the time of each."""
    cursor = await db.execute(
        "SELECT p.id, p.last_seen_at FROM plant p JOIN unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS t (id, time)"
        " ON t.id = p.id WHERE p.id = ANY(%(ids)s) AND p.lifecycle_status = 'ACTIVE' AND p.last_seen_at < t.time"
        " ORDER BY p.id FOR NO KEY UPDATE OF p",
        {"ids": list(times), "times": list(times.values())},
    )
    return dict(await cursor.fetchall())


async def mark_silent(db: Connection, most: int | None) -> tuple[list[UUID], list[StatusChange]]:
    """Mark up to `most` ONLINE plants as OFFLINE that are silent; None means all.

    A plant is silent if it sent nothing for three usual intervals (at least 90 s) before `READ_UNTIL`.

    A `last_seen_at` in the future, from a clock that was ahead, becomes the present: the time without messages counts from now.
    Waits for no lock: a plant whose row is locked has probably just sent something, and the next sweep checks it again.

    Returns:
        The plants that are now OFFLINE, and the changes of their statuses that a partner receives.
    """
    cursor = await db.execute(
        "WITH silent AS (SELECT id FROM plant WHERE status = 'ONLINE' AND last_seen_at"
        f" < {READ_UNTIL} - greatest(90, 3 * coalesce(usual_interval_seconds, 0)) * interval '1 second'"
        " LIMIT %s FOR NO KEY UPDATE SKIP LOCKED),"
        f" held AS (SELECT id, status, {AHEAD} AS ahead FROM plant WHERE {AHEAD} OR id IN (SELECT id FROM silent)"
        " FOR NO KEY UPDATE SKIP LOCKED),"
        " updated AS (UPDATE plant SET last_seen_at = least(plant.last_seen_at, now()),"
        " status = CASE WHEN held.ahead THEN plant.status ELSE 'OFFLINE' END FROM held WHERE plant.id = held.id"
        f" RETURNING {_CHANGED}, 'silent' AS reason, NULL AS request_id) {_PUBLISHED} WHERE updated.status <> updated.before",
        (most,),
    )
    updated = await cursor.fetchall()
    return [row[0] for row in updated], _changes(updated)


def _changes(updated: Iterable[tuple[Any, ...]]) -> list[StatusChange]:
    return [StatusChange(*row) for row in updated if row[1] is not None]
