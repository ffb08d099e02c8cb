"""SQL of device templates. The catalogue is global: no organisation owns a template."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.device_templates.models import DeviceTemplate, DeviceType, TemplateLevel
from gridfleet.domains.device_templates.system_templates import SystemTemplate
from gridfleet.kernel.db import Connection

_COLUMNS = "id, name, type, level, version, is_system, signals, actions, created_at, updated_at"


def _template(**row: Any) -> DeviceTemplate:
    return DeviceTemplate(**{**row, "type": DeviceType(row["type"]), "level": TemplateLevel(row["level"])})


async def find(db: Connection, template_id: UUID) -> DeviceTemplate | None:
    """The template, if there is one."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(f"SELECT {_COLUMNS} FROM device_template WHERE id = %s", (template_id,))
    return await cursor.fetchone()


async def find_many(db: Connection, template_ids: Iterable[UUID]) -> list[DeviceTemplate]:
    """Those of the templates that exist, in no order."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(f"SELECT {_COLUMNS} FROM device_template WHERE id = ANY(%s)", (list(template_ids),))
    return await cursor.fetchall()


async def list_all(db: Connection, level: TemplateLevel | None) -> list[DeviceTemplate]:
    """Every template of a level, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(
        f"SELECT {_COLUMNS} FROM device_template WHERE %(level)s::text IS NULL OR level = %(level)s"
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
    """The new template, or None when (name, version) is taken."""
    cursor = db.cursor(row_factory=kwargs_row(_template))
    await cursor.execute(
        "INSERT INTO device_template (id, name, type, level, version, signals, actions) VALUES (%s, %s, %s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT device_template_key DO NOTHING RETURNING {_COLUMNS}",
        (template_id, name, type, level, version, Jsonb(list(signals)), Jsonb(list(actions))),
    )
    return await cursor.fetchone()


async def seed(db: Connection, template: SystemTemplate) -> None:
    """Creates a system template or brings its content up to date."""
    await db.execute(
        "INSERT INTO device_template (id, name, type, level, version, is_system, signals, actions)"
        " VALUES (%s, %s, %s, %s, 1, true, %s, %s) ON CONFLICT (id) DO UPDATE"
        " SET name = excluded.name, signals = excluded.signals, actions = excluded.actions,"
        " version = device_template.version + (device_template.signals <> excluded.signals)::int, updated_at = now()"
        " WHERE (device_template.name, device_template.signals, device_template.actions)"
        " IS DISTINCT FROM (excluded.name, excluded.signals, excluded.actions)",
        (template.id, template.name, template.type, template.level, Jsonb(template.signals), Jsonb(template.actions)),
    )
