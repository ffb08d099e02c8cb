"""SQL of the broker's requests about plants."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.kernel.db import Connection


class PlantCredentials(NamedTuple):
    """The values that a login is checked against."""

    auth_method: str
    lifecycle_status: str
    certificate_serial_number: str | None
    certificate_expires_at: datetime | None
    previous_certificate_serial_number: str | None
    previous_certificate_valid_until: datetime | None
    password_hash: str | None
    secret_rotated_at: datetime | None
    previous_secret_rotated_at: datetime | None
    previous_secret_valid_until: datetime | None
    auth_failure_count: int


async def find(db: Connection, plant_id: UUID) -> PlantCredentials | None:
    """Return the credentials of a plant of any organisation: the request comes from the plant itself."""
    cursor = db.cursor(row_factory=class_row(PlantCredentials))
    await cursor.execute(
        "SELECT p.auth_method, p.lifecycle_status, p.certificate_serial_number, p.certificate_expires_at,"
        " p.previous_certificate_serial_number, p.previous_certificate_valid_until, s.password_hash, p.secret_rotated_at,"
        " s.previous_rotated_at AS previous_secret_rotated_at, s.previous_valid_until AS previous_secret_valid_until,"
        " p.auth_failure_count"
        " FROM plant p LEFT JOIN plant_secret s ON s.plant_id = p.id WHERE p.id = %s",
        (plant_id,),
    )
    return await cursor.fetchone()


class TokenPlant(NamedTuple):
    """A plant that requests a token. `token_requested_at` is in epoch milliseconds, None before the first accepted request."""

    organization_id: UUID
    auth_method: str
    lifecycle_status: str
    secret_rotated_at: datetime | None
    token_requested_at: int | None


async def find_token_plant(db: Connection, plant_id: UUID) -> TokenPlant | None:
    """Return a plant of any organisation: the request comes from the plant itself."""
    cursor = db.cursor(row_factory=class_row(TokenPlant))
    await cursor.execute(
        "SELECT p.organization_id, p.auth_method, p.lifecycle_status, p.secret_rotated_at, s.token_requested_at"
        " FROM plant p LEFT JOIN plant_secret s ON s.plant_id = p.id WHERE p.id = %s",
        (plant_id,),
    )
    return await cursor.fetchone()


async def claim_token_request(db: Connection, plant_id: UUID, sent_at: int) -> bool:
    """Record the request of an ACTIVE plant, unless a request of that time or later was accepted. Returns whether it was."""
    cursor = await db.execute(
        "UPDATE plant_secret s SET token_requested_at = %(sent_at)s FROM plant p"
        " WHERE p.id = s.plant_id AND p.id = %(id)s AND p.lifecycle_status = 'ACTIVE'"
        " AND (s.token_requested_at IS NULL OR s.token_requested_at < %(sent_at)s)",
        {"id": plant_id, "sent_at": sent_at},
    )
    return cursor.rowcount == 1


async def count_failures_soon(db: Connection, plant_id: UUID) -> None:
    """Add a refusal to the plant's count, if it exists.

    The commit does not wait for the disk: the time of the response would otherwise show whether the plant exists.
    """
    await db.execute("SET LOCAL synchronous_commit = off")
    await count_failures(db, {plant_id: 1})


async def count_failures(db: Connection, failures: Mapping[UUID, int]) -> None:
    """Add refused logins and bad signatures to the plants' counts since their last successful logins.

    Leaves out plants that another transaction has locked. Otherwise refused logins of one plant, while they wait for a batch of
    ingest or for each other, would hold all connections for the broker's requests.
    """
    await db.execute(
        "WITH held AS (SELECT id FROM plant WHERE id = ANY(%(ids)s) FOR NO KEY UPDATE SKIP LOCKED)"
        " UPDATE plant SET auth_failure_count = least(auth_failure_count::bigint + f.count, 2147483647),"
        " last_auth_failure_at = now() FROM held JOIN unnest(%(ids)s::uuid[], %(counts)s::int[]) AS f (id, count) USING (id)"
        " WHERE plant.id = held.id",
        {"ids": list(failures), "counts": list(failures.values())},
    )


async def clear_failures(db: Connection, plant_id: UUID) -> None:
    """Reset the count after a successful login. A count that another transaction has locked waits for the next login."""
    await db.execute(
        "UPDATE plant SET auth_failure_count = 0 WHERE id = (SELECT id FROM plant WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED)",
        (plant_id,),
    )
