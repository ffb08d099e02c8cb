"""SQL of first answers kept for `Idempotency-Key`. They live in the transaction of the request they belong to.

The column `user_id` holds whoever called: a user or an API key."""

from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.kernel.db.encrypted import EncryptedTable
from gridfleet.kernel.db.pool import Connection

__all__ = ["ANSWERS", "KeptAnswer", "claim", "find", "forget_old", "keep"]

ANSWERS: Final = EncryptedTable(
    "idempotent_answer", ("user_id", "scope", "key"), ("answer",), row_id=lambda key: "|".join(map(str, key))
)
"""What is encrypted of them."""


class KeptAnswer(NamedTuple):
    """A first answer; `answer` is encrypted with `key_version`."""

    request_hash: bytes
    status: int
    answer: bytes
    key_version: int


async def claim(db: Connection, caller_id: UUID, scope: str, key: str, request_hash: bytes) -> bool:
    """Takes the key for this request; False when an answer of the last 24 hours has it.

    Waits for a request with the same key that is still running. The row is locked also when it is not taken, so that
    `forget_old` of another request leaves it to `find`.
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


async def find(db: Connection, caller_id: UUID, scope: str, key: str) -> KeptAnswer:
    """The answer that has the key."""
    cursor = await db.execute(
        "SELECT request_hash, status, answer, key_version FROM idempotent_answer WHERE (user_id, scope, key) = (%s, %s, %s)",
        (caller_id, scope, key),
    )
    row = await cursor.fetchone()
    if row is None:
        raise LookupError("a kept answer vanished within the transaction that met it")
    return KeptAnswer(*row)


async def keep(db: Connection, caller_id: UUID, scope: str, key: str, status: int, answer: bytes, key_version: int) -> None:
    """Stores the answer under the claimed key."""
    await db.execute(
        """
        UPDATE idempotent_answer SET status = %s, answer = %s, key_version = %s
        WHERE (user_id, scope, key) = (%s, %s, %s)
        """,
        (status, answer, key_version, caller_id, scope, key),
    )


async def forget_old(db: Connection) -> None:
    """Removes a few answers that are too old to be given again; called often, so it keeps up."""
    await db.execute(
        """
        DELETE FROM idempotent_answer WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM idempotent_answer WHERE created_at < now() - interval '24 hours'
            LIMIT 20 FOR UPDATE SKIP LOCKED
        ))
        """
    )
