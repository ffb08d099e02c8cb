"""A first answer that is exactly 24 hours old, while another request forgets what is older."""

import asyncio
from uuid import UUID, uuid4

from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.idempotency import claim, delete_old, find
from support.builders.interleaving import until_blocked

HASH = b"the request"


async def keep_until_now(database: Database, db: Connection) -> UUID:
    """Store an answer that is 24 hours old by the clock of the transaction `db`, and older by that of any later one."""
    now = await (await db.execute("SELECT now()")).fetchone()
    assert now is not None
    caller_id = uuid4()
    async with database.autocommit() as other:
        await other.execute(
            "INSERT INTO idempotent_answer VALUES (%s, 'scope', 'key', %s, 201, 'answer', 1, %s - interval '24 hours')",
            (caller_id, HASH, now[0]),
        )
    return caller_id


async def test_an_answer_that_is_about_to_be_given_is_not_forgotten(database: Database) -> None:
    async with database.transaction() as giving:
        caller_id = await keep_until_now(database, giving)
        assert not await claim(giving, caller_id, "scope", "key", HASH)
        async with database.transaction() as other:
            await delete_old(other)
        assert (await find(giving, caller_id, "scope", "key")).status == 201
    async with database.transaction() as other:
        await delete_old(other)
        assert await claim(other, caller_id, "scope", "key", HASH), "it was forgotten afterwards"


async def test_a_request_whose_answer_is_being_forgotten_is_the_first(database: Database) -> None:
    async with database.transaction() as claiming:
        caller_id = await keep_until_now(database, claiming)
        async with database.transaction() as other:
            await delete_old(other)
            claimed = asyncio.create_task(claim(claiming, caller_id, "scope", "key", HASH))
            await until_blocked(database)
        assert await claimed
