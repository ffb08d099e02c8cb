"""SQL for the first responses that are stored for `Idempotency-Key`, in the transaction of their request.

The column `user_id` holds the caller's id: of a user or an API key.
"""

from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.kernel.db.encrypted import EncryptedTable
from gridfleet.kernel.db.pool import Connection

__all__ = ["RESPONSES", "KeptResponse", "claim", "delete_old", "find", "keep"]

RESPONSES: Final = EncryptedTable(
    "idempotent_answer", ("user_id", "scope", "key"), ("answer",), row_id=lambda key: "|".join(map(str, key))
)
"""The encrypted column of the responses."""


class KeptResponse(NamedTuple):
    """A first response; its body, `response`, is encrypted with `key_version`."""

    request_hash: bytes
    status: int
    response: bytes
    key_version: int


async def claim(db: Connection, caller_id: UUID, scope: str, key: str, request_hash: bytes) -> bool:
    """Claim the key for this request. Returns False if a response of the last 24 hours has it.

    Waits for a running request with the same key. The row is also locked if it is not claimed, so that `delete_old` of another
    request cannot delete it before `find`.
    """
    cursor = await db.execute(
        """
        INSERT INTO idempotent_answer AS kept (user_id, scope, key, request_hash) VALUES (%s, %s, %s, %s)
        ON CONFLICT (user_id, scope, key) DO UPDATE
            SET request_hash = excluded.request_hash, status = NULL, answer = NULL, key_version = NULL, created_at = now()
            WHERE kept.created_at < now() - interval '24 hours'
        RETURNING true
        """,
        (caller_id, scope, key, request_hash),
    )
    return await cursor.fetchone() is not None


async def find(db: Connection, caller_id: UUID, scope: str, key: str) -> KeptResponse:
    """Return the response that is stored under the key."""
    cursor = await db.execute(
        "SELECT request_hash, status, answer, key_version FROM idempotent_answer WHERE (user_id, scope, key) = (%s, %s, %s)",
        (caller_id, scope, key),
    )
    row = await cursor.fetchone()
    if row is None:
        raise LookupError("a kept response is missing in the transaction that found it")
    return KeptResponse(*row)


async def keep(db: Connection, caller_id: UUID, scope: str, key: str, status: int, response: bytes, key_version: int) -> None:
    """Store the response under the claimed key."""
    await db.execute(
        """
        UPDATE idempotent_answer SET status = %s, answer = %s, key_version = %s
        WHERE (user_id, scope, key) = (%s, %s, %s)
        """,
        (status, response, key_version, caller_id, scope, key),
    )


async def delete_old(db: Connection, limit: int = 20) -> int:
    """Delete at most `limit` responses that have expired, without those that are locked. Returns their number.

    Frequent calls keep up with new ones. A job calls this too: without it, the last responses, which hold passwords and keys,
    would stay until the header is used again.
    """
    cursor = await db.execute(
        """
        DELETE FROM idempotent_answer WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM idempotent_answer WHERE created_at < now() - interval '24 hours'
            LIMIT %s FOR UPDATE SKIP LOCKED
        ))
        """,
        (limit,),
    )
    return cursor.rowcount
