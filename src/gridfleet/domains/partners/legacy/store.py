"""SQL of legacy keys and their import."""

from uuid import UUID

from gridfleet.domains.partners.broker_keys.store import LIVES
from gridfleet.domains.partners.models import LegacyKey
from gridfleet.domains.partners.scopes import AMQP_SCOPES, LEGACY_VHOST
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_value


async def try_lock(db: Connection) -> bool:
    """Lock the import of keys until the transaction ends. Returns False if another transaction holds the lock."""
    cursor = await db.execute("SELECT pg_try_advisory_xact_lock(hashtextextended('import of legacy keys', 0))")
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def is_known(db: Connection, key_id: UUID, digest: bytes) -> bool:
    """Return whether this key was imported before."""
    cursor = await db.execute(
        "SELECT EXISTS (SELECT FROM partner_key WHERE id = %s AND key_hash = %s AND vhost = %s)", (key_id, digest, LEGACY_VHOST)
    )
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def insert(db: Connection, key: LegacyKey, signing_key: bytes | None, key_version: int | None, creator_id: UUID) -> UUID:
    """Store an imported key, active at once, and return its organisation's id. `signing_key` is encrypted.

    Raises:
        LookupError: There is no such organisation.
        psycopg.errors.UniqueViolation: The id or the key exists, or the organisation has a key in the shared vhost.
    """
    async with db.transaction():
        cursor = await db.execute(
            "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, vhost, amqp_slug,"
            " signing_key, key_version, created_by, expires_at, activated_at)"
            " SELECT %(id)s, o.id, %(name)s, 'legacy', %(prefix)s, %(hash)s, %(scopes)s, %(vhost)s,"
            " CASE WHEN %(amqp)s THEN o.slug END, %(signing_key)s, %(key_version)s, %(by)s, %(expires_at)s, now()"
            # The slug of one organisation may be the id of another.
            " FROM organization o WHERE o.slug = %(org)s OR o.id::text = %(org)s ORDER BY o.id::text = %(org)s DESC LIMIT 1"
            " RETURNING organization_id",
            {
                "id": key.id,
                "org": key.organization,
                "name": key.name,
                "prefix": key.shown,
                "hash": key.digest,
                "scopes": list(key.scopes),
                "vhost": LEGACY_VHOST,
                "amqp": bool(AMQP_SCOPES & set(key.scopes)),
                "signing_key": signing_key,
                "key_version": key_version,
                "by": creator_id,
                "expires_at": key.expires_at,
            },
        )
        row = await cursor.fetchone()
    if row is None:
        raise LookupError(key.organization)
    organization_id: UUID = row[0]
    return organization_id


async def find_owner(db: Connection, slug: str) -> UUID | None:
    """Return the organisation whose key may use the shared vhost with this user name, or None."""
    return await fetch_value(
        db, "SELECT organization_id FROM partner_key WHERE vhost = %s AND amqp_slug = %s", (LEGACY_VHOST, slug)
    )


async def slugs(db: Connection) -> set[str]:
    """Return the user names of the live keys that may use the shared vhost."""
    cursor = await db.execute(
        f"SELECT amqp_slug FROM partner_key WHERE vhost = %s AND amqp_slug IS NOT NULL AND {LIVES}", (LEGACY_VHOST,)
    )
    return {str(slug) for (slug,) in await cursor.fetchall()}
