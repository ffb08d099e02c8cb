"""SQL of the keys that may use the broker, and the lock on a vhost. A key is proved when a login with it has succeeded."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import kwargs_row

from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.scopes import AMQP_SCOPES, Scope, expand_amqp
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count

LIVES = "activated_at IS NOT NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
AMQP = "id, organization_id, amqp_slug, vhost, scopes, allowed_plant_ids"
# The condition of the index `partner_key_newest_at_broker`. It must be a constant: with a parameter, the index is not used.
AT_BROKER = f"scopes && '{{{','.join(sorted(AMQP_SCOPES))}}}'"


class EncryptedKey(NamedTuple):
    """A key that may use the broker, with its encrypted signing key."""

    key: AmqpKey
    signing_key: bytes | None
    key_version: int | None


def amqp_key(**row: Any) -> AmqpKey:
    """Return the key of a row with the columns `AMQP`."""
    plants, scopes = row["allowed_plant_ids"], [Scope(scope) for scope in row["scopes"]]
    return AmqpKey(
        id=row["id"],
        organization_id=row["organization_id"],
        slug=row["amqp_slug"],
        vhost=row["vhost"],
        scopes=expand_amqp(scopes, row["vhost"]),
        plant_ids=None if plants is None else frozenset(plants),
    )


def _encrypted_key(*, signing_key: bytes | None, key_version: int | None, **row: Any) -> EncryptedKey:
    return EncryptedKey(amqp_key(**row), signing_key, key_version)


async def find_sending(db: Connection, key_id: UUID) -> EncryptedKey | None:
    """Return the live key if it may use the broker, or None."""
    cursor = db.cursor(row_factory=kwargs_row(_encrypted_key))
    await cursor.execute(
        f"SELECT {AMQP}, signing_key, key_version FROM partner_key WHERE id = %s AND amqp_slug IS NOT NULL AND {LIVES}",
        (key_id,),
    )
    return await cursor.fetchone()


async def find_amqp(db: Connection, key_id: UUID) -> AmqpKey | None:
    """Return the key if it may use the broker, or None. Keys that wait for their proof are included, even expired ones."""
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        f"SELECT {AMQP} FROM partner_key WHERE id = %s AND amqp_slug IS NOT NULL AND (activated_at IS NULL OR {LIVES})",
        (key_id,),
    )
    return await cursor.fetchone()


async def list_amqp(db: Connection) -> list[AmqpKey]:
    """Return every live key that may use the broker, of all organisations, oldest first."""
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(f"SELECT {AMQP} FROM partner_key WHERE amqp_slug IS NOT NULL AND {LIVES} ORDER BY created_at, id")
    return await cursor.fetchall()


async def list_amqp_of_many(db: Connection, organization_ids: Collection[UUID], known: Mapping[UUID, AmqpKey]) -> list[AmqpKey]:
    """Return the live keys of these organisations that may use the broker, oldest first.

    Args:
        known: Keys that were read before, by id. Their plants, of which there may be thousands, never change, and are not read
            again.
    """
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        "SELECT id, organization_id, amqp_slug, vhost, scopes,"
        " CASE WHEN id <> ALL(%s) THEN allowed_plant_ids END AS allowed_plant_ids FROM partner_key"
        f" WHERE amqp_slug IS NOT NULL AND {LIVES} AND organization_id = ANY(%s) ORDER BY created_at, id",
        (list(known), list(organization_ids)),
    )
    found = await cursor.fetchall()
    return [key._replace(plant_ids=known[key.id].plant_ids) if key.id in known else key for key in found]


async def count_amqp_of(db: Connection, org: OrgScope) -> int:
    """Return the number of the organisation's keys that may use the broker, including those that wait for their proof."""
    return await count_at_broker(db, org.organization_id)


async def count_at_broker(db: Connection, organization_id: UUID) -> int:
    """Return the number of an organisation's keys that may use the broker, including those that wait for their proof."""
    return await fetch_count(
        db, "SELECT count(*) FROM partner_key WHERE organization_id = %s AND amqp_slug IS NOT NULL", (organization_id,)
    )


async def counts_at_broker(db: Connection) -> dict[str, int]:
    """Return the number of such keys of the organisation to which each vhost belongs."""
    cursor = await db.execute(
        "SELECT vhost, count(*) OVER (PARTITION BY organization_id) FROM partner_key WHERE amqp_slug IS NOT NULL"
    )
    return dict(await cursor.fetchall())


async def list_amqp_of(db: Connection, org: OrgScope) -> list[AmqpKey]:
    """Return the organisation's keys that may use the broker, including those that wait for their proof."""
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        f"SELECT {AMQP} FROM partner_key WHERE organization_id = %s AND amqp_slug IS NOT NULL ORDER BY created_at, id",
        (org.organization_id,),
    )
    return await cursor.fetchall()


async def lock_vhost(db: Connection, vhost: str) -> None:
    """Lock the vhost until the transaction ends; wait for other transactions that hold it."""
    await db.execute("SELECT pg_advisory_xact_lock(hashtextextended('vhost ' || %s, 0))", (vhost,))


async def end_expired(db: Connection) -> list[AmqpKey]:
    """End the broker access of proved keys that have expired. Returns them as they were before."""
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        "UPDATE partner_key k SET amqp_slug = NULL FROM (SELECT id, amqp_slug FROM partner_key"
        " WHERE amqp_slug IS NOT NULL AND activated_at IS NOT NULL AND expires_at <= now() FOR UPDATE) AS due"
        " WHERE k.id = due.id"
        " RETURNING k.id, k.organization_id, due.amqp_slug, k.vhost, k.scopes, k.allowed_plant_ids"
    )
    return await cursor.fetchall()


async def restore_ended(db: Connection) -> list[AmqpKey]:
    """Restore the broker access of keys that lost it because they seemed to have expired. Returns them.

    Of an organisation's keys in the shared vhost, only one may use the broker: one that does so now, otherwise the newest.
    """
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        "UPDATE partner_key k SET amqp_slug = o.slug FROM organization o WHERE o.id = k.organization_id"
        " AND k.revoked_at IS NULL AND k.id IN (SELECT DISTINCT ON (organization_id, vhost) id FROM partner_key"
        f" WHERE amqp_slug IS NULL AND expires_at IS NOT NULL AND {LIVES} AND {AT_BROKER}"
        " ORDER BY organization_id, vhost, created_at DESC, id DESC)"
        " AND NOT EXISTS (SELECT FROM partner_key other WHERE other.organization_id = k.organization_id"
        " AND other.vhost = k.vhost AND other.amqp_slug IS NOT NULL)"
        " RETURNING k.id, k.organization_id, k.amqp_slug, k.vhost, k.scopes, k.allowed_plant_ids"
    )
    return await cursor.fetchall()


async def delete_all_unproven(db: Connection, older_than: timedelta) -> list[AmqpKey]:
    """Delete keys older than `older_than` that no login has proved. Returns those that may have a vhost."""
    cursor = db.cursor(row_factory=kwargs_row(amqp_key))
    await cursor.execute(
        f"WITH gone AS (DELETE FROM partner_key WHERE activated_at IS NULL AND created_at < now() - %s RETURNING {AMQP})"
        f" SELECT {AMQP} FROM gone WHERE amqp_slug IS NOT NULL",
        (older_than,),
    )
    return await cursor.fetchall()
