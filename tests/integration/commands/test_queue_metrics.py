"""Length and age of the queue of commands."""

from datetime import UTC, datetime

from gridfleet.domains.maintenance.queues import waiting_commands
from gridfleet.domains.plants.commands.delivery import claim_due
from gridfleet.kernel.db import Database
from support.clients.commands_at_work import add_commandable, issue
from support.clients.ingest_bench import Bench


async def test_only_commands_that_a_sender_may_claim_are_due(database: Database) -> None:
    """A suspended plant, or one that is away, raised the alert that no process sends commands."""
    bench = Bench(database)
    suspended, away, connected = [await bench.plant() for _ in range(3)]
    for plant in (suspended, away, connected):
        await add_commandable(plant)
    for plant in (suspended, away, away, connected):
        await issue(plant)
    async with database.transaction() as db:
        await db.execute("UPDATE plant SET lifecycle_status = 'SUSPENDED' WHERE id = %s", (suspended.id,))
        await db.execute("UPDATE plant_command SET due_at = now() - interval '20 minutes'")
    async with database.transaction() as db:
        _, length, seconds = await waiting_commands(db)
    assert length == 2
    assert 1190 < seconds < 1260

    async with database.transaction() as db:
        assert len(await claim_due(db, bench.keyring, datetime.now(UTC), 10)) == 2
        # A claim ends after five seconds, which may pass here.
        await db.execute("UPDATE plant_command SET due_at = due_at + interval '10 minutes' WHERE due_at > now()")
    async with database.transaction() as db:
        assert await waiting_commands(db) == ("commands", 0, 0)
