"""SQL of push tokens."""

from collections.abc import Sequence
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.domains.notifications.models import (
    PushToken,
)
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_value

_TOKEN = ", ".join(PushToken.__struct_fields__)


async def register_token(db: Connection, token_id: UUID, user_id: UUID, token: str, platform: str | None) -> PushToken:
    """Register the token for this user, also if another user had it before, and return it."""
    cursor = db.cursor(row_factory=class_row(PushToken))
    await cursor.execute(
        "INSERT INTO push_token (id, user_id, token, platform) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (token) DO UPDATE SET user_id = excluded.user_id, platform = excluded.platform"
        f" RETURNING {_TOKEN}",
        (token_id, user_id, token, platform),
    )
    return (await cursor.fetchall())[0]


async def keep_newest_tokens(db: Connection, user_id: UUID, beside: UUID, most: int) -> None:
    """Delete a user's tokens except the token with the id `beside` and the `most` newest others."""
    await db.execute(
        "DELETE FROM push_token WHERE id IN"
        " (SELECT id FROM push_token WHERE user_id = %s AND id <> %s ORDER BY created_at DESC, id DESC OFFSET %s)",
        (user_id, beside, most),
    )


async def owner_of_token(db: Connection, token: str) -> UUID | None:
    """Return the user that has the token, or None."""
    return await fetch_value(db, "SELECT user_id FROM push_token WHERE token = %s", (token,))


async def delete_token(db: Connection, user_id: UUID, token: str) -> bool:
    """Delete a user's token. Returns False if they do not have it."""
    cursor = await db.execute("DELETE FROM push_token WHERE token = %s AND user_id = %s", (token, user_id))
    return cursor.rowcount == 1


async def drop_tokens(db: Connection, tokens: Sequence[str]) -> None:
    """Delete tokens that the push service reports as unregistered."""
    await db.execute("DELETE FROM push_token WHERE token = ANY(%s)", (list(tokens),))
