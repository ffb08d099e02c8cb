"""The audit event of a queue that the service has removed."""

from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.own_queues import record_removal
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id


async def test_a_name_that_the_database_cannot_store_is_recorded_all_the_same(database: Database) -> None:
    """Otherwise the examination of all queues ends with an error, each time that a partner declares such a queue."""
    key = AmqpKey(new_id(), new_id(), "acme", "partner-acme", frozenset(), None)
    async with database.transaction() as db:
        await record_removal(db, key, "acme.\0x", "x-max-priority")
        cursor = await db.execute("SELECT details->>'queue' FROM audit_event WHERE event = 'partner.queue_removed'")
        assert await cursor.fetchone() == ("acme.\N{REPLACEMENT CHARACTER}x",)
