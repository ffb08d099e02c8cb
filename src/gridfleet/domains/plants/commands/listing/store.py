"""SQL of lists of commands: of all plants, of a sub-device, and of a plant's powers.

A command belongs to the organisation that its plant had when it was issued. It is listed there while the plant stays in it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.plants.chosen_plants import ChosenPlants
from gridfleet.domains.plants.commands.listing.models import CommandFilter, CommandStep, ListedCommand
from gridfleet.domains.plants.commands.models import (
    OPEN,
    AppliedPower,
    CommandStatus,
    CommandType,
    PlantCommand,
    Requester,
)
from gridfleet.domains.plants.commands.store import reason_of
from gridfleet.kernel.caller import ActorType, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_in_turns
from gridfleet.kernel.pagination import CursorPaging, Paging, TimeKey

_COLUMNS = (
    "c.id, c.plant_id, p.name AS plant_name, c.type, c.target AS external_id, c.instruction->>'action' AS action,"
    " c.instruction->'params' AS params, c.status, c.issued_at, c.expires_at, c.sent_at, c.received_at, c.finished_at,"
    " c.reason, c.requester_type, c.requester_id"
)
_OURS = "c.organization_id = %(org)s AND EXISTS (SELECT FROM plant p WHERE p.id = c.plant_id AND p.organization_id = %(org)s)"
_SHOWN = "CASE WHEN c.finished_at IS NULL AND c.expires_at <= %(now)s THEN 'EXPIRED' ELSE c.status END"
"""The status of a command at a time, as `as_of` returns it."""
_ISSUER = (
    "(SELECT CASE WHEN EXISTS (SELECT FROM partner_key k WHERE k.id = %(issued_by)s::uuid) THEN 'API_KEY' ELSE 'USER' END)"
)

_ORDER = "ORDER BY issued_at DESC, id DESC LIMIT %(most)s"

_GROUPS = (
    # One look-up in the index for each combination, which finds its commands in the order of the list.
    "unnest(%(issuers)s::text[]) AS i (issuer) CROSS JOIN unnest(%(stored)s::text[]) AS s (status)"
    " CROSS JOIN unnest(%(types)s::text[]) AS t (type) CROSS JOIN LATERAL (SELECT c.id, c.issued_at FROM plant_command c"
    " WHERE c.requester_type = i.issuer AND c.status = s.status AND c.type = t.type"
)
_BY_PLANT = (
    "unnest(%(plants)s::uuid[]) AS w (plant_id) CROSS JOIN LATERAL (SELECT c.id, c.issued_at FROM plant_command c"
    " WHERE c.plant_id = w.plant_id AND c.type = ANY(%(types)s)"
)
_OF_DEVICE = "sub_device_id = %(device)s AND EXISTS (SELECT FROM plant p WHERE p.id = plant_id AND p.organization_id = %(org)s)"


def _command(requester_type: str, requester_id: str | None, **row: Any) -> ListedCommand:
    row["status"] = CommandStatus(row["status"])
    row["type"] = CommandType(row["type"])
    row["reason"] = reason_of(row["reason"])
    return ListedCommand(requested_by=Requester(requester_type, requester_id), requested_by_name=None, **row)


def _plant_command(instruction: dict[str, Any], requester_type: str, requester_id: str | None, **row: Any) -> PlantCommand:
    row["status"] = CommandStatus(row["status"])
    row["reason"] = reason_of(row["reason"])
    return PlantCommand(
        action=instruction.get("action"),
        params=instruction.get("params"),
        requested_by=Requester(requester_type, requester_id),
        **row,
    )


def _with_instruction(instruction: dict[str, Any], **row: Any) -> tuple[ListedCommand, dict[str, Any]]:
    return _command(**row), instruction


def _step(**row: Any) -> CommandStep:
    row["status"] = CommandStatus(row["status"])
    row["reason"] = reason_of(row["reason"])
    return CommandStep(**row)


def _found(org: OrgScope, which: CommandFilter, now: datetime, after: TimeKey | None, most: int) -> tuple[str, dict[str, Any]]:
    """Return a query of the ids and issue times of the newest `most` commands, perhaps with older ones, and its parameters.

    Only conditions that apply: the plan of a prepared statement cannot use an index for an optional condition.
    """
    statuses = which.statuses or frozenset(CommandStatus)
    stored = statuses | OPEN if CommandStatus.EXPIRED in statuses else statuses
    parameters: dict[str, Any] = {
        "org": org.organization_id,
        "now": now,
        "most": most,
        "types": list(which.types or CommandType),
        "stored": list(stored),
        "issuers": [ActorType.USER, ActorType.API_KEY, ActorType.SYSTEM],
    }
    conditions = [_OURS]
    if which.statuses:
        conditions.append(f"{_SHOWN} = ANY(%(statuses)s)")
        parameters["statuses"] = list(statuses)
    if which.issued_by is not None:
        # The issuer's type selects an index range: users issue few commands, and partners may issue millions.
        conditions.append(f"c.requester_id = %(issued_by)s::text AND c.requester_type = {_ISSUER}")
        parameters["issued_by"] = which.issued_by
    if which.since is not None:
        conditions.append("c.issued_at >= %(since)s")
        parameters["since"] = which.since
    if which.until is not None:
        conditions.append("c.issued_at < %(until)s")
        parameters["until"] = which.until
    if after is not None:
        conditions.append("(c.issued_at, c.id) < (%(after_time)s, %(after_id)s)")
        parameters["after_time"], parameters["after_id"] = after
    plants = ChosenPlants.of(org.plant_ids, which.plant_id)
    if not plants.are_few:
        conditions.append(plants.condition("c.plant_id"))
    source = _BY_PLANT if plants.are_few else _GROUPS
    parameters |= plants.parameters
    return f"SELECT found.id, found.issued_at FROM {source} AND {' AND '.join(conditions)} {_ORDER}) AS found", parameters


async def page(
    db: Connection, org: OrgScope, which: CommandFilter, now: datetime, paging: CursorPaging[TimeKey]
) -> list[ListedCommand]:
    """Return up to one more than the limit of the organisation's commands, newest first, without names of their authors."""
    query, parameters = _found(org, which, now, paging.after, paging.limit + 1)
    cursor = db.cursor(row_factory=kwargs_row(_command))
    await cursor.execute(
        f"WITH wanted AS MATERIALIZED ({query} {_ORDER}) SELECT {_COLUMNS} FROM wanted JOIN plant_command c USING (id)"
        " JOIN plant p ON p.id = c.plant_id AND p.organization_id = %(org)s ORDER BY c.issued_at DESC, c.id DESC",
        parameters,
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope, which: CommandFilter, now: datetime, most: int) -> int:
    """Return the number of commands in the list, at most `most`."""
    query, parameters = _found(org, which, now, None, most)
    return await fetch_count(db, f"SELECT count(*) FROM ({query} LIMIT %(most)s) AS counted", parameters)


async def find(db: Connection, org: OrgScope, command_id: UUID) -> tuple[ListedCommand, dict[str, Any]] | None:
    """Return the command and its instruction, or None if the caller may not see it."""
    visible = "" if org.plant_ids is None else " AND c.plant_id = ANY(%(plants)s)"
    cursor = db.cursor(row_factory=kwargs_row(_with_instruction))
    await cursor.execute(
        f"SELECT {_COLUMNS}, c.instruction FROM plant_command c JOIN plant p ON p.id = c.plant_id"
        f" WHERE c.id = %(id)s AND {_OURS}{visible}",
        {"id": command_id, **org.parameters},
    )
    return await cursor.fetchone()


async def steps(db: Connection, org: OrgScope, command_id: UUID) -> list[CommandStep]:
    """Return the recorded steps of a command of the organisation, in the order of time."""
    cursor = db.cursor(row_factory=kwargs_row(_step))
    await cursor.execute(
        "SELECT t.status, t.at, t.late, t.reported_at, t.reason FROM plant_command_transition t"
        " JOIN plant_command c ON c.id = t.command_id WHERE c.id = %(id)s AND c.organization_id = %(org)s"
        " ORDER BY t.at, t.late, array_position(%(order)s::text[], t.status)",
        {"id": command_id, "org": org.organization_id, "order": list(CommandStatus)},
    )
    return await cursor.fetchall()


_POWER = (
    "SELECT id, issued_at, finished_at, type, (instruction->>'powerKw')::float8 AS power_kw,"
    " CASE WHEN requester_type = 'SYSTEM' THEN issued_at ELSE finished_at END"
    " + make_interval(secs => (instruction->'params'->>'durationSeconds')::float8) AS ends_at,"
    " CASE WHEN instruction->'schedule'->'intervals' IS DISTINCT FROM '[]' THEN (instruction->'schedule') - 'intervals' END"
    f" AS schedule FROM plant_command c WHERE plant_id = %(plant)s AND status = 'APPLIED' AND {_OURS}"
)
MOST_POWERS = 50_000
"""The most setpoints, modes and schedules that are read at once: one every few seconds for two days."""


async def applied_powers(
    db: Connection, org: OrgScope, plant_id: UUID, since: datetime, until: datetime, lookback: timedelta
) -> list[AppliedPower]:
    """Return the organisation's setpoints, modes and schedules that the plant has applied, in the order of issue.

    They were issued from `since` to `until`. The last setpoint or mode before `since` is included if it was issued within
    `lookback`, with the schedules after it.
    """
    powers = ["SITE_SETPOINT", "MODE_CHANGE", "EMERGENCY"]
    cursor = db.cursor(row_factory=class_row(AppliedPower))
    await cursor.execute(
        f"WITH earlier AS ({_POWER} AND type = ANY(%(powers)s) AND issued_at >= %(since)s::timestamptz - %(lookback)s::interval"
        " AND issued_at < %(since)s ORDER BY issued_at DESC, id DESC LIMIT 1)"
        f" SELECT {', '.join(AppliedPower._fields)} FROM (SELECT * FROM earlier"
        f" UNION ALL ({_POWER} AND type = 'SCHEDULE' AND issued_at >= (SELECT issued_at FROM earlier) AND issued_at < %(since)s"
        f" ORDER BY issued_at, id LIMIT %(most)s) UNION ALL ({_POWER} AND type = ANY(%(types)s)"
        " AND issued_at >= %(since)s AND issued_at < %(until)s ORDER BY issued_at, id LIMIT %(most)s)) AS found"
        " ORDER BY issued_at, id",
        {
            "powers": powers,
            "types": [*powers, "SCHEDULE"],
            "plant": plant_id,
            "org": org.organization_id,
            "lookback": lookback,
            "since": since,
            "until": until,
            "most": MOST_POWERS,
        },
    )
    return await fetch_in_turns(cursor)


async def page_of_device(db: Connection, org: OrgScope, sub_device_id: UUID, paging: Paging) -> list[PlantCommand]:
    """Return one page of the commands to a sub-device, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_plant_command))
    await cursor.execute(
        "SELECT id, plant_id, target AS external_id, instruction, status, issued_at, expires_at, sent_at, received_at,"
        f" finished_at, reason, requester_type, requester_id FROM plant_command WHERE {_OF_DEVICE}"
        " ORDER BY issued_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {"device": sub_device_id, "org": org.organization_id, "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def find_many(db: Connection, org: OrgScope, command_ids: Sequence[UUID]) -> list[PlantCommand]:
    """Return those of the commands that the organisation issued and whose plants the caller may see, oldest first."""
    cursor = db.cursor(row_factory=kwargs_row(_plant_command))
    await cursor.execute(
        "SELECT c.id, c.plant_id, c.target AS external_id, c.instruction, c.status, c.issued_at, c.expires_at, c.sent_at,"
        " c.received_at, c.finished_at, c.reason, c.requester_type, c.requester_id"
        f" FROM plant_command c WHERE c.id = ANY(%(ids)s) AND {_OURS}"
        " AND (%(plants)s::uuid[] IS NULL OR c.plant_id = ANY(%(plants)s)) ORDER BY c.issued_at, c.id",
        {"ids": list(command_ids), **org.parameters},
    )
    return await cursor.fetchall()


async def count_of_device(db: Connection, org: OrgScope, sub_device_id: UUID) -> int:
    """Return the number of commands that were issued to the sub-device."""
    return await fetch_count(
        db, f"SELECT count(*) FROM plant_command WHERE {_OF_DEVICE}", {"device": sub_device_id, "org": org.organization_id}
    )
