"""SQL that reads pages of the delivery log."""

from typing import Any, Final
from uuid import UUID

import msgspec
from psycopg.rows import kwargs_row

from gridfleet.domains.notifications.models import Channel, DeliveryFilter, NotificationLog, NotificationStatus
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.pagination import Paging

LOG = ", ".join(NotificationLog.__struct_fields__)


def log_record(**row: Any) -> NotificationLog:
    """Return the record of a row with the columns `LOG`."""
    row["channel"] = Channel(row["channel"])
    row["status"] = NotificationStatus(row["status"])
    return NotificationLog(**row)


async def page(db: Connection, paging: Paging) -> list[NotificationLog]:
    """Return one page of all deliveries, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(log_record))
    await cursor.execute(
        f"SELECT {LOG} FROM notification_log ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
        (paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count(db: Connection) -> int:
    """Return the number of deliveries in the log."""
    return await fetch_count(db, "SELECT count(*) FROM notification_log")


_OF_USER: Final = (
    "user_id = %(user_id)s AND (%(channel)s::text IS NULL OR channel = %(channel)s)"
    " AND (%(status)s::text IS NULL OR status = %(status)s) AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s)"
    " AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)"
)


async def page_of_user(db: Connection, user_id: UUID, wanted: DeliveryFilter, paging: Paging) -> list[NotificationLog]:
    """Return one page of a user's deliveries that match, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(log_record))
    await cursor.execute(
        f"SELECT {LOG} FROM notification_log WHERE {_OF_USER}"
        " ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s",
        {**msgspec.structs.asdict(wanted), "user_id": user_id, "limit": paging.limit, "offset": paging.offset},
    )
    return await cursor.fetchall()


async def count_of_user(db: Connection, user_id: UUID, wanted: DeliveryFilter) -> int:
    """Return the number of a user's deliveries that match."""
    return await fetch_count(
        db,
        f"SELECT count(*) FROM notification_log WHERE {_OF_USER}",
        {**msgspec.structs.asdict(wanted), "user_id": user_id},
    )
