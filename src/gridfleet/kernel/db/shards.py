"""The shards of the telemetry tables that Citus distributes, by the id of the source.

Citus plans nearly any statement that reads a single shard, and refuses many that read several. So a statement about several
sources runs once for each shard. Without Citus there is one part with all sources, and the statement is unchanged.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from psycopg import OperationalError

from gridfleet.kernel.db.pool import Connection, shard_starts

__all__ = ["NotSettled", "Part", "by_shard", "hash_of", "is_distributed", "settle"]

T = TypeVar("T")
_BITS: Final = 0xFFFF_FFFF
_SEED: Final = 0x9E37_79B9 + 4 + 3_923_095
_ROTATIONS: Final = (14, 11, 25, 16, 4, 14, 24)
_CHECKS: Final = 10
_PAUSE_SECONDS: Final = 0.2


class NotSettled(OperationalError):
    """A worker does not show all committed rows yet. It is an outage, which ends when the worker has been reached again."""


class Part(NamedTuple, Generic[T]):
    """Items whose sources are on one shard, and the SQL condition that restricts a statement to this shard.

    The condition differs with each part, so the statement must not be prepared.
    """

    items: list[T]
    condition: str


def hash_of(source_id: int) -> int:
    """Return the hash of a source id by which Citus finds its shard: PostgreSQL's `hashint4`."""
    values = [_SEED + source_id & _BITS, _SEED, _SEED]
    # Pairs of (c, b), (a, c), (b, a), (c, b), and so on: each is mixed with the one before it.
    for number, rotation in enumerate(_ROTATIONS):
        mixed, other = (2 - 2 * number) % 3, (1 - 2 * number) % 3
        before = values[other]
        rotated = (before << rotation | before >> 32 - rotation) & _BITS
        values[mixed] = ((values[mixed] ^ before) - rotated) & _BITS
    found = values[2]
    return found - (1 << 32) if found >> 31 else found


def is_distributed(db: Connection) -> bool:
    """Return whether the tables of telemetry were distributed when the connection was opened."""
    return bool(shard_starts(db))


def by_shard(db: Connection, items: Sequence[T], source_of: Callable[[T], int]) -> list[Part[T]]:
    """Return the items by the shard of their source; all of them in one part without a condition if nothing is distributed."""
    starts = shard_starts(db)
    if not starts:
        return [Part(list(items), "")]
    found: dict[int, list[T]] = {}
    for item in items:
        found.setdefault(bisect_right(starts, hash_of(source_of(item))), []).append(item)
    return [Part(some, _condition({source_of(item) for item in some})) for _, some in sorted(found.items())]


def _condition(source_ids: set[int]) -> str:
    return f" AND source_id = ANY('{{{','.join(f'{number:d}' for number in sorted(source_ids))}}}'::int[])"


async def settle(db: Connection) -> None:
    """Wait until the workers show everything that is committed at the moment of the call.

    Citus commits in two phases: rows of the coordinator are visible before those of the workers, usually for milliseconds, but
    until the recovery of the next minute if a worker has failed in between. A transaction that has read rows of the
    coordinator, and then reads those that were written with them, has to wait. Returns at once if nothing is distributed.

    Raises:
        NotSettled: A worker does not respond, or still has prepared transactions after some seconds.
    """
    if not is_distributed(db):
        return
    pending = await _pending(db)
    for _ in range(_CHECKS):
        if not pending:
            return
        await asyncio.sleep(_PAUSE_SECONDS)
        pending &= await _pending(db)
    raise NotSettled(f"{len(pending)} prepared transactions are not recovered yet")


async def _pending(db: Connection) -> set[str]:
    """Return the names of committed transactions that a worker has prepared only."""
    cursor = await db.execute(
        "SELECT w.success, t.gid FROM run_command_on_workers($$SELECT coalesce(string_agg(gid, ' '), '')"
        " FROM pg_prepared_xacts WHERE database = current_database()$$) AS w"
        " LEFT JOIN LATERAL unnest(string_to_array(w.result, ' ')) AS p (gid) ON true"
        " LEFT JOIN pg_dist_transaction t ON t.gid = p.gid"
    )
    rows = await cursor.fetchall()
    if not all(success for success, _ in rows):
        raise NotSettled("a worker does not answer")
    return {gid for _, gid in rows if gid is not None}
