"""SQL of trading."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.trading.models import ConfigChange, TradingStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import assignments, fetch_count, with_raw_json
from gridfleet.kernel.pagination import Paging

__all__ = ["ConfigRow", "PlanResult"]

_CONFIG = (
    "c.id, c.organization_id, o.slug, c.esm_api_url, c.esm_client_id, c.esm_client_secret, c.key_version,"
    " coalesce(c.queue_prefix, o.slug) AS queue_prefix, c.status, c.last_sync_at, c.last_sync_error,"
    " c.created_at, c.updated_at"
)
_CHANGE = ", ".join(ConfigChange.__struct_fields__)
_OURS = "EXISTS (SELECT FROM plant p WHERE p.id = plant_id AND p.organization_id = %s)"
"""The plans of a plant are its history: it takes them along to another organisation."""
_ACCEPTED = "NOT {0}.validate_only AND NOT {0}.is_error AND {0}.responded_at IS NOT NULL"
"""The ESM accepted the plan."""


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


class PlanResult(NamedTuple):
    """The columns of a plan's result."""

    result_code: str
    message: str
    is_error: bool
    is_terminal: bool


def _config(**row: Any) -> ConfigRow:
    return ConfigRow(**{**row, "status": TradingStatus(row["status"])})


async def find_config(db: Connection, org: OrgScope) -> ConfigRow | None:
    """Return the organisation's configuration, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_config))
    await cursor.execute(
        f"SELECT {_CONFIG} FROM trading_config c JOIN organization o ON o.id = c.organization_id WHERE c.organization_id = %s",
        (org.organization_id,),
    )
    return await cursor.fetchone()


async def lock_config(db: Connection, org: OrgScope) -> ConfigRow | None:
    """Return the organisation's configuration, locked until the transaction ends, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_config))
    await cursor.execute(
        f"SELECT {_CONFIG} FROM trading_config c JOIN organization o ON o.id = c.organization_id"
        " WHERE c.organization_id = %s FOR NO KEY UPDATE OF c",
        (org.organization_id,),
    )
    return await cursor.fetchone()


async def accepted_before(db: Connection, org: OrgScope, plant_id: UUID, moment: datetime) -> ConfigChange | None:
    """Return the newest plan of a plant that was sent until `moment` and accepted by the ESM, or None.

    None too if it is a former organisation's: a plant that moves leaves that organisation's ESM, and its plan with it. So does
    a plant whose link has changed between the two times.
    """
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        f"SELECT {_CHANGE} FROM (SELECT * FROM trading_config_change c WHERE plant_id = %s AND {_OURS} AND sent_at <= %s"
        f" AND {_ACCEPTED.format('c')} ORDER BY id DESC LIMIT 1) AS newest"
        " WHERE organization_id = %s AND NOT EXISTS (SELECT FROM plant p WHERE p.id = newest.plant_id"
        " AND p.linked_at > newest.sent_at AND p.linked_at <= %s)",
        (plant_id, org.organization_id, moment, org.organization_id, moment),
    )
    return await cursor.fetchone()


async def ensure_config(db: Connection, org: OrgScope, config_id: UUID) -> None:
    """Insert an empty configuration for the organisation if it has none."""
    await db.execute(
        "INSERT INTO trading_config (id, organization_id) VALUES (%s, %s)"
        " ON CONFLICT ON CONSTRAINT trading_config_organization_key DO NOTHING",
        (config_id, org.organization_id),
    )


async def save_config(db: Connection, org: OrgScope, columns: Mapping[str, Any]) -> None:
    """Write columns of the configuration: at least one."""
    await db.execute(
        f"UPDATE trading_config SET {assignments(columns)}, updated_at = now() WHERE organization_id = %(organization_id)s",
        {**columns, "organization_id": org.organization_id},
    )


async def set_status(db: Connection, org: OrgScope, status: TradingStatus) -> None:
    """Write the status. The caller has checked that it is allowed."""
    await db.execute(
        "UPDATE trading_config SET status = %s, updated_at = now() WHERE organization_id = %s", (status, org.organization_id)
    )


async def delete_disabled(db: Connection, organization_id: UUID) -> None:
    """Delete the organisation's configuration if trading is disabled."""
    await db.execute("DELETE FROM trading_config WHERE organization_id = %s AND status = 'DISABLED'", (organization_id,))


async def enabled_configs(db: Connection) -> list[ConfigRow]:
    """Return the enabled configurations of all organisations, the longest waiting one first."""
    cursor = db.cursor(row_factory=kwargs_row(_config))
    await cursor.execute(
        f"SELECT {_CONFIG} FROM trading_config c JOIN organization o ON o.id = c.organization_id"
        " WHERE c.status = 'ENABLED' ORDER BY c.last_sync_at NULLS FIRST"
    )
    return await cursor.fetchall()


async def record_sync(db: Connection, organization_id: UUID, error: str | None) -> None:
    """Record a sync of the organisation's plants at the current time, with its error or None."""
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
    """Insert a plan that is about to be sent.

    Returns None if its request code exists, or if the plant was deleted or moved in the meantime.
    """
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        "INSERT INTO trading_config_change (organization_id, plant_id, request_code, validate_only, config_snapshot,"
        " requested_by, sent_at) SELECT p.organization_id, p.id, %s, %s, %s, %s, %s FROM plant p"
        " WHERE p.id = %s AND p.organization_id = %s FOR KEY SHARE"
        f" ON CONFLICT ON CONSTRAINT trading_config_change_request_key DO NOTHING RETURNING {_CHANGE}",
        (request_code, validate_only, Jsonb(snapshot), org.actor.id, sent_at, plant_id, org.organization_id),
    )
    return await cursor.fetchone()


async def find_change(db: Connection, org: OrgScope, request_code: UUID) -> ConfigChange | None:
    """Return the organisation's plan with this request code, or None."""
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        f"SELECT {_CHANGE} FROM trading_config_change WHERE request_code = %s AND {_OURS}",
        (request_code, org.organization_id),
    )
    return await cursor.fetchone()


async def finish_change(
    db: Connection, change_id: int, outcome: PlanResult, version: int | None, responded_at: datetime
) -> ConfigChange | None:
    """Save a plan's outcome and return the plan, even if its plant has moved to another organisation meanwhile.

    None if it was deleted with its plant, or if a response of the ESM to it is already recorded.
    """
    cursor = db.cursor(row_factory=class_row(ConfigChange))
    await cursor.execute(
        "UPDATE trading_config_change SET result_code = %(result_code)s, message = %(message)s, is_error = %(is_error)s,"
        " is_terminal = %(is_terminal)s, responded_at = %(at)s,"
        " config_snapshot = jsonb_set(config_snapshot, '{version}', coalesce(to_jsonb(%(version)s::bigint), 'null'))"
        f" WHERE id = %(id)s AND (responded_at IS NULL OR result_code IN ('TIMEOUT', 'ESM_UNAVAILABLE')) RETURNING {_CHANGE}",
        {**outcome._asdict(), "at": responded_at, "version": version, "id": change_id},
    )
    return await cursor.fetchone()


async def page_of_changes(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> list[ConfigChange]:
    """Return one page of a plant's plans, newest first."""
    cursor = with_raw_json(db.cursor(row_factory=class_row(ConfigChange)))
    await cursor.execute(
        f"SELECT {_CHANGE} FROM trading_config_change WHERE plant_id = %s AND {_OURS} ORDER BY id DESC LIMIT %s OFFSET %s",
        (plant_id, org.organization_id, paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count_changes(db: Connection, org: OrgScope, plant_id: UUID) -> int:
    """Return the number of plans sent for a plant."""
    return await fetch_count(
        db,
        f"SELECT count(*) FROM trading_config_change WHERE plant_id = %s AND {_OURS}",
        (plant_id, org.organization_id),
    )


async def delete_answered_of(db: Connection, org: OrgScope, plant_id: UUID, limit: int) -> int:
    """Delete up to `limit` plans of the organisation's plant that have a result. Returns their number."""
    cursor = await db.execute(
        "DELETE FROM trading_config_change WHERE id = ANY (ARRAY("
        "SELECT id FROM trading_config_change WHERE plant_id = (SELECT id FROM plant WHERE id = %s AND organization_id = %s)"
        " AND responded_at IS NOT NULL ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))",
        (plant_id, org.organization_id, limit),
    )
    return cursor.rowcount


async def delete_changes(db: Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` plans that were sent before `before`, oldest first. Returns their number.

    The newest accepted plan of each plant stays: it is in force.
    """
    cursor = await db.execute(
        "DELETE FROM trading_config_change WHERE id = ANY (ARRAY("
        f"SELECT id FROM trading_config_change c WHERE sent_at < %s AND (NOT ({_ACCEPTED.format('c')})"
        " OR EXISTS (SELECT FROM trading_config_change later WHERE later.plant_id = c.plant_id AND later.id > c.id"
        f" AND {_ACCEPTED.format('later')})) ORDER BY sent_at LIMIT %s FOR UPDATE SKIP LOCKED))",
        (before, limit),
    )
    return cursor.rowcount
