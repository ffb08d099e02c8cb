"""Sources by the shard that Citus chooses for them."""

import pytest

from gridfleet.kernel.db.pool import TidyConnection
from gridfleet.kernel.db.shards import by_shard, hash_of

HASHES = {1: -1905060026, 2: 1134484726, 77: -1172168408, 123456: 73968562, 2147483647: -96758253}
"""What `hashint4` of PostgreSQL returns."""


def connection(*starts: int) -> TidyConnection:
    found = TidyConnection.__new__(TidyConnection)
    found.shard_starts = starts
    return found


@pytest.mark.parametrize("source_id", HASHES)
def test_the_hash_is_that_of_postgresql(source_id: int) -> None:
    assert hash_of(source_id) == HASHES[source_id]


def test_without_citus_there_is_one_part_without_a_condition() -> None:
    assert by_shard(connection(), [2, 1], int) == [([2, 1], "")]
    assert by_shard(connection(), [], int) == [([], "")]


def test_sources_of_each_shard_are_together() -> None:
    starts = (-(1 << 31), -(1 << 30), 0, 1 << 30)
    assert by_shard(connection(*starts), [*HASHES, 1], int) == [
        ([1, 77, 1], " AND source_id = ANY('{1,77}'::int[])"),
        ([2147483647], " AND source_id = ANY('{2147483647}'::int[])"),
        ([123456], " AND source_id = ANY('{123456}'::int[])"),
        ([2], " AND source_id = ANY('{2}'::int[])"),
    ]
    assert by_shard(connection(*starts), [], int) == []
