"""SQL of the certificate authority, which is one row, and of the certificates that it issued."""

from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import kwargs_row

from gridfleet.domains.plants.certificates.models import AtRiskPlant, CertificateCounts
from gridfleet.domains.plants.models import AuthMethod, Lifecycle
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count

_VISIBLE = "organization_id = %(org)s AND (%(plants)s::uuid[] IS NULL OR id = ANY(%(plants)s))"


async def find(db: Connection) -> tuple[str, bytes, int] | None:
    """Return the certificate (PEM), the encrypted key and its key version; None if there is no authority."""
    # Transactions that issue certificates share this lock; a replacement waits for them.
    cursor = await db.execute("SELECT certificate, private_key, key_version FROM certificate_authority FOR SHARE")
    row = await cursor.fetchone()
    return None if row is None else (row[0], row[1], row[2])


async def insert(db: Connection, certificate: str, private_key: bytes, key_version: int) -> None:
    """Insert the authority unless there is one."""
    await db.execute(
        "INSERT INTO certificate_authority (certificate, private_key, key_version) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (certificate, private_key, key_version),
    )


async def hold(db: Connection) -> None:
    """Lock the authority until the transaction ends. Waits for transactions that issue certificates."""
    await db.execute("SELECT FROM certificate_authority FOR UPDATE")


async def replace(db: Connection, certificate: str, private_key: bytes, key_version: int) -> None:
    """Insert this authority, or replace the current one."""
    await db.execute(
        "INSERT INTO certificate_authority (certificate, private_key, key_version) VALUES (%s, %s, %s)"
        " ON CONFLICT (id) DO UPDATE SET certificate = excluded.certificate, private_key = excluded.private_key,"
        " key_version = excluded.key_version, created_at = now()",
        (certificate, private_key, key_version),
    )


async def count_trusting(db: Connection) -> int:
    """Return the number of plants that hold a package, which names the authority to trust."""
    return await fetch_count(db, "SELECT count(*) FROM plant WHERE lifecycle_status IN ('ACTIVE', 'SUSPENDED')")


async def count_certificates(db: Connection, org: OrgScope, soon: timedelta) -> CertificateCounts:
    """Return the number of the organisation's certificates by state.

    Args:
        soon: How long before its expiry a certificate counts as expiring soon.
    """
    cursor = db.cursor(row_factory=kwargs_row(CertificateCounts))
    await cursor.execute(
        "SELECT count(*) FILTER (WHERE certificate_expires_at > now()) AS active,"
        " count(*) FILTER (WHERE certificate_expires_at <= now()) AS expired,"
        " count(*) FILTER (WHERE certificate_expires_at > now() AND certificate_expires_at <= now() + %(soon)s)"
        " AS expiring_soon,"
        " count(*) FILTER (WHERE certificate_expires_at IS NULL) AS revoked,"
        " min(certificate_expires_at) FILTER (WHERE certificate_expires_at > now()) AS next_renewal_at"
        f" FROM plant WHERE {_VISIBLE} AND (certificate_expires_at IS NOT NULL"
        " OR (lifecycle_status = 'DECOMMISSIONED' AND auth_method = 'MTLS' AND activated_at IS NOT NULL))",
        {**org.parameters, "soon": soon},
    )
    return (await cursor.fetchall())[0]


async def at_risk(db: Connection, org: OrgScope, soon: timedelta, limit: int) -> list[AtRiskPlant]:
    """Return up to `limit` plants whose certificate has expired or expires within `soon`, the earliest expiry first."""

    def plant(id: UUID, name: str, serial_number: str, method: str, lifecycle: str, expires_at: datetime) -> AtRiskPlant:
        return AtRiskPlant(id, name, serial_number, AuthMethod(method), Lifecycle(lifecycle), expires_at)

    cursor = db.cursor(row_factory=kwargs_row(plant))
    await cursor.execute(
        "SELECT id, name, serial_number, auth_method AS method, lifecycle_status AS lifecycle,"
        f" certificate_expires_at AS expires_at FROM plant WHERE {_VISIBLE}"
        " AND certificate_expires_at <= now() + %(soon)s ORDER BY certificate_expires_at, id LIMIT %(limit)s",
        {**org.parameters, "soon": soon, "limit": limit},
    )
    return await cursor.fetchall()
