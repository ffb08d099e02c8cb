"""SQL of trading."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.trading.models import ConfigChange, TradingStatus
from gridfleet.kernel.caller import OrgScope, SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Paging

__all__ = ["ConfigRow", "Outcome"]

_CONFIG = (
    "c.id, c.organization_id, o.slug, c.esm_api_url, c.esm_client_id, c.esm_client_secret, c.key_version,"
    " coalesce(c.queue_prefix, o.slug) AS queue_prefix, c.status, c.last_sync_at, c.last_sync_error,"
    " c.created_at, c.updated_at"
)
_CHANGE = ", ".join(ConfigChange.__struct_fields__)


class ConfigRow(NamedTuple):
    """A configuration with its organisation's slug and its encrypted secret."""

    id: UUID
    organization_id: UUID
    slug: str
    esm_api_url: str | None
    esm_client_id: str | None
    esm_client_secret: bytes | None
    key_version: int | None
    queue_prefix: str
    status: TradingStatus
    last_sync_at: datetime | None
    last_sync_error: str | None
    created_at: datetime
    updated_at: datetime


class Outcome(NamedTuple):
    """What came of a plan, by column."""

    result_code: str
    message: str
    is_error: bool
    is_terminal: bool


def _config(**row: Any) -> ConfigRow:
    return ConfigRow(**{**row, "status": TradingStatus(row["status"])})


async def find_config(db: Connection, org: OrgScope) -> ConfigRow | None:
    """The organisation's configuration."""
    cursor = db.cursor(row_factory=kwargs_row(_config))
    await cursor.execute(
        f"SELECT {_CONFIG} FROM trading_config c JOIN organization o ON o.id = c.organization_id WHERE c.organization_id = %s",
        (org.organization_id,),
    )
    return await cursor.fetchone()


async def lock_config(db: Connection, org: OrgScope) -> ConfigRow | None:
    """The same, held against changes until the transaction ends."""
    cursor = db.cursor(row_factory=kwargs_row(_config))
    await cursor.execute(
        f"SELECT {_CONFIG} FROM trading_config c JOIN organization o ON o.id = c.organization_id"
        " WHERE c.organization_id = %s FOR NO KEY UPDATE OF c",
        (org.organization_id,),
    )
    return await cursor.fetchone()


async def ensure_config(db: Connection, org: OrgScope, config_id: UUID) -> None:
    """Makes the organisation's configuration, empty, unless it has one."""
    await db.execute(
        "INSERT INTO trading_config (id, organization_id) VALUES (%s, %s)"
        " ON CONFLICT ON CONSTRAINT trading_config_organization_key DO NOTHING",
        (config_id, org.organization_id),
    )


async def save_config(db: Connection, org: OrgScope, columns: Mapping[str, Any]) -> None:
    """Writes columns of the configuration, which counts as saved from now on."""
    assignments = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns]
    await db.execute(
        sql.SQL("UPDATE trading_config SET {} WHERE organization_id = %(organization_id)s").format(
            sql.SQL(", ").join([*assignments, sql.SQL("saved = true, updated_at = now()")])
        ),
        {**columns, "organization_id": org.organization_id},
    )


async def set_status(db: Connection, org: OrgScope, status: TradingStatus) -> None:
    """Writes the status; whether it may be taken is decided before."""
    await db.execute(
        "UPDATE trading_config SET status = %s, updated_at = now() WHERE organization_id = %s", (status, org.organization_id)
    )


async def delete_unsaved(db: Connection, system: SystemScope, organization_id: UUID) -> None:
    """Removes the organisation's configuration if it was only ever read."""
    await db.execute("DELETE FROM trading_config WHERE organization_id = %s AND NOT saved", (organization_id,))


async def enabled_configs(db: Connection, system: SystemScope) -> list[ConfigRow]:
    """Every organisation's that is enabled."""
    cursor = db.cursor(row_factory=kwargs_row(_config))
    await cursor.execute(
        f"SELECT {_CONFIG} FROM trading_config c JOIN organization o ON o.id = c.organization_id"
        " WHERE c.status = 'ENABLED' ORDER BY c.last_sync_at NULLS FIRST"
    )
    return await cursor.fetchall()


async def record_sync(db: Connection, system: SystemScope, organization_id: UUID, error: str | None) -> None:
    """The organisation's plants were synced now."""
    await db.execute(
        "UPDATE trading_config SET last_sync_at = now(), last_sync_error = %s WHERE organization_id = %s",
        (error, organization_id),
    )


async def insert_change(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    request_code: UUID,
    snapshot: Mapping[str, Any],
    sent_at: datetime,
    *,
    validate_only: bool,
) -> ConfigChange | None:
    """A plan that is about to be sent; None when there is one of this request code."""
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        "INSERT INTO trading_config_change (organization_id, plant_id, request_code, validate_only, config_snapshot,"
        " requested_by, sent_at) VALUES (%s, %s, %s, %s, %s, %s, %s)"
        f" ON CONFLICT ON CONSTRAINT trading_config_change_request_key DO NOTHING RETURNING {_CHANGE}",
        (org.organization_id, plant_id, request_code, validate_only, Jsonb(snapshot), org.actor.id, sent_at),
    )
    return await cursor.fetchone()


async def find_change(db: Connection, org: OrgScope, request_code: UUID) -> ConfigChange | None:
    """The organisation's plan of this request code."""
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        f"SELECT {_CHANGE} FROM trading_config_change WHERE request_code = %s AND organization_id = %s",
        (request_code, org.organization_id),
    )
    return await cursor.fetchone()


async def finish_change(
    db: Connection, org: OrgScope, change_id: int, outcome: Outcome, version: int | None, responded_at: datetime
) -> ConfigChange | None:
    """The plan with its outcome; None when it is gone with its plant, or the ESM's own word on it is known already."""
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        "UPDATE trading_config_change SET result_code = %(result_code)s, message = %(message)s, is_error = %(is_error)s,"
        " is_terminal = %(is_terminal)s, responded_at = %(at)s,"
        " config_snapshot = jsonb_set(config_snapshot, '{version}', coalesce(to_jsonb(%(version)s::bigint), 'null'))"
        " WHERE id = %(id)s AND organization_id = %(org)s"
        f" AND (responded_at IS NULL OR result_code IN ('TIMEOUT', 'ESM_UNAVAILABLE')) RETURNING {_CHANGE}",
        {**outcome._asdict(), "at": responded_at, "version": version, "id": change_id, "org": org.organization_id},
    )
    return await cursor.fetchone()


async def page_of_changes(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> list[ConfigChange]:
    """One page of a plant's plans, newest first."""
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        f"SELECT {_CHANGE} FROM trading_config_change WHERE plant_id = %s AND organization_id = %s"
        " ORDER BY id DESC LIMIT %s OFFSET %s",
        (plant_id, org.organization_id, paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count_changes(db: Connection, org: OrgScope, plant_id: UUID) -> int:
    """How many plans the plant has been sent."""
    cursor = await db.execute(
        "SELECT count(*) FROM trading_config_change WHERE plant_id = %s AND organization_id = %s",
        (plant_id, org.organization_id),
    )
    row = await cursor.fetchone()
    return int(row[0]) if row else 0
