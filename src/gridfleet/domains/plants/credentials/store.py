"""SQL of plants' secrets."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.certificates import IssuedCertificate


class SecretRow(NamedTuple):
    """A plant's encrypted secrets."""

    plant_id: UUID
    key_version: int
    hmac_secret: bytes
    previous_hmac_secret: bytes | None
    previous_valid_until: datetime | None


async def insert(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    key_version: int,
    hmac_secret: bytes,
    password_hash: str | None,
    package: bytes | None,
    package_lifetime: timedelta,
) -> None:
    """Insert the secrets of a plant of the organisation that has just become ACTIVE."""
    await db.execute(
        "INSERT INTO plant_secret (plant_id, key_version, hmac_secret, password_hash, package, package_valid_until)"
        " SELECT id, %(version)s, %(secret)s, %(password)s, %(package)s,"
        " CASE WHEN %(package)s::bytea IS NOT NULL THEN now() + %(lifetime)s END"
        " FROM plant WHERE id = %(id)s AND organization_id = %(org)s",
        {
            "id": plant_id,
            "org": org.organization_id,
            "version": key_version,
            "secret": hmac_secret,
            "password": password_hash,
            "package": package,
            "lifetime": package_lifetime,
        },
    )


async def lock(db: Connection, org: OrgScope, plant_id: UUID) -> SecretRow | None:
    """Return the encrypted secrets of a plant of the organisation, locked until the transaction ends."""
    cursor = db.cursor(row_factory=class_row(SecretRow))
    await cursor.execute(
        "SELECT s.plant_id, s.key_version, s.hmac_secret, s.previous_hmac_secret, s.previous_valid_until"
        " FROM plant_secret s JOIN plant p ON p.id = s.plant_id"
        " WHERE p.id = %s AND p.organization_id = %s FOR UPDATE OF s",
        (plant_id, org.organization_id),
    )
    return await cursor.fetchone()


async def rotate(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    key_version: int,
    hmac_secret: bytes,
    previous_hmac_secret: bytes | None,
    previous_valid_until: datetime,
) -> None:
    """Write both secrets, encrypted with the same key version, and delete the package. Call this before `record_rotation`.

    Args:
        previous_hmac_secret: The secret until now; None if it cannot be decrypted.
        previous_valid_until: When the previous secret stops being valid.
    """
    await db.execute(
        "UPDATE plant_secret s SET key_version = %(version)s, hmac_secret = %(secret)s,"
        " previous_hmac_secret = %(previous)s, previous_valid_until = %(until)s, previous_rotated_at = p.secret_rotated_at,"
        " package = NULL, package_valid_until = NULL"
        " FROM plant p WHERE p.id = s.plant_id AND p.id = %(id)s AND p.organization_id = %(org)s",
        {
            "id": plant_id,
            "org": org.organization_id,
            "version": key_version,
            "secret": hmac_secret,
            "previous": previous_hmac_secret,
            "until": previous_valid_until,
        },
    )


async def delete(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Delete a plant's secrets."""
    await db.execute(
        "DELETE FROM plant_secret s USING plant p WHERE p.id = s.plant_id AND p.id = %s AND p.organization_id = %s",
        (plant_id, org.organization_id),
    )


async def delete_package(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Delete the package of a plant of the organisation, if it waits for its download."""
    await db.execute(
        "UPDATE plant_secret s SET package = NULL, package_valid_until = NULL"
        " FROM plant p WHERE p.id = s.plant_id AND p.id = %s AND p.organization_id = %s AND s.package IS NOT NULL",
        (plant_id, org.organization_id),
    )


async def take_package(db: Connection, org: OrgScope, plant_id: UUID) -> tuple[bytes, int] | None:
    """Return the stored package and its key version, and delete it; None if there is none or it is no longer valid."""
    cursor = await db.execute(
        "WITH kept AS (SELECT s.plant_id, s.package, s.key_version, s.package_valid_until FROM plant_secret s"
        " JOIN plant p ON p.id = s.plant_id WHERE p.id = %(id)s AND p.organization_id = %(org)s"
        " AND p.lifecycle_status = 'ACTIVE' AND s.package IS NOT NULL FOR UPDATE OF s)"
        " UPDATE plant_secret s SET package = NULL, package_valid_until = NULL FROM kept"
        " WHERE s.plant_id = kept.plant_id AND kept.package_valid_until > now() RETURNING kept.package, kept.key_version",
        {"id": plant_id, "org": org.organization_id},
    )
    row = await cursor.fetchone()
    return None if row is None else (row[0], row[1])


async def delete_old_packages(db: Connection) -> int:
    """Delete packages that may no longer be downloaded. Returns their number."""
    cursor = await db.execute(
        "UPDATE plant_secret SET package = NULL, package_valid_until = NULL WHERE package_valid_until < now()"
    )
    return cursor.rowcount


async def delete_previous_secrets(db: Connection) -> int:
    """Delete replaced secrets that are no longer valid. Returns their number.

    A secret stays, for a week at most, while messages that arrived in its time may still wait in an ingest queue.
    """
    cursor = await db.execute(
        "UPDATE plant_secret SET previous_hmac_secret = NULL, previous_valid_until = NULL, previous_rotated_at = NULL"
        " WHERE previous_valid_until < now()"
        " AND (previous_valid_until < now() - interval '7 days'"
        " OR NOT EXISTS (SELECT FROM ingest_shard WHERE drained_at <= previous_valid_until))"
    )
    return cursor.rowcount


async def find_many(db: Connection, plant_ids: Iterable[UUID]) -> list[SecretRow]:
    """Return the encrypted secrets of those plants that have some."""
    cursor = db.cursor(row_factory=class_row(SecretRow))
    await cursor.execute(
        "SELECT plant_id, key_version, hmac_secret, previous_hmac_secret, previous_valid_until"
        " FROM plant_secret WHERE plant_id = ANY(%s)",
        (list(plant_ids),),
    )
    return await cursor.fetchall()


async def certificate_serials(db: Connection, org: OrgScope, plant_id: UUID) -> list[str]:
    """Return the serial numbers of the current certificate and the previous one, as far as they exist."""
    cursor = await db.execute(
        "SELECT certificate_serial_number, previous_certificate_serial_number FROM plant"
        " WHERE id = %s AND organization_id = %s",
        (plant_id, org.organization_id),
    )
    return [serial for serial in await cursor.fetchone() or () if serial is not None]


async def replace_certificate(
    db: Connection, org: OrgScope, plant_id: UUID, certificate: IssuedCertificate, previous_valid_until: datetime
) -> None:
    """Make the certificate the current one, and the current one the previous one."""
    await db.execute(
        "UPDATE plant SET previous_certificate_serial_number = certificate_serial_number,"
        " previous_certificate_valid_until = least(%(until)s, certificate_expires_at),"
        " certificate_serial_number = %(serial)s, certificate_fingerprint = %(fingerprint)s,"
        " certificate_expires_at = %(expires)s, updated_at = now() WHERE id = %(id)s AND organization_id = %(org)s",
        {
            "id": plant_id,
            "org": org.organization_id,
            "serial": certificate.serial_number,
            "fingerprint": certificate.fingerprint,
            "expires": certificate.expires_at,
            "until": previous_valid_until,
        },
    )


async def record_rotation(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Record that the plant's HMAC secret was replaced now."""
    await db.execute(
        "UPDATE plant SET secret_rotated_at = now(), updated_at = now() WHERE id = %s AND organization_id = %s",
        (plant_id, org.organization_id),
    )
