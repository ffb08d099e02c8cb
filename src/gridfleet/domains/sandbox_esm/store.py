"""SQL of the sandbox ESM."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import class_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.sandbox_esm.models import EsiState, NewSandboxPlant, PlanResponse, SandboxPlant
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, fetch_value
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = ["SandboxClient"]

_COLUMNS = ", ".join(SandboxPlant.__struct_fields__)


class SandboxClient(NamedTuple):
    """An organisation's client."""

    client_id: str
    secret_hash: bytes
    enabled: bool


def _plant(**row: Any) -> SandboxPlant:
    row["esi_state"] = EsiState(row["esi_state"])
    row["time_configs"] = msgspec.convert(row["time_configs"], list[TimeBlock])
    return SandboxPlant(**row)


def _blocks(blocks: Sequence[TimeBlock]) -> Jsonb:
    return Jsonb(msgspec.to_builtins(list(blocks)))


async def enable_client(db: Connection, organization_id: UUID, client_id: str, secret_hash: bytes) -> str:
    """Set the secret of the organisation's client and enable it.

    Returns the id of the organisation's client: the existing id, or `client_id` if the client is new.
    """
    cursor = await db.execute(
        "INSERT INTO sandbox_esm_client (client_id, organization_id, secret_hash, enabled) VALUES (%s, %s, %s, true)"
        " ON CONFLICT ON CONSTRAINT sandbox_esm_client_organization_key DO UPDATE"
        " SET secret_hash = excluded.secret_hash, enabled = true, updated_at = now() RETURNING client_id",
        (client_id, organization_id, secret_hash),
    )
    [row] = await cursor.fetchall()
    return str(row[0])


async def disable_client(db: Connection, organization_id: UUID) -> str | None:
    """Disable the organisation's client. Returns its id, or None if there is no enabled one."""
    return await fetch_value(
        db,
        "UPDATE sandbox_esm_client SET enabled = false, updated_at = now() WHERE organization_id = %s AND enabled"
        " RETURNING client_id",
        (organization_id,),
    )


async def client_of_organization(db: Connection, organization_id: UUID) -> SandboxClient | None:
    """Return the organisation's client, or None."""
    cursor = db.cursor(row_factory=class_row(SandboxClient))
    await cursor.execute(
        "SELECT client_id, secret_hash, enabled FROM sandbox_esm_client WHERE organization_id = %s", (organization_id,)
    )
    return await cursor.fetchone()


async def find_client(db: Connection, client_id: str) -> SandboxClient | None:
    """Return the client with this id, locked against a new secret until the transaction ends, or None."""
    cursor = db.cursor(row_factory=class_row(SandboxClient))
    await cursor.execute(
        "SELECT client_id, secret_hash, enabled FROM sandbox_esm_client WHERE client_id = %s FOR SHARE", (client_id,)
    )
    return await cursor.fetchone()


async def insert_token(db: Connection, client_id: str, token_hash: bytes, expires_at: datetime) -> None:
    """Insert a token of the client and delete its expired ones."""
    await db.execute(
        "WITH expired AS (DELETE FROM sandbox_esm_token WHERE client_id = %(client)s AND expires_at < now())"
        " INSERT INTO sandbox_esm_token (token_hash, client_id, expires_at) VALUES (%(hash)s, %(client)s, %(expires)s)",
        {"client": client_id, "hash": token_hash, "expires": expires_at},
    )


async def delete_tokens(db: Connection, client_id: str) -> None:
    """Delete every token of the client."""
    await db.execute("DELETE FROM sandbox_esm_token WHERE client_id = %s", (client_id,))


async def client_of_token(db: Connection, token_hash: bytes) -> tuple[str, UUID] | None:
    """Return the client that holds the token, by its id, and its organisation. None if the token is unknown or has expired."""
    cursor = await db.execute(
        "SELECT c.client_id, c.organization_id FROM sandbox_esm_token t JOIN sandbox_esm_client c USING (client_id)"
        " WHERE t.token_hash = %s AND t.expires_at > now()",
        (token_hash,),
    )
    row = await cursor.fetchone()
    return None if row is None else (row[0], row[1])


async def insert_plant(db: Connection, plant_id: UUID, new: NewSandboxPlant) -> SandboxPlant | None:
    """Insert a plant and return it; None if the client has one with this external id.

    Raises:
        psycopg.errors.ForeignKeyViolation: The client does not exist.
    """
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        "INSERT INTO sandbox_esm_plant (id, client_id, external_plant_id, name, description, capacity_kwh,"
        " fve_peak_power_kwp, config_enabled, time_configs) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT sandbox_esm_plant_key DO NOTHING RETURNING {_COLUMNS}",
        (
            plant_id,
            new.client_id,
            new.external_plant_id,
            new.name,
            new.description,
            new.capacity_kwh,
            new.fve_peak_power_kwp,
            new.config_enabled,
            _blocks(new.time_configs),
        ),
    )
    return await cursor.fetchone()


async def all_plants(db: Connection) -> list[SandboxPlant]:
    """Return the plants of all clients, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(f"SELECT {_COLUMNS} FROM sandbox_esm_plant ORDER BY created_at DESC, id DESC")
    return await cursor.fetchall()


async def plants_of(db: Connection, client_id: str) -> list[SandboxPlant]:
    """Return the client's plants, by external id."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM sandbox_esm_plant WHERE client_id = %s ORDER BY external_plant_id", (client_id,)
    )
    return await cursor.fetchall()


async def find_plant(db: Connection, plant_id: UUID) -> SandboxPlant | None:
    """Return the plant, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(f"SELECT {_COLUMNS} FROM sandbox_esm_plant WHERE id = %s", (plant_id,))
    return await cursor.fetchone()


async def find_plant_of(db: Connection, client_id: str, external_plant_id: str) -> SandboxPlant | None:
    """Return the client's plant with this external id, locked until the transaction ends, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM sandbox_esm_plant WHERE client_id = %s AND external_plant_id = %s FOR UPDATE",
        (client_id, external_plant_id),
    )
    return await cursor.fetchone()


async def update_plant(db: Connection, plant_id: UUID, columns: Mapping[str, Any]) -> SandboxPlant | None:
    """Change columns (at least one) of a plant and return it, or None. A new plan raises the version."""
    values = {name: _blocks(value) if name == "time_configs" else value for name, value in columns.items()}
    raised = ", version = version + 1" if "time_configs" in values else ""
    cursor = db.cursor(row_factory=kwargs_row(_plant))
    await cursor.execute(
        f"UPDATE sandbox_esm_plant SET {assignments(values)}{raised}, updated_at = now()"
        f" WHERE id = %(plant)s RETURNING {_COLUMNS}",
        {**values, "plant": plant_id},
    )
    return await cursor.fetchone()


async def delete_plant(db: Connection, plant_id: UUID) -> bool:
    """Delete the plant. Returns whether it existed."""
    cursor = await db.execute("DELETE FROM sandbox_esm_plant WHERE id = %s", (plant_id,))
    return cursor.rowcount == 1


async def find_response(db: Connection, plant_id: UUID, request_code: str) -> PlanResponse | None:
    """Return the response to the plan with this request code, or None."""
    cursor = await db.execute(
        "SELECT answer FROM sandbox_esm_answer WHERE sandbox_plant_id = %s AND request_code = %s", (plant_id, request_code)
    )
    row = await cursor.fetchone()
    return None if row is None else msgspec.convert(row[0], PlanResponse)


async def keep_response(db: Connection, plant_id: UUID, response: PlanResponse) -> None:
    """Store a response, and delete the plant's responses that are older than a day."""
    await db.execute(
        "WITH old AS (DELETE FROM sandbox_esm_answer WHERE sandbox_plant_id = %(plant)s"
        " AND created_at < now() - interval '1 day')"
        " INSERT INTO sandbox_esm_answer (sandbox_plant_id, request_code, answer) VALUES (%(plant)s, %(code)s, %(answer)s)",
        {"plant": plant_id, "code": response.request_code, "answer": Jsonb(msgspec.to_builtins(response))},
    )
