"""SQL of partner keys."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import kwargs_row

from gridfleet.domains.partners.models import AmqpKey, LiveKey
from gridfleet.domains.partners.scopes import Scope, expand_amqp
from gridfleet.kernel.addresses import IPNetwork
from gridfleet.kernel.caller import KeyCaller, SystemScope
from gridfleet.kernel.db import Connection

_AMQP = "id, organization_id, amqp_slug, vhost, scopes, allowed_plant_ids"
_LIVES = "activated_at IS NOT NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"


class SealedKey(NamedTuple):
    """A key that may use the broker, with its encrypted signing key."""

    key: AmqpKey
    signing_key: bytes | None
    key_version: int | None


def _amqp_key(**row: Any) -> AmqpKey:
    plants, scopes = row["allowed_plant_ids"], [Scope(scope) for scope in row["scopes"]]
    return AmqpKey(
        id=row["id"],
        organization_id=row["organization_id"],
        slug=row["amqp_slug"],
        vhost=row["vhost"],
        scopes=expand_amqp(scopes, row["vhost"]),
        plant_ids=None if plants is None else frozenset(plants),
    )


def _sealed_key(*, signing_key: bytes | None, key_version: int | None, **row: Any) -> SealedKey:
    return SealedKey(_amqp_key(**row), signing_key, key_version)


async def find_sending(db: Connection, system: SystemScope, key_id: UUID) -> SealedKey | None:
    """The key while it lives and may use the broker."""
    cursor = db.cursor(row_factory=kwargs_row(_sealed_key))
    await cursor.execute(
        f"SELECT {_AMQP}, signing_key, key_version FROM partner_key WHERE id = %s AND amqp_slug IS NOT NULL AND {_LIVES}",
        (key_id,),
    )
    return await cursor.fetchone()


async def list_amqp(db: Connection, system: SystemScope) -> list[AmqpKey]:
    """Every key that lives and may use the broker, of all organisations, the oldest first."""
    cursor = db.cursor(row_factory=kwargs_row(_amqp_key))
    await cursor.execute(f"SELECT {_AMQP} FROM partner_key WHERE amqp_slug IS NOT NULL AND {_LIVES} ORDER BY created_at, id")
    return await cursor.fetchall()


def _live_key(
    *,
    id: UUID,
    organization_id: UUID,
    scopes: list[str],
    allowed_plant_ids: list[UUID] | None,
    allowed_ips: list[IPNetwork],
    expires_at: datetime | None,
) -> LiveKey:
    plants = None if allowed_plant_ids is None else frozenset(allowed_plant_ids)
    return LiveKey(KeyCaller(id, organization_id, frozenset(scopes), plants), tuple(allowed_ips), expires_at)


async def find_live(db: Connection, system: SystemScope, digest: bytes) -> LiveKey | None:
    """The key with this digest while it lives."""
    cursor = db.cursor(row_factory=kwargs_row(_live_key))
    await cursor.execute(
        "SELECT id, organization_id, scopes, allowed_plant_ids, allowed_ips, expires_at FROM partner_key"
        f" WHERE key_hash = %s AND {_LIVES}",
        (digest,),
    )
    return await cursor.fetchone()


async def note_use(db: Connection, system: SystemScope, key_id: UUID, every: timedelta) -> None:
    """The key was used now, unless that was written less than `every` ago or it lives no more."""
    await db.execute(
        "UPDATE partner_key SET last_used_at = now()"
        f" WHERE id = %s AND {_LIVES} AND (last_used_at IS NULL OR last_used_at < now() - %s)",
        (key_id, every),
    )
