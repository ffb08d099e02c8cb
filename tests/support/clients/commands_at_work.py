"""Commands on the test's own database: issued as by the API, read as by an auditor."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gridfleet.domains.plants.commands import dispatch
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from support.clients.ingest_bench import BenchPlant

ACTIONS = [
    {"action": "set_power", "params": [{"name": "power_kw", "type": "number", "unit": "kW", "min": -10, "max": 10}]},
    {"action": "stop", "timeoutSeconds": 3600},
    {"action": "hurry", "timeoutSeconds": 1},
]


async def add_commandable(plant: BenchPlant, external_id: str = "BAT1") -> None:
    """Add a sub-device whose template declares ACTIONS."""
    template_id = new_id()
    async with plant.bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
            " VALUES (%s, %s, 'BATTERY', 'SUB_DEVICE', 1, '[]', %s)",
            (template_id, template_id.hex, Jsonb(ACTIONS)),
        )
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, template_id)"
            " VALUES (%s, %s, %s, %s, %s, 'BATTERY', %s)",
            (new_id(), plant.organization_id, plant.id, external_id, external_id, template_id),
        )
    plant.bench.pipeline.plant_cache.invalidate(str(plant.id))


async def issue(plant: BenchPlant, action: str = "stop", params: dict[str, Any] | None = None) -> UUID:
    """Issue a command to BAT1 of the plant and return its id."""
    caller = UserCaller(new_id(), new_id(), "operator@example.com", "Operator", False, None)
    org = OrgScope(plant.organization_id, OrgRole.OPERATOR, caller)
    async with plant.bench.database.transaction() as db:
        return await dispatch.issue_device_command(db, org, plant.id, "BAT1", action, params or {})


async def history(database: Database, command_id: UUID) -> list[str]:
    """Return the states that a command went through, including acknowledgements that came too late."""
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT status, late FROM plant_command_transition WHERE command_id = %s ORDER BY late, at,"
            " array_position(ARRAY['PENDING', 'SENT', 'RECEIVED', 'APPLIED', 'REJECTED', 'FAILED', 'EXPIRED'], status)",
            (command_id,),
        )
        return [f"{status}{' late' * late}" for status, late in await cursor.fetchall()]


async def row(database: Database, command_id: UUID, *columns: str) -> Sequence[Any]:
    """Return columns of a command."""
    async with database.transaction() as db:
        cursor = await db.execute(f"SELECT {', '.join(columns)} FROM plant_command WHERE id = %s".encode(), (command_id,))
        found = await cursor.fetchone()
    assert found is not None
    return found


async def age(database: Database, command_id: UUID, by: timedelta) -> None:
    """Move all times of a command into the past, as after an outage of that length."""
    async with database.transaction() as db:
        await db.execute(
            "UPDATE plant_command SET issued_at = issued_at - %(by)s, expires_at = expires_at - %(by)s,"
            " sent_at = sent_at - %(by)s, received_at = received_at - %(by)s, due_at = due_at - %(by)s WHERE id = %(id)s",
            {"by": by, "id": command_id},
        )
        await db.execute("UPDATE plant_command_transition SET at = at - %s WHERE command_id = %s", (by, command_id))


def milliseconds(moment: datetime) -> datetime:
    """Return the time in whole milliseconds, as in messages."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
