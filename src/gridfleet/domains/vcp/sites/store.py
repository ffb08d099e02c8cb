"""SQL of sites and their schedules.

Locks are taken in the order plant, site: a change of the plant (above all a move to another organisation) locks the plant
and then deletes the site. Conditions and values that come from other rows than the locked one are read by a separate
statement after the lock: a statement that had to wait continues with the snapshot from before the wait.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.rows import class_row, dict_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.vcp.sites.models import Constraints, Fallback, ModeOverride, ScheduleInterval, Site, SiteFilter
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import containing, fetch_count
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.partner_messages import Mode

LAST_END = "(SELECT i.end_at FROM vcp_interval i WHERE i.plant_id = {} ORDER BY i.start_at DESC LIMIT 1)"
"""When the schedule of a plant ends, NULL without intervals: one look-up in the index, because intervals do not overlap."""

_COLUMNS = (
    "p.id AS plant_id, p.organization_id, p.lifecycle_status, s.constraints, s.fallback_mode, s.fallback_after_seconds,"
    " s.fallback_since, s.silent_from, s.override_mode, s.override_set_by, s.override_set_at, s.override_expires_at,"
    " s.override_command_id, s.override_power_kw, s.setpoint_ends_at, s.setpoint_command_id,"
    " s.schedule_id, s.schedule_revision, s.schedule_command_id,"
    f" CASE WHEN s.schedule_active THEN {LAST_END.format('p.id')} END AS schedule_ends_at"
)
_SITE = f"SELECT {_COLUMNS} FROM plant p"
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def _site(**row: Any) -> Site:
    override = None
    if row["override_mode"] is not None:
        override = ModeOverride(
            Mode(row["override_mode"]), row["override_set_by"], row["override_set_at"], row["override_expires_at"]
        )
    mode = row["fallback_mode"]
    return Site(
        plant_id=row["plant_id"],
        lifecycle_status=row["lifecycle_status"],
        silent_from=row["silent_from"],
        constraints=msgspec.convert(row["constraints"], Constraints),
        fallback=Fallback(None if mode is None else Mode(mode), row["fallback_after_seconds"]),
        fallback_since=row["fallback_since"],
        override=override,
        override_command_id=row["override_command_id"],
        override_power_kw=row["override_power_kw"],
        setpoint_ends_at=row["setpoint_ends_at"],
        setpoint_command_id=row["setpoint_command_id"],
        schedule_id=row["schedule_id"],
        schedule_revision=row["schedule_revision"],
        schedule_ends_at=row["schedule_ends_at"],
        schedule_command_id=row["schedule_command_id"],
    )


async def open_site(db: Connection, organization_id: UUID, plant_id: UUID, now: datetime) -> None:
    """Insert the site's row if the plant belongs to the organisation and has none.

    The command that opens it, which is issued at `now`, must not be older than the site: it would be taken for one of the
    plant's former organisation.
    """
    await db.execute(
        "INSERT INTO vcp_site (plant_id, opened_at) SELECT id, least(now(), %s) FROM plant"
        " WHERE id = %s AND organization_id = %s FOR KEY SHARE ON CONFLICT DO NOTHING",
        (now, plant_id, organization_id),
    )


async def lock_site(db: Connection, organization_id: UUID, plant_id: UUID) -> Site | None:
    """Lock the site of a plant of the organisation until the transaction ends. Returns None if the site has no row."""
    cursor = await db.execute(
        "SELECT s.plant_id FROM plant p JOIN vcp_site s ON s.plant_id = p.id WHERE p.id = %s AND p.organization_id = %s"
        " FOR KEY SHARE OF p FOR NO KEY UPDATE OF s",
        (plant_id, organization_id),
    )
    found = await read_locked(db, [row[0] for row in await cursor.fetchall()])
    return found[0] if found else None


async def lock_many(db: Connection, plant_ids: Sequence[UUID]) -> list[Site]:
    """Lock sites until the transaction ends. Do not issue commands afterwards: the plants are not locked."""
    cursor = await db.execute(
        "SELECT plant_id FROM vcp_site WHERE plant_id = ANY(%s) ORDER BY plant_id FOR NO KEY UPDATE", (list(plant_ids),)
    )
    return await read_locked(db, [row[0] for row in await cursor.fetchall()])


async def read_locked(db: Connection, plant_ids: Sequence[UUID]) -> list[Site]:
    """Return the sites that the transaction has locked."""
    if not plant_ids:
        return []
    cursor = db.cursor(row_factory=kwargs_row(_site))
    await cursor.execute(f"{_SITE} JOIN vcp_site s ON s.plant_id = p.id WHERE p.id = ANY(%s) ORDER BY p.id", (list(plant_ids),))
    return await cursor.fetchall()


async def save_site(db: Connection, site: Site) -> None:
    """Save a locked site, without its intervals."""
    override = site.override
    await db.execute(
        "UPDATE vcp_site SET constraints = %(constraints)s, fallback_mode = %(fallback_mode)s,"
        " fallback_after_seconds = %(fallback_after)s, fallback_since = %(fallback_since)s, silent_from = %(silent_from)s,"
        " override_mode = %(override_mode)s, override_set_by = %(override_by)s, override_set_at = %(override_at)s,"
        " override_expires_at = %(override_expires)s, override_command_id = %(override_command)s,"
        " override_power_kw = %(override_power)s, setpoint_ends_at = %(setpoint_ends)s,"
        " setpoint_command_id = %(setpoint_command)s,"
        " schedule_id = %(schedule_id)s, schedule_revision = %(schedule_revision)s,"
        " schedule_active = %(schedule_active)s, schedule_command_id = %(schedule_command)s WHERE plant_id = %(plant)s",
        {
            "plant": site.plant_id,
            "constraints": Jsonb(msgspec.to_builtins(site.constraints)),
            "fallback_mode": site.fallback.mode,
            "fallback_after": site.fallback.after_seconds,
            "fallback_since": site.fallback_since,
            "silent_from": site.silent_from,
            "override_mode": override and override.mode,
            "override_by": override and override.set_by,
            "override_at": override and override.set_at,
            "override_expires": override and override.expires_at,
            "override_command": site.override_command_id,
            "override_power": site.override_power_kw,
            "setpoint_ends": site.setpoint_ends_at,
            "setpoint_command": site.setpoint_command_id,
            "schedule_id": site.schedule_id,
            "schedule_revision": site.schedule_revision,
            "schedule_active": site.schedule_ends_at is not None,
            "schedule_command": site.schedule_command_id,
        },
    )


async def set_setpoint(db: Connection, plant_id: UUID, command_id: UUID) -> None:
    """Store which command holds the setpoint of a locked site. Its end stays."""
    await db.execute("UPDATE vcp_site SET setpoint_command_id = %s WHERE plant_id = %s", (command_id, plant_id))


async def delete_intervals(db: Connection, plant_id: UUID) -> None:
    """Delete the intervals of the site's schedule."""
    await db.execute("DELETE FROM vcp_interval WHERE plant_id = %s", (plant_id,))


async def insert_intervals(db: Connection, plant_id: UUID, intervals: Sequence[ScheduleInterval]) -> None:
    """Insert the intervals of a new schedule."""
    await db.execute(
        "INSERT INTO vcp_interval (plant_id, start_at, end_at, power_kw)"
        " SELECT %s, i.* FROM unnest(%s::timestamptz[], %s::timestamptz[], %s::float8[]) AS i",
        (
            plant_id,
            [one.start for one in intervals],
            [one.end for one in intervals],
            [one.power_kw for one in intervals],
        ),
    )


async def mark_done(db: Connection, plant_id: UUID, until: datetime) -> None:
    """Mark the intervals that began until then as done, so that they are not issued."""
    await db.execute(
        "UPDATE vcp_interval SET done_at = %(until)s WHERE plant_id = %(plant)s AND start_at <= %(until)s",
        {"plant": plant_id, "until": until},
    )


async def reopen_intervals(db: Connection, plant_ids: Sequence[UUID], now: datetime) -> None:
    """Mark the plants' intervals at `now` as not done, so that they are issued again."""
    await db.execute(
        "UPDATE vcp_interval SET done_at = NULL"
        " WHERE plant_id = ANY(%(plants)s) AND start_at <= %(now)s AND end_at > %(now)s AND done_at IS NOT NULL",
        {"plants": list(plant_ids), "now": now},
    )


async def start_of_interval(db: Connection, plant_id: UUID, now: datetime) -> datetime | None:
    """Return when the interval at `now` began; None if there is none."""
    cursor = await db.execute(
        "SELECT start_at FROM vcp_interval WHERE plant_id = %(plant)s AND start_at <= %(now)s AND end_at > %(now)s LIMIT 1",
        {"plant": plant_id, "now": now},
    )
    found = await cursor.fetchone()
    return found[0] if found else None


async def find_site(db: Connection, org: OrgScope, plant_id: UUID) -> Site | None:
    """Return the site of a plant that the caller may see, or None. A plant without a site row gets default values."""
    cursor = db.cursor(row_factory=kwargs_row(_seen))
    await cursor.execute(
        f"{_SITE} LEFT JOIN vcp_site s ON s.plant_id = p.id WHERE p.id = %(plant)s AND p.organization_id = %(org)s"
        " AND (%(plants)s::uuid[] IS NULL OR p.id = ANY(%(plants)s))",
        {"plant": plant_id, **org.parameters},
    )
    return await cursor.fetchone()


_OVERVIEW = (
    f"SELECT {_COLUMNS}, p.name, p.serial_number, p.status,"
    " (SELECT i.power_kw FROM vcp_interval i WHERE i.plant_id = p.id AND i.start_at <= %(now)s AND i.end_at > %(now)s)"
    " AS power_kw, (SELECT min(least(CASE WHEN i.start_at > %(now)s THEN i.start_at END, i.end_at)) FROM vcp_interval i"
    " WHERE i.plant_id = p.id AND i.end_at > %(now)s) AS changes_at FROM plant p"
)
_LISTED = "plant p LEFT JOIN vcp_site s ON s.plant_id = p.id WHERE p.organization_id = %(org)s"
_STATES = {
    "has_override": "s.override_mode IS NOT NULL AND coalesce(s.override_expires_at > %(now)s, true)",
    "has_fallback": "s.fallback_since IS NOT NULL",
    "has_schedule": f"s.schedule_active AND {LAST_END.format('s.plant_id')} > %(now)s",
}
"""What is true of a site in a state. NULL or false for any other site, also one without a row."""


def _listed(org: OrgScope, wanted: SiteFilter, now: datetime) -> tuple[str, dict[str, Any]]:
    """Return what follows FROM in the queries of a list, with the conditions of the used filters, and the parameters."""
    conditions = [] if org.plant_ids is None else ["p.id = ANY(%(plants)s)"]
    if wanted.text is not None:
        conditions.append("(p.name ILIKE %(pattern)s OR p.serial_number ILIKE %(pattern)s)")
    for name, state in _STATES.items():
        if (asked := getattr(wanted, name)) is not None:
            conditions.append(f"({state})" if asked else f"({state}) IS NOT TRUE")
    values = {**org.parameters, "now": now, "pattern": wanted.text and containing(wanted.text)}
    return _LISTED + "".join(f" AND {condition}" for condition in conditions), values


async def list_sites(
    db: Connection, org: OrgScope, wanted: SiteFilter, now: datetime, paging: Paging
) -> list[tuple[Site, dict[str, Any]]]:
    """Return one page of the sites that match, with what else their list shows, newest plant first."""
    listed, values = _listed(org, wanted, now)
    cursor = db.cursor(row_factory=dict_row)
    await cursor.execute(
        # The rows of the page first: the schedules of the sites before it are not read.
        f"{_OVERVIEW} JOIN (SELECT p.id FROM {listed}"
        " ORDER BY p.created_at DESC, p.id DESC LIMIT %(limit)s OFFSET %(offset)s) AS page ON page.id = p.id"
        " LEFT JOIN vcp_site s ON s.plant_id = p.id ORDER BY p.created_at DESC, p.id DESC",
        {**values, "limit": paging.limit, "offset": paging.offset},
    )
    return [(_seen(**row), row) for row in await cursor.fetchall()]


async def count_sites(db: Connection, org: OrgScope, wanted: SiteFilter, now: datetime) -> int:
    """Return the number of sites that match."""
    listed, values = _listed(org, wanted, now)
    return await fetch_count(db, f"SELECT count(*) FROM {listed}", values)


def _seen(**row: Any) -> Site:
    """Return a site that may have no row yet."""
    return _site(**row | {"constraints": row["constraints"] or {}, "silent_from": row["silent_from"] or _LONG_AGO})


async def intervals_of(db: Connection, plant_id: UUID) -> list[ScheduleInterval]:
    """Return the intervals of a locked site's schedule, by time."""
    cursor = db.cursor(row_factory=class_row(ScheduleInterval))
    await cursor.execute(f"SELECT {_INTERVAL} FROM vcp_interval i WHERE i.plant_id = %s ORDER BY i.start_at", (plant_id,))
    return await cursor.fetchall()


_INTERVAL = "i.start_at AS start, extract(epoch FROM i.end_at - i.start_at)::int AS duration_seconds, i.power_kw"


async def intervals(db: Connection, org: OrgScope, plant_id: UUID) -> list[ScheduleInterval]:
    """Return the intervals of the current schedule, by time."""
    cursor = db.cursor(row_factory=class_row(ScheduleInterval))
    await cursor.execute(
        f"SELECT {_INTERVAL}"
        " FROM vcp_interval i JOIN plant p ON p.id = i.plant_id WHERE i.plant_id = %s AND p.organization_id = %s"
        " ORDER BY i.start_at",
        (plant_id, org.organization_id),
    )
    return await cursor.fetchall()
