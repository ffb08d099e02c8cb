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
    auth_failure_count: int


async def find(db: Connection, plant_id: UUID) -> PlantCredentials | None:
    """Return the plant's credentials, whatever its organisation: the request comes from the plant itself."""
    cursor = db.cursor(row_factory=class_row(PlantCredentials))
    await cursor.execute(
        "SELECT p.auth_method, p.lifecycle_status, p.certificate_serial_number, p.certificate_expires_at,"
        " p.previous_certificate_serial_number, p.previous_certificate_valid_until, s.password_hash, p.auth_failure_count"
        " FROM plant p LEFT JOIN plant_secret s ON s.plant_id = p.id WHERE p.id = %s",
        (plant_id,),
    )
    return await cursor.fetchone()


async def count_failures(db: Connection, failures: Mapping[UUID, int]) -> None:
    """Add refused logins and bad signatures to the plants' counts since their last successful logins."""
    await db.execute(
        "UPDATE plant SET auth_failure_count = auth_failure_count + f.count, last_auth_failure_at = now()"
        " FROM unnest(%s::uuid[], %s::int[]) AS f (id, count) WHERE plant.id = f.id",
        (list(failures), list(failures.values())),
    )


async def clear_failures(db: Connection, plant_id: UUID) -> None:
    """Reset the count after a successful login."""
    await db.execute("UPDATE plant SET auth_failure_count = 0 WHERE id = %s", (plant_id,))
