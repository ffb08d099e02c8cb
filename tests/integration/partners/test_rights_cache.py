"""How many queries the broker's requests about one key take."""

import asyncio

from psycopg.errors import UndefinedTable

from gridfleet.domains.partners.amqp_access.rights_cache import RightsCache
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id


async def test_requests_at_once_share_a_query(database: Database) -> None:
    """Otherwise one partner keeps every login of plants waiting, because those come after its queries."""
    rights, key_id, before = RightsCache(), new_id(), database.statistics().get("requests_num", 0)
    assert await asyncio.gather(*(rights.of(database, key_id) for _ in range(500))) == [None] * 500
    assert database.statistics()["requests_num"] - before <= 10


async def test_a_request_after_the_query_began_has_its_own(database: Database) -> None:
    rights, key_id = RightsCache(), new_id()
    for _ in range(2):
        before = database.statistics().get("requests_num", 0)
        await rights.of(database, key_id)
        assert database.statistics()["requests_num"] == before + 1


async def test_a_query_that_fails_is_not_waited_for_again(database: Database) -> None:
    rights, key_id = RightsCache(), new_id()
    async with database.transaction() as db:
        await db.execute("ALTER TABLE partner_key RENAME TO partner_key_away")
    failed = await asyncio.gather(*(rights.of(database, key_id) for _ in range(3)), return_exceptions=True)
    assert {type(one) for one in failed} == {UndefinedTable}
    async with database.transaction() as db:
        await db.execute("ALTER TABLE partner_key_away RENAME TO partner_key")
    assert await rights.of(database, key_id) is None
