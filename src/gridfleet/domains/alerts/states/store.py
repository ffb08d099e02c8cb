"""SQL of the states of metrics for rules."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["RuleStateRow"]


class RuleStateRow(NamedTuple):
    """The state of one metric for a rule; see the comments of the table `alert_state`."""

    rule_id: UUID
    source_id: int
    metric: str
    since: datetime
    seen_at: datetime
    alert_id: UUID | None


_STANDING = ", ".join(RuleStateRow._fields)
_NEW_STANDINGS = (
    f"unnest(%b::uuid[], %b::int[], %b::text[], %b::timestamptz[], %b::timestamptz[], %b::uuid[]) AS new ({_STANDING})"
)


# In one order, and each transaction locks all that it changes at once: otherwise two of them could end in a deadlock.
_IN_ORDER = "ORDER BY s.rule_id, s.source_id, s.metric FOR UPDATE OF s"
_DELETE = (
    f"WITH held AS (SELECT s.rule_id, s.source_id, s.metric FROM alert_state s {{}} {_IN_ORDER})"
    " DELETE FROM alert_state s USING held"
    " WHERE (s.rule_id, s.source_id, s.metric) = (held.rule_id, held.source_id, held.metric)"
)


async def clear_states_of_alerts(db: Connection, org: OrgScope, alert_ids: Iterable[UUID]) -> None:
    """Delete the states of alerts that a user resolved: their metrics may raise others.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction has locked one of them. The transaction can only be rolled back to
            a savepoint.
    """
    await db.execute(
        "WITH held AS (SELECT s.rule_id, s.source_id, s.metric FROM alert_state s JOIN alert a ON a.id = s.alert_id"
        " WHERE a.id = ANY(%s) AND a.organization_id = %s FOR UPDATE OF s NOWAIT)"
        " DELETE FROM alert_state s USING held"
        " WHERE (s.rule_id, s.source_id, s.metric) = (held.rule_id, held.source_id, held.metric)",
        (list(alert_ids), org.organization_id),
    )


async def sources_of_device(db: Connection, org: OrgScope, sub_device_id: UUID) -> list[int]:
    """Return the telemetry sources of a sub-device."""
    cursor = await db.execute(
        "SELECT id FROM telemetry_source WHERE sub_device_id = %s AND organization_id = %s",
        (sub_device_id, org.organization_id),
    )
    return [row[0] for row in await cursor.fetchall()]


async def sources_of_plant(db: Connection, org: OrgScope, plant_id: UUID) -> list[int]:
    """Return the telemetry sources of a plant and its sub-devices."""
    cursor = await db.execute(
        "SELECT id FROM telemetry_source WHERE plant_id = %s AND organization_id = %s", (plant_id, org.organization_id)
    )
    return [row[0] for row in await cursor.fetchall()]


async def clearing_alerts(db: Connection, org: OrgScope, source_ids: Sequence[int]) -> list[UUID]:
    """Return the alerts on these sources that their rules resolve automatically."""
    cursor = await db.execute(
        "SELECT s.alert_id FROM alert_state s JOIN alert_rule r ON r.id = s.rule_id AND r.auto_resolve"
        " WHERE s.source_id = ANY(%s) AND s.alert_id IS NOT NULL AND r.organization_id = %s ORDER BY s.alert_id",
        (source_ids, org.organization_id),
    )
    return [row[0] for row in await cursor.fetchall()]


async def delete_states_of(db: Connection, org: OrgScope, source_ids: Sequence[int]) -> None:
    """Delete the states of the metrics of these sources."""
    await db.execute(
        _DELETE.format(
            "JOIN telemetry_source t ON t.id = s.source_id WHERE t.id = ANY(%s) AND t.organization_id = %s",
        ).encode(),
        (source_ids, org.organization_id),
    )


async def delete_states_of_rule(db: Connection, org: OrgScope, rule_id: UUID, *, waiting: bool, raised: bool) -> None:
    """Delete states of a rule of the organisation.

    Args:
        db: A transaction that has locked the rule.
        org: The organisation.
        rule_id: The rule.
        waiting: Whether to delete those without an alert: the time of each metric that has not met the rule for long enough yet
            begins again.
        raised: Whether to delete those with an alert: these alerts neither clear nor prevent further ones.
    """
    await db.execute(
        _DELETE.format(
            "JOIN alert_rule r ON r.id = s.rule_id WHERE r.id = %s AND r.organization_id = %s"
            " AND CASE WHEN s.alert_id IS NULL THEN %s ELSE %s END",
        ).encode(),
        (rule_id, org.organization_id, waiting, raised),
    )


async def rule_states(db: Connection, source_ids: Iterable[int]) -> list[RuleStateRow]:
    """Return the states of the metrics of these sources."""
    cursor = db.cursor(row_factory=class_row(RuleStateRow), binary=True)
    await cursor.execute(f"SELECT {_STANDING} FROM alert_state WHERE source_id = ANY(%s)", (list(source_ids),))
    return await cursor.fetchall()


async def count_states(db: Connection, organization_ids: Iterable[UUID], most: int) -> dict[UUID, int]:
    """Return the number of states of each organisation's rules, at most `most`."""
    cursor = await db.execute(
        "SELECT o.id, (SELECT count(*) FROM (SELECT FROM alert_rule r JOIN alert_state s ON s.rule_id = r.id"
        " WHERE r.organization_id = o.id LIMIT %s) AS own) FROM unnest(%s::uuid[]) AS o (id)",
        (most, list(organization_ids)),
    )
    return dict(await cursor.fetchall())


async def hold_rules(db: Connection, rule_ids: Iterable[UUID]) -> set[UUID]:
    """Return the rules that exist, locked against deletion until the transaction ends.

    Call this before alerts and states of the rules are locked, because the deletion of a rule locks the rule first too.
    """
    cursor = await db.execute("SELECT id FROM alert_rule WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", (list(rule_ids),))
    return {row[0] for row in await cursor.fetchall()}


async def hold_states(db: Connection, keys: Iterable[tuple[UUID, int, str]]) -> None:
    """Lock those of the states (rule, source, metric) that exist, until the transaction ends."""
    await db.execute(
        "SELECT FROM alert_state s JOIN unnest(%s::uuid[], %s::int[], %s::text[]) AS k (rule_id, source_id, metric)"
        f" USING (rule_id, source_id, metric) {_IN_ORDER}".encode(),
        _by_column(list(keys), 3),
    )


async def insert_rule_states(db: Connection, rows: Sequence[RuleStateRow]) -> None:
    """Write states that are new or have an alert now."""
    await db.execute(
        f"INSERT INTO alert_state AS s ({_STANDING}) SELECT new.* FROM {_NEW_STANDINGS}"
        " ON CONFLICT (rule_id, source_id, metric) DO UPDATE"
        " SET since = excluded.since, seen_at = excluded.seen_at, alert_id = excluded.alert_id",
        _by_column(rows),
    )


async def update_rule_states(db: Connection, rows: Sequence[RuleStateRow]) -> None:
    """Write states, unless their rows were deleted in the meantime, for example by a user who resolved the alert."""
    await db.execute(
        "UPDATE alert_state s SET since = new.since, seen_at = new.seen_at, alert_id = new.alert_id"
        f" FROM {_NEW_STANDINGS}"
        " WHERE (s.rule_id, s.source_id, s.metric) = (new.rule_id, new.source_id, new.metric)",
        _by_column(rows),
    )


def _by_column(rows: Sequence[tuple[Any, ...]], columns: int = len(RuleStateRow._fields)) -> tuple[list[Any], ...]:
    return tuple([row[column] for row in rows] for column in range(columns))


async def delete_rule_states(db: Connection, keys: Sequence[tuple[UUID, int, str]]) -> None:
    """Delete the states of (rule, source, metric) whose conditions no longer hold."""
    await db.execute(
        "DELETE FROM alert_state s USING unnest(%s::uuid[], %s::int[], %s::text[]) AS gone (rule_id, source_id, metric)"
        " WHERE s.rule_id = gone.rule_id AND s.source_id = gone.source_id AND s.metric = gone.metric",
        _by_column(keys, 3),
    )
