"""SQL of partner keys, and of the settings of queues."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from gridfleet.domains.partners.broker_keys.store import AMQP, AT_BROKER, LIVES, amqp_key
from gridfleet.domains.partners.models import AmqpAddress, AmqpKey, LiveKey, NewKey
from gridfleet.kernel.addresses import IPNetwork
from gridfleet.kernel.caller import KeyCaller, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import NOT_AHEAD, fetch_count, fetch_value
from gridfleet.kernel.pagination import Paging

_SHOWN = (
    "id, organization_id, name, partner_id, key_prefix, scopes, allowed_plant_ids::text[], allowed_ips::text[], vhost,"
    " revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) AS is_active, revoked_at, expires_at, last_used_at,"
    " created_by, created_at, updated_at"
)
_OURS = "organization_id = %(org)s AND activated_at IS NOT NULL"


class KeyRow(NamedTuple):
    """A key as its organisation sees it, without the user who created it.

    Plants and networks are texts: a page has 100 keys with thousands of them, and creating objects for all would take most
    of the request's time.
    """

    id: UUID
    organization_id: UUID
    name: str
    partner_id: str
    key_prefix: str
    scopes: list[str]
    allowed_plant_ids: list[str] | None
    allowed_ips: list[str]
    vhost: str
    is_active: bool
    revoked_at: datetime | None
    expires_at: datetime | None
    last_used_at: datetime | None
    created_by: UUID
    created_at: datetime
    updated_at: datetime


class Secrets(NamedTuple):
    """The stored part of a new key's secrets. `signing_key` is encrypted."""

    prefix: str
    digest: bytes
    signing_key: bytes | None
    key_version: int | None


class Queues(NamedTuple):
    """The settings of an organisation's queues."""

    prefix: str
    enabled: bool


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


# Keys of an organisation


async def insert(
    db: Connection, org: OrgScope, key_id: UUID, vhost: str, wanted: NewKey, secrets: Secrets, *, at_broker: bool
) -> AmqpKey | None:
    """Insert a new, inactive key. Returns its record for the broker, or None without `at_broker`."""
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_plant_ids,"
        " allowed_ips, vhost, amqp_slug, signing_key, key_version, created_by, expires_at)"
        " SELECT %(id)s, o.id, %(name)s, %(partner)s, %(prefix)s, %(hash)s, %(scopes)s, %(plants)s, %(ips)s, %(vhost)s,"
        " CASE WHEN %(amqp)s THEN o.slug END, %(signing_key)s, %(key_version)s, %(by)s, %(expires_at)s"
        f" FROM organization o WHERE o.id = %(org)s RETURNING {AMQP}",
        {
            "id": key_id,
            "org": org.organization_id,
            "name": wanted.name,
            "partner": wanted.partner_id,
            "prefix": secrets.prefix,
            "hash": secrets.digest,
            "scopes": list(wanted.scopes),
            "plants": None if wanted.plant_ids is None else list(wanted.plant_ids),
            "ips": list(wanted.networks),
            "vhost": vhost,
            "amqp": at_broker,
            "signing_key": secrets.signing_key,
            "key_version": secrets.key_version,
            "by": org.person.user_id,
            "expires_at": wanted.expires_at,
        },
    )
    made = await cursor.fetchone()
    return made if at_broker else None


async def activate(db: Connection, org: OrgScope, key_id: UUID) -> KeyRow | None:
    """Activate the key and return it; None if it no longer exists."""
    cursor = db.cursor(row_factory=class_row(KeyRow))
    await cursor.execute(
        "UPDATE partner_key SET activated_at = now() WHERE id = %s AND organization_id = %s AND activated_at IS NULL"
        f" RETURNING {_SHOWN}",
        (key_id, org.organization_id),
    )
    return await cursor.fetchone()


async def delete_unproven(db: Connection, org: OrgScope, key_id: UUID) -> None:
    """Delete the key if no login at the broker has proved it."""
    await db.execute(
        "DELETE FROM partner_key WHERE id = %s AND organization_id = %s AND activated_at IS NULL", (key_id, org.organization_id)
    )


async def page(db: Connection, org: OrgScope, paging: Paging) -> list[KeyRow]:
    """Return one page of the organisation's keys, newest first."""
    cursor = db.cursor(row_factory=class_row(KeyRow))
    await cursor.execute(
        f"SELECT {_SHOWN} FROM partner_key WHERE {_OURS} ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {"org": org.organization_id, "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count(db: Connection, org: OrgScope) -> int:
    """Return the number of the organisation's keys."""
    return await fetch_count(db, f"SELECT count(*) FROM partner_key WHERE {_OURS}", {"org": org.organization_id})


async def nth_newest(db: Connection, org: OrgScope, n: int) -> datetime | None:
    """Return when the `n`-th newest of the organisation's keys was created in the last 24 hours; None if there are fewer.

    Revoked keys count too.
    """
    return await fetch_value(
        db,
        "SELECT created_at FROM partner_key WHERE organization_id = %s AND created_at > now() - interval '1 day'"
        f" AND created_at {NOT_AHEAD} ORDER BY created_at DESC, id DESC OFFSET %s LIMIT 1",
        (org.organization_id, n - 1),
    )


async def nth_newest_at_broker(db: Connection, org: OrgScope, n: int) -> datetime | None:
    """Return what `nth_newest` returns, of the keys with a scope for the broker."""
    return await fetch_value(
        db,
        f"SELECT created_at FROM partner_key WHERE organization_id = %s AND {AT_BROKER}"
        f" AND created_at > now() - interval '1 day' AND created_at {NOT_AHEAD}"
        " ORDER BY created_at DESC, id DESC OFFSET %s LIMIT 1",
        (org.organization_id, n - 1),
    )


async def find(db: Connection, org: OrgScope, key_id: UUID) -> KeyRow | None:
    """Return the organisation's key with this id, or None."""
    cursor = db.cursor(row_factory=class_row(KeyRow))
    await cursor.execute(
        f"SELECT {_SHOWN} FROM partner_key WHERE id = %(id)s AND {_OURS}", {"id": key_id, "org": org.organization_id}
    )
    return await cursor.fetchone()


async def lock_for_revoking(db: Connection, org: OrgScope, key_id: UUID) -> tuple[bool, AmqpKey | None] | None:
    """Lock the key until the transaction ends.

    Returns:
        Whether the key is revoked already, and its record for the broker (None if it may not use the broker). None instead of
        the pair if the organisation has no such key.
    """
    cursor = await db.execute(
        f"SELECT revoked_at IS NOT NULL, {AMQP} FROM partner_key WHERE id = %(id)s AND {_OURS} FOR UPDATE",
        {"id": key_id, "org": org.organization_id},
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    names = [column.name for column in cursor.description or ()]
    known = dict(zip(names[1:], row[1:], strict=True))
    return row[0], None if known["amqp_slug"] is None else amqp_key(**known)


async def revoke(db: Connection, org: OrgScope, key_id: UUID) -> None:
    """Revoke the key permanently."""
    await db.execute(
        "UPDATE partner_key SET revoked_at = now(), amqp_slug = NULL, updated_at = now()"
        " WHERE id = %s AND organization_id = %s AND revoked_at IS NULL",
        (key_id, org.organization_id),
    )


async def is_key(db: Connection, org: OrgScope, key_id: UUID, digest: bytes) -> bool:
    """Return whether the text of the organisation's key has this digest."""
    cursor = await db.execute(
        f"SELECT EXISTS (SELECT FROM partner_key WHERE id = %(id)s AND key_hash = %(hash)s AND {_OURS})",
        {"id": key_id, "hash": digest, "org": org.organization_id},
    )
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def acknowledge_bundle(db: Connection, org: OrgScope, key_id: UUID) -> bool:
    """Record that the key's secrets have been stored. Returns False if that was recorded before."""
    cursor = await db.execute(
        "UPDATE partner_key SET bundle_acknowledged_at = now() WHERE id = %s AND organization_id = %s"
        " AND bundle_acknowledged_at IS NULL",
        (key_id, org.organization_id),
    )
    return cursor.rowcount == 1


# Keys over REST


async def find_live(db: Connection, digest: bytes) -> LiveKey | None:
    """Return the key with this digest if it is live, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_live_key))
    await cursor.execute(
        "SELECT id, organization_id, scopes, allowed_plant_ids, allowed_ips, expires_at FROM partner_key"
        f" WHERE key_hash = %s AND {LIVES}",
        (digest,),
    )
    return await cursor.fetchone()


async def note_use(db: Connection, key_id: UUID, every: timedelta) -> None:
    """Set the last use of a live key to now, unless its stored last use is less than `every` ago."""
    await db.execute(
        "UPDATE partner_key SET last_used_at = now()"
        f" WHERE id = %s AND {LIVES} AND (last_used_at IS NULL OR last_used_at < now() - %s)",
        (key_id, every),
    )


# Queues of an organisation


async def lock_queues(db: Connection, org: OrgScope) -> Queues | None:
    """Return the settings of the organisation's queues, locked until the transaction ends, or None if there are none."""
    cursor = db.cursor(row_factory=class_row(Queues))
    await cursor.execute(
        "SELECT prefix, enabled FROM partner_queues WHERE organization_id = %s FOR UPDATE", (org.organization_id,)
    )
    return await cursor.fetchone()


async def save_queues(db: Connection, org: OrgScope, prefix: str, enabled: bool) -> None:
    """Save the settings of the organisation's queues."""
    await db.execute(
        "INSERT INTO partner_queues (organization_id, prefix, enabled) VALUES (%s, %s, %s)"
        " ON CONFLICT (organization_id) DO UPDATE SET prefix = excluded.prefix, enabled = excluded.enabled",
        (org.organization_id, prefix, enabled),
    )


async def find_queues(db: Connection, organization_id: UUID) -> Queues | None:
    """Return the settings of the organisation's queues, or None if there are none."""
    cursor = db.cursor(row_factory=class_row(Queues))
    await cursor.execute("SELECT prefix, enabled FROM partner_queues WHERE organization_id = %s", (organization_id,))
    return await cursor.fetchone()


async def list_prefixes(db: Connection) -> dict[UUID, str]:
    """Return the queue name prefix of each organisation whose queues are enabled."""
    cursor = await db.execute("SELECT organization_id, prefix FROM partner_queues WHERE enabled")
    return dict(await cursor.fetchall())


async def find_prefix(db: Connection, organization_id: UUID) -> str:
    """Return the prefix of the names of the organisation's own queues; empty if there is no such organisation."""
    cursor = await db.execute(
        "SELECT coalesce(q.prefix, o.slug) FROM organization o LEFT JOIN partner_queues q ON q.organization_id = o.id"
        " WHERE o.id = %s",
        (organization_id,),
    )
    row = await cursor.fetchone()
    return str(row[0]) if row else ""


async def find_amqp_address(db: Connection, org: OrgScope) -> AmqpAddress:
    """Return the organisation's slug and the vhost to connect to.

    The vhost is that of the caller's key, else that of the newest live key that may use the broker; None if there is none.

    Raises:
        LookupError: The organisation was deleted.
    """
    cursor = await db.execute(
        "SELECT o.slug, (SELECT k.vhost FROM partner_key k WHERE k.organization_id = o.id AND k.amqp_slug IS NOT NULL"
        f" AND {LIVES} ORDER BY k.id = %(caller)s DESC, k.created_at DESC, k.id DESC LIMIT 1)"
        " FROM organization o WHERE o.id = %(org)s",
        {"org": org.organization_id, "caller": org.actor.id},
    )
    row = await cursor.fetchone()
    if row is None:
        raise LookupError("the organisation was deleted")
    return AmqpAddress(row[0], row[1])
