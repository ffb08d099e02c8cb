"""SQL of what becomes due at sites."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import kwargs_row

from gridfleet.domains.vcp.sites.models import Constraints
from gridfleet.domains.vcp.sites.store import LAST_END
from gridfleet.kernel.db import Connection

_SKIP = "FOR KEY SHARE OF p SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED"


class Selection(NamedTuple):
    """The sites to claim: those in `only`, or all if it is None, without those in `without`."""

    only: Sequence[UUID] | None = None
    without: Sequence[UUID] = ()

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of SELECTED."""
        return {"only": None if self.only is None else list(self.only), "without": list(self.without)}


SELECTED = "(%(only)s::uuid[] IS NULL OR s.plant_id = ANY(%(only)s)) AND s.plant_id <> ALL(%(without)s::uuid[])"


_DUE = (
    "i.done_at IS NULL AND i.start_at <= %(now)s AND s.schedule_active"
    " AND (i.end_at <= %(now)s OR (p.lifecycle_status = 'ACTIVE'"
    " AND (s.override_mode IS NULL OR s.override_expires_at <= %(now)s)))"
)
# No step is longer than a week, like the intervals.
_EARLIER_STEP = (
    "SELECT FROM plant_command c WHERE c.plant_id = ended.plant_id AND c.issued_at > %(now)s - interval '7 days'"
    " AND c.type = 'SITE_SETPOINT' AND c.instruction->'schedule' <> ended.schedule"
    " AND c.issued_at + make_interval(secs => (c.instruction->'params'->>'durationSeconds')::float8) > %(now)s"
    " AND c.status NOT IN ('REJECTED', 'FAILED', 'EXPIRED')"
)


class DueInterval(NamedTuple):
    """A schedule step that is due, with the limits of its site."""

    plant_id: UUID
    end_at: datetime
    power_kw: float
    schedule_id: str
    schedule_revision: int
    constraints: Constraints


def _due(**row: Any) -> DueInterval:
    row["constraints"] = msgspec.convert(row["constraints"], Constraints)
    return DueInterval(**row)


async def list_ids(db: Connection, without: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    """Return the plants of all sites other than those in `without`, by organisation."""
    cursor = await db.execute(
        "SELECT p.organization_id, array_agg(p.id ORDER BY p.id) FROM vcp_site s JOIN plant p ON p.id = s.plant_id"
        " WHERE s.plant_id <> ALL(%s) GROUP BY 1",
        (list(without),),
    )
    return dict(await cursor.fetchall())


async def claim_due_intervals(db: Connection, now: datetime, limit: int, selection: Selection) -> list[DueInterval]:
    """Claim intervals and mark them as done. Their sites stay locked.

    These are the intervals that have begun at sites of ACTIVE plants without an override, and all that have ended.
    """
    times = {"now": now, "limit": limit, **selection.parameters}
    cursor = await db.execute(
        "SELECT s.plant_id FROM vcp_interval i JOIN vcp_site s ON s.plant_id = i.plant_id JOIN plant p ON p.id = i.plant_id"
        f" WHERE {_DUE} AND {SELECTED} ORDER BY i.start_at LIMIT %(limit)s {_SKIP}",
        times,
    )
    locked = list({row[0] for row in await cursor.fetchall()})
    if not locked:
        return []
    due = db.cursor(row_factory=kwargs_row(_due))
    await due.execute(
        f"WITH done AS (UPDATE vcp_interval i SET done_at = %(now)s FROM vcp_site s, plant p"
        f" WHERE i.plant_id = ANY(%(locked)s) AND s.plant_id = i.plant_id AND p.id = i.plant_id AND {_DUE} RETURNING i.*)"
        " SELECT d.plant_id, d.end_at, d.power_kw, s.schedule_id, s.schedule_revision, s.constraints"
        " FROM done d JOIN vcp_site s ON s.plant_id = d.plant_id ORDER BY d.start_at",
        {**times, "locked": locked},
    )
    return await due.fetchall()


async def lock_after_setpoints(db: Connection, now: datetime, ended: datetime, limit: int, selection: Selection) -> list[UUID]:
    """Lock up to `limit` of the selected sites whose interval at `now` was done before a setpoint that ended until `ended`.

    Of each site, only the last interval that has begun is read: a schedule may have hundreds. Returns their plants, which have
    no order for the rest of the interval.
    """
    cursor = await db.execute(
        "SELECT s.plant_id FROM vcp_site s JOIN plant p ON p.id = s.plant_id CROSS JOIN LATERAL (SELECT end_at, done_at"
        " FROM vcp_interval WHERE plant_id = s.plant_id AND start_at <= %(now)s ORDER BY start_at DESC LIMIT 1) AS i"
        " WHERE s.schedule_active AND s.setpoint_ends_at <= %(ended)s AND i.end_at > %(now)s"
        f" AND i.done_at < s.setpoint_ends_at AND {SELECTED} LIMIT %(limit)s {_SKIP}",
        {"now": now, "ended": ended, "limit": limit, **selection.parameters},
    )
    return [row[0] for row in await cursor.fetchall()]


async def reopen_after_setpoints(db: Connection, plant_ids: Sequence[UUID], now: datetime) -> None:
    """Mark the intervals at `now` of locked sites as not done, if that was before the setpoint.

    Another gateway may have issued one since `lock_after_setpoints` read it.
    """
    await db.execute(
        "UPDATE vcp_interval i SET done_at = NULL FROM vcp_site s"
        " WHERE s.plant_id = i.plant_id AND i.plant_id = ANY(%(plants)s)"
        " AND i.start_at <= %(now)s AND i.end_at > %(now)s AND i.done_at < s.setpoint_ends_at",
        {"plants": list(plant_ids), "now": now},
    )


async def end_schedules(db: Connection, now: datetime, limit: int, selection: Selection) -> int:
    """End the schedules whose last interval is over. Returns how many sites were checked.

    A schedule that the plant has not confirmed stays to be confirmed while the plant may have a step of an earlier one, which
    ends with it.
    """
    over = f"s.schedule_active AND coalesce({LAST_END.format('s.plant_id')} <= %(now)s, true)"
    cursor = await db.execute(
        f"SELECT s.plant_id FROM vcp_site s WHERE {over} AND {SELECTED} LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED",
        {"now": now, "limit": limit, **selection.parameters},
    )
    locked = [row[0] for row in await cursor.fetchall()]
    if locked:
        await db.execute(
            "WITH ended AS (UPDATE vcp_site s SET schedule_active = false, silent_from = greatest(s.silent_from,"
            f" {LAST_END.format('s.plant_id')})"
            f" WHERE s.plant_id = ANY(%(locked)s) AND {over}"
            " RETURNING s.plant_id,"
            " jsonb_build_object('scheduleId', s.schedule_id, 'revision', s.schedule_revision) AS schedule),"
            " confirmed AS (DELETE FROM vcp_unconfirmed u USING ended WHERE u.plant_id = ended.plant_id"
            f" AND (u.kind = 'STEP' OR u.kind = 'SCHEDULE' AND NOT EXISTS ({_EARLIER_STEP})))"
            " DELETE FROM vcp_interval i USING ended WHERE i.plant_id = ended.plant_id",
            {"locked": locked, "now": now},
        )
    return len(locked)


async def end_overrides(db: Connection, now: datetime, limit: int, selection: Selection) -> list[UUID]:
    """Lock up to `limit` of the selected sites whose override is over, and end it. Returns their plants.

    Their setpoints end too: the plants dropped them when they received the override.
    """
    cursor = await db.execute(
        "SELECT s.plant_id FROM vcp_site s JOIN plant p ON p.id = s.plant_id WHERE s.override_expires_at <= %(now)s"
        f" AND {SELECTED} ORDER BY s.override_expires_at LIMIT %(limit)s {_SKIP}",
        {"now": now, "limit": limit, **selection.parameters},
    )
    locked = [row[0] for row in await cursor.fetchall()]
    if locked:
        await db.execute(
            "UPDATE vcp_site SET silent_from = greatest(silent_from, override_expires_at), override_mode = NULL,"
            " override_set_by = NULL, override_set_at = NULL, override_expires_at = NULL, override_command_id = NULL,"
            " override_power_kw = NULL, setpoint_ends_at = NULL, setpoint_command_id = NULL WHERE plant_id = ANY(%s)",
            (locked,),
        )
    return locked


async def start_fallbacks(
    db: Connection, now: datetime, limit: int, selection: Selection, shards: Collection[int]
) -> list[UUID]:
    """Lock up to `limit` of the selected sites whose partner has been silent for the time of their fallback, and start it.

    The time counts from the end of an override, a schedule or a setpoint with a duration, if one holds. Only sites of the
    organisations in `shards`. Returns the plants.
    """
    cursor = await db.execute(
        "SELECT s.plant_id FROM vcp_site s JOIN plant p ON p.id = s.plant_id WHERE s.fallback_mode IS NOT NULL"
        " AND s.fallback_after_seconds IS NOT NULL AND s.fallback_since IS NULL AND s.override_mode IS NULL"
        " AND NOT s.schedule_active AND greatest(s.silent_from, s.setpoint_ends_at)"
        " + make_interval(secs => s.fallback_after_seconds) <= %(now)s"
        " AND right(p.organization_id::text, 1) = ANY(%(digits)s::text[])"
        f" AND {SELECTED} ORDER BY s.silent_from LIMIT %(limit)s {_SKIP}",
        {"now": now, "limit": limit, "digits": [f"{shard:x}" for shard in shards], **selection.parameters},
    )
    locked = [row[0] for row in await cursor.fetchall()]
    if locked:
        await db.execute("UPDATE vcp_site SET fallback_since = %s WHERE plant_id = ANY(%s)", (now, locked))
    return locked


async def correct_silence(db: Connection) -> int:
    """Replace every `silent_from` in the future, which a clock that was ahead has written, by the present.

    A setpoint whose command was issued at that time ends earlier by the same difference. Returns the number of sites.
    """
    cursor = await db.execute(
        "UPDATE vcp_site s SET silent_from = now(), setpoint_ends_at = CASE WHEN EXISTS"
        " (SELECT FROM plant_command c WHERE c.id = s.setpoint_command_id AND c.issued_at > now())"
        " THEN s.setpoint_ends_at - (s.silent_from - now()) ELSE s.setpoint_ends_at END"
        " FROM (SELECT plant_id FROM vcp_site WHERE silent_from > now() + interval '1 minute'"
        " FOR NO KEY UPDATE SKIP LOCKED) AS ahead WHERE s.plant_id = ahead.plant_id"
    )
    return cursor.rowcount


async def correct_openings(db: Connection) -> int:
    """Replace every `opened_at` in the future by a time just before the present. Returns the number of sites.

    Commands that were issued since the correction of the clock remain later than it. A site keeps its time if a command of
    another organisation would be later too: it would be taken for one of the site's partners.
    """
    cursor = await db.execute(
        "UPDATE vcp_site s SET opened_at = now() - interval '2 minutes' FROM (SELECT s.plant_id FROM vcp_site s"
        " JOIN plant p ON p.id = s.plant_id WHERE s.opened_at > now() + interval '1 minute' AND NOT EXISTS"
        " (SELECT FROM plant_command c WHERE c.plant_id = s.plant_id AND c.issued_at > now() - interval '2 minutes'"
        " AND c.organization_id <> p.organization_id) FOR NO KEY UPDATE OF s SKIP LOCKED) AS ahead"
        " WHERE s.plant_id = ahead.plant_id"
    )
    return cursor.rowcount


async def reopen_early_intervals(db: Connection) -> int:
    """Reopen the intervals that are not over and that a clock that was ahead has marked as done. Returns their number.

    Of each site, the last interval that has begun and the next one show whether there are some.
    """
    early = "i.done_at > now() + interval '1 minute' OR (i.done_at IS NOT NULL AND i.start_at > now() + interval '10 s')"
    cursor = await db.execute(
        "WITH held AS (SELECT s.plant_id FROM vcp_site s CROSS JOIN LATERAL"
        " ((SELECT * FROM vcp_interval WHERE plant_id = s.plant_id AND start_at <= now() ORDER BY start_at DESC LIMIT 1)"
        " UNION ALL (SELECT * FROM vcp_interval WHERE plant_id = s.plant_id AND start_at > now() ORDER BY start_at LIMIT 1))"
        f" AS i WHERE s.schedule_active AND i.end_at > now() AND ({early}) FOR NO KEY UPDATE OF s SKIP LOCKED)"
        " UPDATE vcp_interval i SET done_at = NULL FROM held WHERE i.plant_id = held.plant_id AND i.end_at > now()"
        f" AND ({early})"
    )
    return cursor.rowcount
