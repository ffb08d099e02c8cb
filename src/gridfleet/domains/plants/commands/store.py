"""SQL of commands and their transitions. Rows are locked in the order of their ids, or skipped if they are locked."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.plants.commands.models import (
    CommandLife,
    CommandReason,
    CommandStatus,
    NewPlantCommand,
    Transition,
)
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_value

_LIFE = ", ".join(CommandLife.__struct_fields__)


def reason_of(value: Any) -> CommandReason | None:
    """Return the reason in a column's value."""
    return None if value is None else msgspec.convert(value, CommandReason)


def json_of(reason: CommandReason | None) -> Jsonb | None:
    """Return a reason as it is stored."""
    return None if reason is None else Jsonb(msgspec.to_builtins(reason))


def _json_of_cause(request_id: str | None) -> Jsonb | None:
    cause = current_cause(request_id)
    return None if cause is None else Jsonb(cause)


def _life(**row: Any) -> CommandLife:
    row["status"] = CommandStatus(row["status"])
    row["reason"] = reason_of(row["reason"])
    return CommandLife(**row)


def step_of(**row: Any) -> Transition:
    """Return the transition in a row."""
    row["status"] = CommandStatus(row["status"])
    row["reason"] = reason_of(row["reason"])
    return Transition(**row)


# The plant is locked before its organisation and status are compared: the statement waits for a concurrent move, suspension or
# revocation of the plant and then uses its new row.
_INSERT = (
    "WITH issued AS (INSERT INTO plant_command (id, plant_id, organization_id, sub_device_id, type, target, instruction,"
    " requester_type, requester_id, issued_at, expires_at, due_at, cause)"
    " SELECT n.id, plant.id, plant.organization_id, n.device, n.type, n.target, n.instruction, n.requester_type,"
    " n.requester_id, n.issued, n.expires, n.due, n.cause"
    " FROM unnest(%(ids)s::uuid[], %(plants)s::uuid[], %(devices)s::uuid[], %(types)s::text[], %(targets)s::text[],"
    " %(instructions)s::jsonb[], %(requester_types)s::text[], %(requester_ids)s::text[], %(issued)s::timestamptz[],"
    " %(expires)s::timestamptz[], %(due)s::timestamptz[], %(causes)s::jsonb[]) AS n (id, plant, device, type, target,"
    " instruction, requester_type, requester_id, issued, expires, due, cause)"
    " JOIN plant ON plant.id = n.plant WHERE {condition} FOR KEY SHARE OF plant RETURNING id, issued_at)"
    " INSERT INTO plant_command_transition (command_id, status, at) SELECT id, 'PENDING', issued_at FROM issued"
    " RETURNING command_id"
)


_HAS_ROOM = (
    "(SELECT count(*) < {most} AND coalesce(sum(octet_length(waiting.instruction::text)), 0) < {bytes}"
    " FROM (SELECT w.instruction FROM plant_command w WHERE w.plant_id = {plant} AND w.due_at IS NOT NULL LIMIT {most})"
    " AS waiting)"
)


async def _insert(
    db: Connection, commands: Sequence[NewPlantCommand], condition: str, values: Mapping[str, object]
) -> set[UUID]:
    parameters = {
        "ids": [command.id for command in commands],
        "plants": [command.plant_id for command in commands],
        "devices": [command.sub_device_id for command in commands],
        "types": [command.type for command in commands],
        "targets": [command.target for command in commands],
        "instructions": [Jsonb(command.instruction) for command in commands],
        "requester_types": [command.requester.type for command in commands],
        "requester_ids": [command.requester.id for command in commands],
        "issued": [command.issued_at for command in commands],
        "expires": [command.expires_at for command in commands],
        "due": [command.due_at or command.issued_at for command in commands],
        "causes": [_json_of_cause(None)] * len(commands),
    }
    cursor = await db.execute(_INSERT.format(condition=condition).encode(), {**parameters, **values})
    return {row[0] for row in await cursor.fetchall()}


async def insert(db: Connection, org: OrgScope, command: NewPlantCommand) -> bool:
    """Insert a PENDING command, due at once. Returns False if the plant is not the organisation's, or not ACTIVE."""
    condition = "organization_id = %(org)s AND lifecycle_status = 'ACTIVE'"
    return bool(await _insert(db, [command], condition, {"org": org.organization_id}))


async def insert_relayed(db: Connection, commands: Sequence[NewPlantCommand], most_waiting: int, most_bytes: int) -> set[UUID]:
    """Insert PENDING commands of different plants.

    Args:
        most_waiting: The most unacknowledged commands of a plant. An EMERGENCY may be issued up to twice as many.
        most_bytes: The most bytes of their instructions. An EMERGENCY may be issued up to twice as many.

    Returns:
        The ids of the inserted commands.
    """
    times = "CASE n.type WHEN 'EMERGENCY' THEN 2 ELSE 1 END"
    condition = _HAS_ROOM.format(plant="plant.id", most=f"%(most)s * {times}", bytes=f"%(bytes)s * {times}")
    return await _insert(db, commands, condition, {"most": most_waiting, "bytes": most_bytes})


async def has_room(db: Connection, org: OrgScope, plant_id: UUID, most_waiting: int, most_bytes: int) -> bool:
    """Whether fewer commands and fewer bytes of instructions than these wait for the plant. True if there is no such plant."""
    has = await fetch_value(
        db,
        f"SELECT {_HAS_ROOM.format(plant='p.id', most='%(most)s', bytes='%(bytes)s')} FROM plant p"
        " WHERE p.id = %(plant)s AND p.organization_id = %(org)s",
        {"plant": plant_id, "org": org.organization_id, "most": most_waiting, "bytes": most_bytes},
    )
    return has is not False


async def newest_waiting(db: Connection, plant_id: UUID) -> datetime | None:
    """Return the latest issue time of the commands that the plant has not acknowledged; None if there are none."""
    return await fetch_value(
        db, "SELECT max(issued_at) FROM plant_command WHERE plant_id = %s AND due_at IS NOT NULL", (plant_id,)
    )


async def lock_many(db: Connection, command_ids: Collection[UUID]) -> list[CommandLife]:
    """Return the commands that exist, locked until the transaction ends."""
    cursor = db.cursor(row_factory=kwargs_row(_life))
    await cursor.execute(
        f"SELECT {_LIFE} FROM plant_command WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", (list(command_ids),)
    )
    return await cursor.fetchall()


async def save_lives(db: Connection, lives: Sequence[CommandLife]) -> None:
    """Write the states of commands whose rows the caller has locked.

    No further copies are due, because the plants have acknowledged the commands.
    """
    await db.execute(
        "UPDATE plant_command c SET status = n.status, sent_at = n.sent_at, received_at = n.received_at,"
        " finished_at = n.finished_at, reason = n.reason, due_at = NULL"
        " FROM unnest(%s::uuid[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::jsonb[])"
        " AS n (id, status, sent_at, received_at, finished_at, reason) WHERE c.id = n.id",
        (
            [life.id for life in lives],
            [life.status for life in lives],
            [life.sent_at for life in lives],
            [life.received_at for life in lives],
            [life.finished_at for life in lives],
            [json_of(life.reason) for life in lives],
        ),
    )


async def record(db: Connection, steps: Sequence[Transition]) -> list[Transition]:
    """Insert steps, and return those that were not recorded before."""
    cursor = await db.execute(
        "INSERT INTO plant_command_transition (command_id, status, at, late, reported_at, reason, cause)"
        " SELECT * FROM unnest(%s::uuid[], %s::text[], %s::timestamptz[], %s::boolean[], %s::timestamptz[], %s::jsonb[],"
        " %s::jsonb[])"
        " ON CONFLICT DO NOTHING RETURNING command_id, status",
        (
            [step.command_id for step in steps],
            [step.status for step in steps],
            [step.at for step in steps],
            [step.late for step in steps],
            [step.reported_at for step in steps],
            [json_of(step.reason) for step in steps],
            [_json_of_cause(step.request_id) for step in steps],
        ),
    )
    new = {(command_id, status) for command_id, status in await cursor.fetchall()}
    first: dict[tuple[UUID, str], Transition] = {}
    for step in steps:
        first.setdefault((step.command_id, step.status.value), step)
    return [step for key, step in first.items() if key in new]


async def delete_finished_of(db: Connection, org: OrgScope, plant_id: UUID, limit: int) -> int:
    """Delete up to `limit` commands of the organisation's plant that have ended. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM plant_command WHERE id = ANY (ARRAY("
        "SELECT id FROM plant_command WHERE plant_id = (SELECT id FROM plant WHERE id = %s AND organization_id = %s)"
        " AND finished_at IS NOT NULL ORDER BY issued_at, id LIMIT %s FOR UPDATE SKIP LOCKED))",
        (plant_id, org.organization_id, limit),
    )
    return cursor.rowcount


async def detach_finished(db: Connection, org: OrgScope, sub_device_id: UUID, limit: int) -> int:
    """Detach up to `limit` commands that have ended from a sub-device of the organisation. Returns their number."""
    cursor = await db.execute(
        "UPDATE plant_command SET sub_device_id = NULL WHERE id = ANY (ARRAY("
        "SELECT id FROM plant_command WHERE sub_device_id = (SELECT id FROM sub_device WHERE id = %s AND organization_id = %s)"
        " AND finished_at IS NOT NULL ORDER BY issued_at, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED))",
        (sub_device_id, org.organization_id, limit),
    )
    return cursor.rowcount


async def delete_finished(db: Connection, before: UUID, limit: int) -> int:
    """Delete up to `limit` commands that have ended and whose ids are below `before`. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM plant_command WHERE id IN"
        " (SELECT id FROM plant_command WHERE id < %s AND finished_at IS NOT NULL ORDER BY id LIMIT %s)",
        (before, limit),
    )
    return cursor.rowcount
