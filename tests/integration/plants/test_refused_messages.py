"""What is kept of refused messages."""

from datetime import timedelta
from uuid import UUID

from accounts import add_organization
from gridfleet.domains.plants.installation import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Database
from telemetry_records import add_plant

SYSTEM = SystemScope("a test")


async def refuse(database: Database, plant_id: UUID, *seconds_ago: int) -> None:
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO refused_message (id, plant_id, received_at, topic, reason, detail, bytes)"
            " SELECT gen_random_uuid(), %s, now() - ago * interval '1 second', '', 'MALFORMED', ago::text, 1"
            " FROM unnest(%s::int[]) AS ago",
            (plant_id, list(seconds_ago)),
        )


async def kept(database: Database, plant_id: UUID) -> list[int]:
    async with database.transaction() as db:
        cursor = await db.execute("SELECT detail::int FROM refused_message WHERE plant_id = %s ORDER BY 1", (plant_id,))
        return [row[0] for row in await cursor.fetchall()]


async def test_the_newest_of_each_plant_are_kept_for_a_week(database: Database) -> None:
    week = 7 * 86_400
    organization = await add_organization(database)
    loud, quiet, silent = [await add_plant(database, organization.id) for _ in range(3)]
    await refuse(database, loud, *range(1, 51), week + 10, week + 20)
    await refuse(database, quiet, 5, week - 60, week + 60)
    async with database.transaction() as db:
        assert await store.trim_refused(db, SYSTEM, timedelta(days=7), 10) == 43
        assert await store.trim_refused(db, SYSTEM, timedelta(days=7), 10) == 0
    assert await kept(database, loud) == list(range(1, 11))
    assert await kept(database, quiet) == [5, week - 60]
    assert await kept(database, silent) == []
