"""What is kept of refused messages, and of unregistered devices."""

from datetime import timedelta
from uuid import UUID

from gridfleet.domains.plants.refused_messages.models import RefusedMessage, UnregisteredSeen
from gridfleet.domains.plants.refused_messages.records import (
    list_refused_messages,
    record_refused_messages,
    record_unregistered_devices,
    trim_refused_messages,
    trim_unregistered_devices,
)
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database, limit_statements
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.envelope import RefusalReason
from support.builders.accounts import add_organization
from support.builders.large_changes import end_large_changes
from support.builders.telemetry_records import add_plant, member


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
    assert await trim_refused_messages(database, 10) == 43
    assert await trim_refused_messages(database, 10) == 0
    assert await kept(database, loud) == list(range(1, 11))
    assert await kept(database, quiet) == [5, week - 60]
    assert await kept(database, silent) == []


async def test_a_flood_is_trimmed_in_many_statements(database: Database) -> None:
    """The surplus of many plants for ten minutes, or of few while no jobs ran, takes longer than a statement may."""
    organization = await add_organization(database)
    plants = [await add_plant(database, organization.id) for _ in range(2)]
    for plant in plants:
        await refuse(database, plant, *range(4_000), *range(700_000, 702_000))
    await end_large_changes(database, "refused_message", 1_000)

    assert await trim_refused_messages(database) == 2 * (3_000 + 2_000)

    for plant in plants:
        assert await kept(database, plant) == list(range(1_000))


async def test_refusals_after_a_clock_that_was_ahead_are_listed(database: Database) -> None:
    """Those of the next day counted as newer, so those of the present were not stored, or were deleted first."""
    organization = await add_organization(database)
    plant = await add_plant(database, organization.id)
    await refuse(database, plant, *range(-86_400, -85_400))
    message = RefusedMessage(new_id(), utc_now(), "", RefusalReason.MALFORMED, "-", None, 1)
    async with database.transaction() as db:
        await record_refused_messages(db, [(plant, message)])
    assert await trim_refused_messages(database) == 1_000
    async with database.transaction() as db:
        page = await list_refused_messages(db, member(organization.id), plant, Paging())
    assert [one.id for one in page.data] == [message.id]


async def test_refusals_are_limited_while_a_clock_is_ahead(database: Database) -> None:
    organization = await add_organization(database)
    plant, ahead = await add_plant(database, organization.id), utc_now() + timedelta(days=1)
    await refuse(database, plant, *[-86_400] * 999)
    messages = [RefusedMessage(new_id(), ahead, "", RefusalReason.MALFORMED, "-86400", None, 1) for _ in range(2)]
    async with database.transaction() as db:
        await record_refused_messages(db, [(plant, message) for message in messages])
    assert len(await kept(database, plant)) == 1_000


async def test_a_plant_that_invents_devices_fills_no_table(database: Database) -> None:
    organization = await add_organization(database)
    inventive, usual = [await add_plant(database, organization.id) for _ in range(2)]
    now = utc_now()
    async with database.transaction() as db:
        seen = [
            UnregisteredSeen(inventive, f"D{number:04}", now - timedelta(seconds=number // 2), 1, []) for number in range(1_300)
        ]
        await record_unregistered_devices(db, [*seen, UnregisteredSeen(usual, "D", now - timedelta(days=29), 1, [])])
    assert await trim_unregistered_devices(database) == 300
    assert await trim_unregistered_devices(database) == 0
    async with database.transaction() as db:
        cursor = await db.execute("SELECT plant_id, count(*), max(external_id) FROM unregistered_device GROUP BY 1")
        assert set(await cursor.fetchall()) == {(inventive, 1_000, "D0999"), (usual, 1, "D")}


async def test_trimming_waits_for_no_device_that_a_batch_records_again(database: Database) -> None:
    """Waiting, with other devices deleted, could end in a deadlock with the batch, which may record these next."""
    organization = await add_organization(database)
    plant, now = await add_plant(database, organization.id), utc_now()
    async with database.transaction() as db:
        await record_unregistered_devices(
            db, [UnregisteredSeen(plant, name, now - timedelta(days=31), 1, []) for name in ("A", "B")]
        )
    async with database.transaction() as batch:
        await record_unregistered_devices(batch, [UnregisteredSeen(plant, "B", now, 1, [])])
        assert await trim_unregistered_devices(database) == 1
        await record_unregistered_devices(batch, [UnregisteredSeen(plant, "A", now, 1, [])])
    assert await trim_unregistered_devices(database) == 0


async def test_devices_that_many_plants_invent_are_trimmed_in_many_statements(database: Database) -> None:
    """In one statement, those of 30 plants took longer than a statement may, and so the devices of all plants stayed."""
    organization = await add_organization(database)
    plants = [await add_plant(database, organization.id) for _ in range(10)]
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO unregistered_device (plant_id, organization_id, external_id, first_seen_at, last_seen_at, count)"
            " SELECT plant, %s, 'D' || n, now(), now() - (n %% 1500) * interval '1 second'"
            " - CASE WHEN n > 1500 THEN interval '31 days' ELSE '0 s' END, 1"
            " FROM unnest(%s::uuid[]) AS plant, generate_series(1, 2000) AS n",
            (organization.id, plants),
        )
    await end_large_changes(database, "unregistered_device", 1_000)

    with limit_statements(5):
        assert await trim_unregistered_devices(database) == 10 * 1_000

    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT count(*), min(last_seen_at) > now() - interval '20 minutes' FROM unregistered_device GROUP BY plant_id"
        )
        assert await cursor.fetchall() == [(1_000, True)] * 10
