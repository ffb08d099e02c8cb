"""SQL of alert rules."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncServerCursor, sql
from psycopg.rows import TupleRow, class_row, kwargs_row

from gridfleet.domains.alerts.models import AlertRule, Condition, Severity
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, fetch_count, fetch_in_turns
from gridfleet.kernel.db.shards import by_shard
from gridfleet.kernel.pagination import Paging

__all__ = ["MetricPosition", "RuleCounts"]

_COLUMNS = ", ".join(AlertRule.__struct_fields__)
_VISIBLE = (
    "organization_id = %(org)s AND (%(plants)s::uuid[] IS NULL OR plant_id IS NULL OR plant_id = ANY(%(plants)s))"
    " AND (%(plant)s::uuid IS NULL OR plant_id = %(plant)s)"
)
_WITHOUT_COOLDOWN = (
    "id = ANY(%s) AND enabled AND (last_triggered_at IS NULL OR last_triggered_at <= now() - cooldown_minutes * interval"
    " '1 minute' OR last_triggered_at > clock_timestamp())"
)


class MetricPosition(NamedTuple):
    """The position of a metric in frames; `number` counts from 1.

    `metric` is its name in alerts, `unit` the unit of its values.
    """

    source_id: int
    plant_id: UUID
    layout_id: int
    number: int
    metric: str
    unit: str


class RuleCounts(NamedTuple):
    """The numbers of an organisation's rules: all, and those for one plant or for all plants."""

    of_organization: int
    of_plant: int


def _rule(**row: Any) -> AlertRule:
    row["condition"] = Condition(row["condition"])
    row["severity"] = Severity(row["severity"])
    return AlertRule(**row)


def _visible(org: OrgScope, plant_id: UUID | None = None) -> dict[str, Any]:
    return {**org.parameters, "plant": plant_id}


async def insert(db: Connection, org: OrgScope, rule_id: UUID, columns: Mapping[str, Any]) -> AlertRule:
    """Insert a rule and return it."""
    row = {"id": rule_id, "organization_id": org.organization_id, **columns}
    cursor = db.cursor(row_factory=kwargs_row(_rule))
    await cursor.execute(
        sql.SQL("INSERT INTO alert_rule ({}) VALUES ({}) RETURNING {}").format(
            sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join(map(sql.Placeholder, row)), sql.SQL(_COLUMNS)
        ),
        row,
    )
    return (await cursor.fetchall())[0]


async def find(db: Connection, org: OrgScope, rule_id: UUID) -> AlertRule | None:
    """Return the rule, or None if the caller may not see it."""
    cursor = db.cursor(row_factory=kwargs_row(_rule))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM alert_rule WHERE id = %(id)s AND {_VISIBLE}", {"id": rule_id, **_visible(org)}
    )
    return await cursor.fetchone()


async def lock(db: Connection, org: OrgScope, rule_id: UUID, *, to_delete: bool = False) -> AlertRule | None:
    """Return the rule, locked until the transaction ends, or None if the caller may not see it."""
    cursor = db.cursor(row_factory=kwargs_row(_rule))
    strength = "UPDATE" if to_delete else "NO KEY UPDATE"
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM alert_rule WHERE id = %(id)s AND {_VISIBLE} FOR {strength}".encode(),
        {"id": rule_id, **_visible(org)},
    )
    return await cursor.fetchone()


async def page(db: Connection, org: OrgScope, plant_id: UUID | None, paging: Paging) -> list[AlertRule]:
    """Return one page of rules, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_rule))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM alert_rule WHERE {_VISIBLE}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {**_visible(org, plant_id), "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope, plant_id: UUID | None) -> int:
    """Return the number of rules in the list."""
    return await fetch_count(db, f"SELECT count(*) FROM alert_rule WHERE {_VISIBLE}", _visible(org, plant_id))


async def counts(db: Connection, org: OrgScope, plant_id: UUID | None) -> RuleCounts:
    """Return the numbers of the organisation's rules: all, and those for one plant or, with None, for all plants."""
    cursor = db.cursor(row_factory=class_row(RuleCounts))
    await cursor.execute(
        "SELECT count(*) AS of_organization, count(*) FILTER (WHERE plant_id IS NOT DISTINCT FROM %(plant)s) AS of_plant"
        " FROM alert_rule WHERE organization_id = %(org)s",
        {"org": org.organization_id, "plant": plant_id},
    )
    [found] = await cursor.fetchall()
    return found


async def update(db: Connection, org: OrgScope, rule_id: UUID, columns: Mapping[str, Any]) -> AlertRule:
    """Write `columns` to a rule of the organisation and return it."""
    cursor = db.cursor(row_factory=kwargs_row(_rule))
    await cursor.execute(
        f"UPDATE alert_rule SET {assignments(columns)}, updated_at = now()"
        f" WHERE id = %(id)s AND organization_id = %(organization_id)s RETURNING {_COLUMNS}",
        {**columns, "id": rule_id, "organization_id": org.organization_id},
    )
    return (await cursor.fetchall())[0]


async def delete(db: Connection, org: OrgScope, rule_id: UUID) -> bool:
    """Delete a rule that the caller may see. Returns False if there is none. Its alerts stay."""
    cursor = await db.execute(f"DELETE FROM alert_rule WHERE id = %(id)s AND {_VISIBLE}", {"id": rule_id, **_visible(org)})
    return cursor.rowcount == 1


async def enabled_of(db: Connection, organization_ids: Iterable[UUID], plant_ids: Iterable[UUID]) -> list[AlertRule]:
    """Return the enabled rules of these organisations for all plants or for one of these."""
    cursor = db.cursor(row_factory=kwargs_row(_rule))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM alert_rule WHERE enabled AND organization_id = ANY(%s)"
        " AND (plant_id IS NULL OR plant_id = ANY(%s)) ORDER BY id",
        (list(organization_ids), list(plant_ids)),
    )
    return await cursor.fetchall()


async def without_cooldown(db: Connection, rule_ids: Iterable[UUID]) -> list[UUID]:
    """Return the rules whose cooldown is over, the one whose last alert is oldest first."""
    cursor = await db.execute(
        f"SELECT id FROM alert_rule WHERE {_WITHOUT_COOLDOWN} ORDER BY last_triggered_at NULLS FIRST, id", (list(rule_ids),)
    )
    return [row[0] for row in await fetch_in_turns(cursor)]


async def claim(db: Connection, rule_ids: Iterable[UUID]) -> set[UUID]:
    """Return the rules whose cooldown is over, and start their cooldown.

    Each rule is claimed by one transaction only: a concurrent claim waits and then finds the cooldown running. A cooldown that
    began in the future is over: the clock was set back.
    """
    # Always locked in the same order; otherwise two batches with two rules could deadlock. A concurrent claim that began later
    # may have committed first. Its time is after this transaction's now(), but not after clock_timestamp().
    cursor = await db.execute(
        f"UPDATE alert_rule SET last_triggered_at = now() WHERE id IN (SELECT id FROM alert_rule WHERE {_WITHOUT_COOLDOWN}"
        " ORDER BY id FOR NO KEY UPDATE) RETURNING id",
        (sorted(rule_ids),),
    )
    return {row[0] for row in await cursor.fetchall()}


async def units_of(db: Connection, organization_id: UUID, plant_id: UUID | None, metric: str) -> set[str]:
    """Return the units of the newest values of every metric that a rule on this metric watches. Missing units are left out."""
    cursor = await db.execute(
        # The positions are found in the layouts first, which many sources share. Otherwise the values of a source with many
        # metrics would be decompressed once for each metric.
        "WITH used AS MATERIALIZED (SELECT s.id AS source_id, s.external_id, t.layout_id"
        " FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " WHERE s.organization_id = %(org)s AND (%(plant)s::uuid IS NULL OR s.plant_id = %(plant)s)"
        " AND (s.external_id IS NULL OR s.sub_device_id IS NOT NULL)),"
        " named AS MATERIALIZED (SELECT l.id AS layout_id, m.key, m.position, l.units[m.position] AS unit"
        " FROM telemetry_layout l CROSS JOIN LATERAL unnest(l.metrics) WITH ORDINALITY AS m (key, position)"
        " WHERE l.id IN (SELECT layout_id FROM used)"
        " AND m.key IN (%(metric)s, substr(%(metric)s::text, strpos(%(metric)s::text, '.') + 1)))"
        " SELECT DISTINCT unit FROM (SELECT DISTINCT ON (u.source_id, n.key) n.unit FROM used u JOIN named n USING (layout_id)"
        " JOIN telemetry_latest t USING (source_id, layout_id)"
        " WHERE %(metric)s IN (n.key, u.external_id || '.' || n.key) AND t.vals[n.position] IS NOT NULL"
        " ORDER BY u.source_id, n.key, coalesce(t.times[n.position], t.time) DESC, layout_id DESC) AS newest WHERE unit <> ''",
        {"org": organization_id, "plant": plant_id, "metric": metric},
    )
    return {row[0] for row in await cursor.fetchall()}


_SOURCES = (
    "SELECT id, organization_id, plant_id, external_id FROM telemetry_source"
    " WHERE (external_id IS NULL OR sub_device_id IS NOT NULL)"
)


async def layout_units(db: Connection, rules: Sequence[AlertRule]) -> dict[UUID, set[str]]:
    """Return the units of every metric that each of the rules watches, by the layouts of its frames. Missing ones are left out.

    Unlike `units_of`, it also counts units that a metric has no longer. It takes about as long for 500 rules as for one: 0.2 to
    0.4 s for 30,000 devices.
    """
    cursor = await db.execute(
        "WITH rule AS (SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::text[])"
        " AS r (id, organization_id, plant_id, metric)),"
        " wanted AS (SELECT id, organization_id, plant_id, NULL AS device, metric AS key FROM rule UNION ALL"
        " SELECT id, organization_id, plant_id, split_part(metric, '.', 1), substr(metric, strpos(metric, '.') + 1)"
        " FROM rule WHERE strpos(metric, '.') > 0),"
        # Not all of the organisation for rules of one plant: it may have a million layouts of devices.
        " watched AS (SELECT s.* FROM (SELECT DISTINCT plant_id FROM rule) AS r CROSS JOIN LATERAL"
        f" ({_SOURCES} AND plant_id = r.plant_id OFFSET 0) AS s UNION"
        " SELECT s.* FROM (SELECT DISTINCT organization_id FROM rule WHERE plant_id IS NULL) AS r CROSS JOIN LATERAL"
        f" ({_SOURCES} AND organization_id = r.organization_id OFFSET 0) AS s),"
        " used AS MATERIALIZED (SELECT s.organization_id, s.plant_id, s.external_id, t.layout_id"
        " FROM watched s CROSS JOIN LATERAL (SELECT layout_id FROM telemetry_latest WHERE source_id = s.id OFFSET 0) AS t),"
        " named AS MATERIALIZED (SELECT l.id AS layout_id, m.key, l.units[m.position] AS unit FROM telemetry_layout l"
        " CROSS JOIN LATERAL unnest(l.metrics) WITH ORDINALITY AS m (key, position)"
        " WHERE l.id IN (SELECT layout_id FROM used) AND m.key IN (SELECT key FROM wanted) AND l.units[m.position] <> '')"
        # Apart, because with both in one condition every device with the layout would be compared with every rule.
        " SELECT w.id, n.unit FROM wanted w JOIN named n USING (key) JOIN used u"
        " ON (u.layout_id, u.organization_id, u.external_id) = (n.layout_id, w.organization_id, w.device)"
        " WHERE w.plant_id IS NULL OR u.plant_id = w.plant_id"
        " UNION SELECT w.id, n.unit FROM wanted w JOIN named n USING (key)"
        " JOIN (SELECT DISTINCT organization_id, plant_id, layout_id FROM used) AS u"
        " ON (u.layout_id, u.organization_id) = (n.layout_id, w.organization_id)"
        " WHERE w.device IS NULL AND (w.plant_id IS NULL OR u.plant_id = w.plant_id)",
        tuple([getattr(rule, name) for rule in rules] for name in ("id", "organization_id", "plant_id", "metric")),
        prepare=False,  # planned for this number of rules
    )
    found: dict[UUID, set[str]] = {}
    for rule_id, unit in await cursor.fetchall():
        found.setdefault(rule_id, set()).add(unit)
    return found


async def set_units(db: Connection, units: Sequence[tuple[UUID, UUID | None, str, str]]) -> None:
    """Set the units of rules that have none and still watch the metric of the plant, or of all: (rule, plant, metric, unit)."""
    await db.execute(
        "WITH new AS (SELECT r.id, n.unit FROM alert_rule r JOIN unnest(%s::uuid[], %s::uuid[], %s::text[],"
        " %s::text[]) AS n (id, plant_id, metric, unit) USING (id, metric)"
        " WHERE r.unit IS NULL AND r.plant_id IS NOT DISTINCT FROM n.plant_id ORDER BY r.id FOR NO KEY UPDATE OF r)"
        " UPDATE alert_rule r SET unit = new.unit FROM new WHERE r.id = new.id",
        tuple([row[column] for row in units] for column in range(4)),
    )


async def claim_unit_notifications(db: Connection, rule_ids: Iterable[UUID]) -> set[UUID]:
    """Return the rules for which no notice about their unit was sent, and record one as sent."""
    cursor = await db.execute(
        "UPDATE alert_rule SET unit_notice_at = now() WHERE id IN (SELECT id FROM alert_rule"
        " WHERE id = ANY(%s) AND unit_notice_at IS NULL ORDER BY id FOR NO KEY UPDATE) RETURNING id",
        (sorted(rule_ids),),
    )
    return {row[0] for row in await cursor.fetchall()}


async def positions_of(db: Connection, org: OrgScope, plant_id: UUID | None, metric: str, most: int) -> list[MetricPosition]:
    """Return the positions in the organisation's frames that a rule on this metric watches, at most `most`.

    Args:
        plant_id: The only plant of the rule; None for all.
        metric: The metric's key, or its name with the sub-device: `BAT1.soc`.
    """
    cursor = db.cursor(row_factory=class_row(MetricPosition))
    await cursor.execute(
        "SELECT s.id AS source_id, s.plant_id, l.id AS layout_id, m.position::int AS number,"
        " coalesce(s.external_id || '.', '') || m.key AS metric, l.units[m.position] AS unit"
        " FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " CROSS JOIN LATERAL unnest(l.metrics) WITH ORDINALITY AS m (key, position)"
        " WHERE s.organization_id = %(org)s AND (%(plant)s::uuid IS NULL OR s.plant_id = %(plant)s)"
        " AND %(metric)s IN (m.key, s.external_id || '.' || m.key) LIMIT %(most)s",
        {"org": org.organization_id, "plant": plant_id, "metric": metric, "most": most},
    )
    return await fetch_in_turns(cursor)


async def count_history(
    db: Connection, org: OrgScope, positions: Sequence[MetricPosition], start: datetime, end: datetime, most: int
) -> int:
    """Return the number of values at the positions that `positions_of` returned; counting stops at `most`."""
    count = 0
    for part in by_shard(db, positions, lambda position: position.source_id):
        count += await fetch_count(
            db,
            # Position by position: the limit ends a search in the index, but neither a scan of all frames nor a sort.
            "WITH p AS MATERIALIZED (SELECT p.* FROM"
            " unnest(%(sources)s::int[], %(layouts)s::int[], %(positions)s::int[]) AS p (source_id, layout_id, position)"
            " JOIN telemetry_source s ON s.id = p.source_id AND s.organization_id = %(org)s)"
            " SELECT count(*) FROM (SELECT true FROM p CROSS JOIN LATERAL (SELECT true FROM telemetry_frame"
            " WHERE source_id = p.source_id AND layout_id = p.layout_id"
            f" AND time >= %(start)s AND time < %(end)s{part.condition} AND vals[p.position] IS NOT NULL LIMIT %(most)s) AS f"
            " LIMIT %(most)s) AS counted",
            {
                "sources": [position.source_id for position in part.items],
                "layouts": [position.layout_id for position in part.items],
                "positions": [position.number for position in part.items],
                "org": org.organization_id,
                "start": start,
                "end": end,
                "most": most - count,
            },
            prepare=False,  # planned for this range
        )
    return count


async def open_history(
    cursor: AsyncServerCursor[TupleRow], org: OrgScope, positions: Sequence[MetricPosition], start: datetime, end: datetime
) -> None:
    """Open the values at the positions that `positions_of` returned, oldest first.

    Rows are (source, plant, metric, unit, time, value).
    """
    await cursor.execute(
        "WITH p AS MATERIALIZED (SELECT p.* FROM unnest(%(sources)s::int[], %(plants)s::uuid[], %(layouts)s::int[],"
        " %(positions)s::int[], %(metrics)s::text[], %(units)s::text[])"
        " AS p (source_id, plant_id, layout_id, position, metric, unit)"
        " JOIN telemetry_source s ON s.id = p.source_id AND s.organization_id = %(org)s)"
        " SELECT p.source_id, p.plant_id, p.metric, p.unit, f.time, f.vals[p.position]"
        " FROM p JOIN telemetry_frame f ON f.source_id = p.source_id AND f.layout_id = p.layout_id"
        " AND f.time >= %(start)s AND f.time < %(end)s"
        " WHERE f.vals[p.position] IS NOT NULL ORDER BY f.time, p.source_id",
        {
            "sources": [position.source_id for position in positions],
            "plants": [position.plant_id for position in positions],
            "layouts": [position.layout_id for position in positions],
            "positions": [position.number for position in positions],
            "metrics": [position.metric for position in positions],
            "units": [position.unit for position in positions],
            "org": org.organization_id,
            "start": start,
            "end": end,
        },
    )
