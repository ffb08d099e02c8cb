"""SQL of device templates. The catalogue is global: templates belong to no organisation."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.device_templates.models import DeviceTemplate, DeviceType, TemplateLevel
from gridfleet.domains.device_templates.system_templates import SystemTemplate
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, fetch_value, with_raw_json

_COLUMNS = "id, name, type, level, version, is_system, signals, roles, actions, created_at, updated_at"
_WRITTEN = (
    "id, name, type, level, version, is_system, CASE roles WHEN '{}' THEN signals ELSE (SELECT jsonb_agg("
    "CASE WHEN roles ? (s->>'key') THEN s || jsonb_build_object('role', roles->(s->>'key')) ELSE s END ORDER BY number)"
    " FROM jsonb_array_elements(signals) WITH ORDINALITY AS n (s, number)) END AS signals, actions, created_at, updated_at"
)
"""The columns of a template for a response. PostgreSQL adds the roles to the signals, so that these stay undecoded."""


def _template(*, signals: list[dict[str, Any]], roles: dict[str, str], **row: Any) -> DeviceTemplate:
    row["type"], row["level"] = DeviceType(row["type"]), TemplateLevel(row["level"])
    return DeviceTemplate(
        signals=[{**signal, "role": roles[signal["key"]]} if signal["key"] in roles else signal for signal in signals], **row
    )


def _written(**row: Any) -> DeviceTemplate:
    row["type"], row["level"] = DeviceType(row["type"]), TemplateLevel(row["level"])
    return DeviceTemplate(**row)


def _stored(signals: Sequence[dict[str, Any]]) -> tuple[Jsonb, Jsonb]:
    """Return the signals without their roles, and the roles by key.

    They have a column of their own because processes of the previous release, which run beside this one during an upgrade,
    refuse signals with members that they do not support.
    """
    roles = {signal["key"]: signal["role"] for signal in signals if "role" in signal}
    return Jsonb([{name: value for name, value in one.items() if name != "role"} for one in signals]), Jsonb(roles)


async def find(db: Connection, template_id: UUID) -> DeviceTemplate | None:
    """Return the template, or None if there is none."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(f"SELECT {_COLUMNS} FROM device_template WHERE id = %s", (template_id,))
    return await cursor.fetchone()


async def lock(db: Connection, template_id: UUID) -> DeviceTemplate | None:
    """Return the template, locked until the transaction ends, or None if there is none."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(f"SELECT {_COLUMNS} FROM device_template WHERE id = %s FOR NO KEY UPDATE", (template_id,))
    return await cursor.fetchone()


async def hold_name(db: Connection, name: str) -> None:
    """Lock the versions of this name until the transaction ends."""
    await db.execute("SELECT pg_advisory_xact_lock(hashtextextended('device_template ' || %s, 0))", (name,))


async def free_version(db: Connection, template_id: UUID, name: str, lowest: int) -> int | None:
    """Return the lowest version from `lowest` on that no other template of the name has; None if none is left.

    The caller has locked the name with `hold_name`.
    """
    return await fetch_value(
        db,
        "SELECT min(v) FROM generate_series(%(lowest)s::bigint,"
        " %(lowest)s + (SELECT count(*) FROM device_template WHERE name = %(name)s)) AS v"
        " WHERE v < 2147483648"
        " AND NOT EXISTS (SELECT FROM device_template t WHERE t.name = %(name)s AND t.version = v AND t.id <> %(id)s)",
        {"id": template_id, "name": name, "lowest": lowest},
    )


async def update(db: Connection, template_id: UUID, changes: dict[str, Any]) -> DeviceTemplate:
    """Write `changes` (column → value, at least one) to the locked template and return it.

    Leave `signals` out unless they change, because writing them invalidates caches.
    """
    values = {name: Jsonb(value) if name == "actions" else value for name, value in changes.items()}
    if "signals" in changes:
        values["signals"], values["roles"] = _stored(changes["signals"])
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(
        f"UPDATE device_template SET {assignments(values)}, updated_at = now() WHERE id = %(id)s RETURNING {_COLUMNS}",
        {**values, "id": template_id},
    )
    return (await cursor.fetchall())[0]


async def delete(db: Connection, template_id: UUID) -> None:
    """Delete a template.

    Raises:
        psycopg.errors.ForeignKeyViolation: Sub-devices or plants use it.
    """
    await db.execute("DELETE FROM device_template WHERE id = %s", (template_id,))


async def find_many(db: Connection, template_ids: Iterable[UUID]) -> list[DeviceTemplate]:
    """Return the templates that exist, in no particular order."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(f"SELECT {_COLUMNS} FROM device_template WHERE id = ANY(%s)", (list(template_ids),))
    return await cursor.fetchall()


async def find_written(db: Connection, template_ids: Iterable[UUID]) -> list[DeviceTemplate]:
    """Return the templates that exist, in no particular order, with undecoded signals and actions."""
    cursor = with_raw_json(db.cursor(row_factory=kwargs_row(_written)))
    await cursor.execute(f"SELECT {_WRITTEN} FROM device_template WHERE id = ANY (%s)", (list(template_ids),))
    return await cursor.fetchall()


async def list_all(db: Connection, level: TemplateLevel | None) -> list[DeviceTemplate]:
    """Return every template, or those of one level, newest first, with undecoded signals and actions."""
    cursor = with_raw_json(db.cursor(row_factory=kwargs_row(_written)))
    await cursor.execute(
        f"SELECT {_WRITTEN} FROM device_template WHERE %(level)s::text IS NULL OR level = %(level)s"
        " ORDER BY created_at DESC, id DESC",
        {"level": level},
    )
    return await cursor.fetchall()


async def insert(
    db: Connection,
    template_id: UUID,
    name: str,
    type: DeviceType,
    level: TemplateLevel,
    version: int,
    signals: Sequence[dict[str, Any]],
    actions: Sequence[dict[str, Any]],
) -> DeviceTemplate | None:
    """Insert a template and return it; None if the name and version are taken."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(
        "INSERT INTO device_template (id, name, type, level, version, signals, roles, actions)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT device_template_key DO NOTHING RETURNING {_COLUMNS}",
        (template_id, name, type, level, version, *_stored(signals), Jsonb(list(actions))),
    )
    return await cursor.fetchone()


async def seed(db: Connection, template: SystemTemplate) -> None:
    """Insert a system template, or update its content. Other signals raise its version.

    If other templates of the name have the version, it gets the next free one. The caller has locked the name with `hold_name`.
    """
    await db.execute(
        "WITH given AS (SELECT %(id)s::uuid AS id, %(name)s::text AS name, %(signals)s::jsonb AS signals,"
        " %(roles)s::jsonb AS roles, %(actions)s::jsonb AS actions),"
        " wanted AS (SELECT g.*, coalesce(t.version + ((t.signals, t.roles) <> (g.signals, g.roles))::int, 1) AS lowest"
        " FROM given g LEFT JOIN device_template t USING (id))"
        " INSERT INTO device_template (id, name, type, level, version, is_system, signals, roles, actions)"
        " SELECT w.id, w.name, %(type)s, %(level)s, (SELECT min(v) FROM generate_series(w.lowest,"
        " w.lowest + (SELECT count(*) FROM device_template o WHERE o.name = w.name)::int) AS v WHERE NOT EXISTS"
        " (SELECT FROM device_template o WHERE o.name = w.name AND o.version = v AND o.id <> w.id)),"
        " true, w.signals, w.roles, w.actions FROM wanted w"
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, signals = excluded.signals, roles = excluded.roles,"
        " actions = excluded.actions, version = excluded.version, updated_at = now()"
        " WHERE (device_template.name, device_template.signals, device_template.roles, device_template.actions)"
        " IS DISTINCT FROM (excluded.name, excluded.signals, excluded.roles, excluded.actions)",
        {
            "id": template.id,
            "name": template.name,
            "type": template.type,
            "level": template.level,
            **dict(zip(("signals", "roles"), _stored(template.signals), strict=True)),
            "actions": Jsonb(template.actions),
        },
    )
