"""SQL of alerts."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.domains.alerts.models import Condition, Severity
from gridfleet.domains.partner_events.models import AlertChange
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["FOLLOWED", "AlertKey", "NewAlert", "PlantName"]

AlertKey = tuple[datetime, UUID]
"""The position of an alert in the list of its plant: when it was raised, and its id."""

FOLLOWED: Final = (
    "plant_id <> ALL (ARRAY(SELECT m.plant_id FROM moved_plant m JOIN plant p ON p.id = m.plant_id"
    " WHERE p.organization_id <> %(org)s))"
)
"""Leaves out alerts of plants that have moved to another organisation, and that have not followed yet."""

_VISIBLE = f"organization_id = %(org)s AND (%(plants)s::uuid[] IS NULL OR plant_id = ANY(%(plants)s)) AND {FOLLOWED}"


class PlantName(NamedTuple):
    """A plant with its name for messages."""

    id: UUID
    organization_id: UUID
    name: str


class NewAlert(NamedTuple):
    """An alert to insert, with the columns of its row."""

    id: UUID
    organization_id: UUID
    plant_id: UUID
    rule_id: UUID
    rule_name: str
    condition: Condition
    threshold: float
    severity: Severity
    message: str
    metric: str
    value: float
    unit: str | None
    measured_at: datetime
    cause: dict[str, str] | None


async def acknowledge(db: Connection, org: OrgScope, alert_ids: Iterable[UUID], by: str) -> dict[UUID, UUID]:
    """Acknowledge those of the alerts that are active, locked in the order of their ids.

    Returns:
        The plants of the changed alerts by the alerts' ids.
    """
    cursor = await db.execute(
        f"WITH held AS (SELECT id FROM alert WHERE id = ANY(%(ids)s) AND status = 'ACTIVE' AND {_VISIBLE}"
        " ORDER BY id FOR NO KEY UPDATE)"
        " UPDATE alert a SET status = 'ACKNOWLEDGED', acknowledged_at = now(), acknowledged_by = %(by)s, updated_at = now()"
        " FROM held WHERE a.id = held.id RETURNING a.id, a.plant_id",
        {"ids": list(alert_ids), "by": by, **org.parameters},
    )
    return dict(await cursor.fetchall())


async def resolve(db: Connection, org: OrgScope, alert_ids: Iterable[UUID], by: str) -> dict[UUID, UUID]:
    """Resolve those of the alerts that are not resolved, locked in the order of their ids.

    Alerts that were not acknowledged are acknowledged too.

    Returns:
        The plants of the changed alerts by the alerts' ids.
    """
    cursor = await db.execute(
        f"WITH held AS (SELECT id FROM alert WHERE id = ANY(%(ids)s) AND status <> 'RESOLVED' AND {_VISIBLE}"
        " ORDER BY id FOR NO KEY UPDATE)"
        " UPDATE alert a SET status = 'RESOLVED', resolved_at = now(), updated_at = now(),"
        " acknowledged_at = coalesce(acknowledged_at, now()),"
        " acknowledged_by = CASE WHEN acknowledged_at IS NULL THEN %(by)s ELSE acknowledged_by END"
        " FROM held WHERE a.id = held.id RETURNING a.id, a.plant_id",
        {"ids": list(alert_ids), "by": by, **org.parameters},
    )
    return dict(await cursor.fetchall())


async def delete_of_plant(db: Connection, org: OrgScope, plant_id: UUID, limit: int) -> int:
    """Delete up to `limit` alerts of the organisation's plant, newest first, that no state refers to. Returns their number.

    Ingest changes states without a lock on their alerts: deleting these with their states could end in a deadlock.
    """
    cursor = await db.execute(
        "DELETE FROM alert WHERE id = ANY (ARRAY("
        "SELECT id FROM alert a WHERE plant_id = (SELECT id FROM plant WHERE id = %s AND organization_id = %s)"
        " AND NOT EXISTS (SELECT FROM alert_state s WHERE s.alert_id = a.id)"
        " ORDER BY created_at DESC, id DESC LIMIT %s FOR UPDATE OF a SKIP LOCKED))",
        (plant_id, org.organization_id, limit),
    )
    return cursor.rowcount


async def delete_resolved(db: Connection, first: UUID, before: datetime, limit: int) -> int:
    """Delete up to `limit` alerts that were resolved before `before` and that no state refers to. Returns their number.

    Args:
        first: Lower bound of the ids of alerts that were raised at `before` or later. It limits what is read.
    """
    cursor = await db.execute(
        "DELETE FROM alert WHERE id = ANY (ARRAY("
        "SELECT id FROM alert a WHERE id < %s AND status = 'RESOLVED' AND resolved_at < %s"
        " AND NOT EXISTS (SELECT FROM alert_state s WHERE s.alert_id = a.id)"
        " ORDER BY id LIMIT %s FOR UPDATE OF a SKIP LOCKED))",
        (first, before, limit),
    )
    return cursor.rowcount


async def moved_plants(db: Connection) -> list[tuple[UUID, datetime]]:
    """Return the plants whose alerts have to follow them, and when they moved last; the one that waits longest first."""
    cursor = await db.execute("SELECT plant_id, moved_at FROM moved_plant ORDER BY moved_at")
    return await cursor.fetchall()


async def follow_plant(db: Connection, plant_id: UUID, after: AlertKey | None, limit: int) -> AlertKey | None:
    """Move up to `limit` alerts of a plant to its present organisation, from the newest to the oldest.

    The plant cannot move until the transaction ends. The alerts are locked in the order of their ids.

    Args:
        after: What the previous call returned; None for the first call.
        limit: The most alerts to examine. Those that are in the organisation already are not changed.

    Returns:
        The key of the oldest alert that was examined; None if there was none.
    """
    further = "" if after is None else " AND (created_at, id) < (%(time)s, %(id)s)"
    cursor = await db.execute(
        "WITH owner AS MATERIALIZED (SELECT organization_id FROM plant WHERE id = %(plant)s FOR KEY SHARE),"
        f" next AS MATERIALIZED (SELECT id, created_at FROM alert WHERE plant_id = %(plant)s{further}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s),"
        " held AS (SELECT id FROM alert WHERE id IN (SELECT id FROM next)"
        " AND organization_id <> (SELECT organization_id FROM owner) ORDER BY id FOR NO KEY UPDATE),"
        " moved AS (UPDATE alert a SET organization_id = owner.organization_id FROM held, owner WHERE a.id = held.id)"
        " SELECT created_at, id FROM next ORDER BY created_at, id LIMIT 1".encode(),
        {"plant": plant_id, "limit": limit, "time": after and after[0], "id": after and after[1]},
    )
    return await cursor.fetchone()


async def end_move(db: Connection, plant_id: UUID, moved_at: datetime) -> None:
    """Record that all alerts have followed a plant, unless it has moved again."""
    await db.execute("DELETE FROM moved_plant WHERE plant_id = %s AND moved_at = %s", (plant_id, moved_at))


async def newest_times(db: Connection, metrics: Iterable[tuple[int, str]]) -> dict[tuple[int, str], datetime]:
    """Return when each (source, name of the metric in alerts) had its newest value, for those that have one."""
    wanted = list(metrics)
    cursor = await db.execute(
        # The positions of the wanted names are found in the layouts first, which many sources share.
        "WITH wanted AS MATERIALIZED (SELECT s.id AS source_id, w.name, substr(w.name, coalesce(length(s.external_id) + 2, 1))"
        " AS key FROM unnest(%s::int[], %s::text[]) AS w (source_id, name) JOIN telemetry_source s ON s.id = w.source_id"
        " WHERE s.external_id IS NULL OR starts_with(w.name, s.external_id || '.')),"
        " used AS MATERIALIZED (SELECT source_id, layout_id FROM telemetry_latest"
        " WHERE source_id IN (SELECT source_id FROM wanted)),"
        " named AS MATERIALIZED (SELECT l.id AS layout_id, m.key, m.position FROM telemetry_layout l"
        " CROSS JOIN LATERAL unnest(l.metrics) WITH ORDINALITY AS m (key, position)"
        " WHERE l.id IN (SELECT layout_id FROM used) AND m.key IN (SELECT key FROM wanted)),"
        " found AS MATERIALIZED (SELECT w.source_id, w.name, u.layout_id, n.position"
        " FROM wanted w JOIN used u USING (source_id) JOIN named n USING (layout_id, key))"
        " SELECT f.source_id, f.name, max(coalesce(t.times[f.position], t.time)) FROM found f"
        " JOIN telemetry_latest t USING (source_id, layout_id) WHERE t.vals[f.position] IS NOT NULL GROUP BY 1, 2",
        ([source_id for source_id, _ in wanted], [name for _, name in wanted]),
        # Planned for this number of metrics: a plan for few would read all names of a source for each of thousands.
        prepare=False,
    )
    return {(row[0], row[1]): row[2] for row in await cursor.fetchall()}


async def plant_names(db: Connection, plant_ids: Iterable[UUID]) -> dict[UUID, PlantName]:
    """Return the names of those of the plants that are not revoked, by id.

    They cannot be deleted, moved or revoked until the transaction ends.
    """
    cursor = db.cursor(row_factory=class_row(PlantName))
    await cursor.execute(
        "SELECT id, organization_id, name FROM plant WHERE id = ANY(%s) AND lifecycle_status <> 'DECOMMISSIONED'"
        " ORDER BY id FOR KEY SHARE",
        (sorted(plant_ids),),
    )
    return {plant.id: plant for plant in await cursor.fetchall()}


async def hold_sources(db: Connection, source_ids: Iterable[int]) -> set[int]:
    """Return the ids among `source_ids` whose plant or sub-device exists.

    Holds the sub-devices' rows until the transaction ends. Waits for no lock: a sub-device whose row cannot be held is left
    out, because it is being deleted. The deletion may wait for commands that this transaction has locked.
    """
    cursor = await db.execute(
        "WITH held AS (SELECT s.id FROM telemetry_source s JOIN sub_device d ON d.id = s.sub_device_id"
        " WHERE s.id = ANY(%(ids)s) FOR KEY SHARE OF d SKIP LOCKED)"
        " SELECT id FROM held UNION ALL SELECT id FROM telemetry_source WHERE id = ANY(%(ids)s) AND external_id IS NULL",
        {"ids": list(source_ids)},
    )
    return {row[0] for row in await cursor.fetchall()}


async def insert(db: Connection, alerts: Sequence[NewAlert]) -> None:
    """Insert active alerts."""
    columns: list[list[Any]] = [[alert[number] for alert in alerts] for number in range(len(NewAlert._fields) - 1)]
    await db.execute(
        f"INSERT INTO alert ({', '.join(NewAlert._fields)}) SELECT * FROM unnest(%b::uuid[], %b::uuid[], %b::uuid[],"
        " %b::uuid[], %b::text[], %b::text[], %b::float8[], %b::text[], %b::text[], %b::text[], %b::float8[], %b::text[],"
        " %b::timestamptz[], %b::jsonb[])",
        (*columns, [alert.cause and Jsonb(alert.cause) for alert in alerts]),
    )


async def resolve_by_itself(db: Connection, alert_ids: Sequence[UUID]) -> list[UUID]:
    """Resolve alerts whose cause has ended, locked in the order of their ids. Returns those that were not resolved before."""
    cursor = await db.execute(
        "WITH held AS (SELECT id FROM alert WHERE id = ANY(%s) AND status <> 'RESOLVED' ORDER BY id FOR NO KEY UPDATE)"
        " UPDATE alert a SET status = 'RESOLVED', resolved_at = now(), updated_at = now(),"
        " acknowledged_at = coalesce(acknowledged_at, now()) FROM held WHERE a.id = held.id RETURNING a.id",
        (list(alert_ids),),
    )
    return [row[0] for row in await cursor.fetchall()]


async def changes(db: Connection, alert_ids: Sequence[UUID]) -> list[AlertChange]:
    """Return the alerts that a partner receives, in this order. Only ACTIVE ones have the request id of their cause."""
    cursor = db.cursor(row_factory=class_row(AlertChange))
    await cursor.execute(
        "SELECT a.id AS alert_id, a.organization_id, a.plant_id, a.type, a.severity, a.status, a.message, a.updated_at AS at,"
        " CASE a.status WHEN 'ACTIVE' THEN a.cause->>'request_id' END AS request_id"
        " FROM unnest(%s::uuid[]) WITH ORDINALITY AS changed (id, position) JOIN alert a USING (id)"
        " WHERE has_subscription(a.organization_id, a.plant_id) ORDER BY changed.position",
        (list(alert_ids),),
    )
    return await cursor.fetchall()
