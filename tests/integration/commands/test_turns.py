"""Many waiting commands of one organisation beside those of another."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from gridfleet.domains.plants.commands.delivery import claim_due, record_published
from gridfleet.domains.plants.commands.sending import store as sending
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.queries import fetch_value
from support.clients.commands_at_work import add_commandable, issue, row
from support.clients.ingest_bench import Bench, BenchPlant


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


async def commandable(bench: Bench) -> BenchPlant:
    plant = await bench.plant()
    await add_commandable(plant)
    return plant


async def move_to(plant: BenchPlant, organization_id: UUID) -> None:
    """Give the plant to the organisation."""
    async with plant.bench.database.transaction() as db:
        await db.execute("UPDATE plant SET organization_id = %s WHERE id = %s", (organization_id, plant.id))


async def claimed(bench: Bench, limit: int) -> list[UUID]:
    """Claim commands; return their plants in the order of issue."""
    async with bench.database.transaction() as db:
        return [one.command.plant_id for one in await claim_due(db, bench.keyring, datetime.now(UTC), limit)]


async def test_organisations_take_turns(bench: Bench) -> None:
    """Thousands of steps of one organisation begin at the same quarter of an hour: the only step of another came after them."""
    plants = [await commandable(bench) for _ in range(6)]
    for plant in plants[1:5]:
        await issue(plant)
        await move_to(plant, plants[0].organization_id)
    await issue(plants[5])
    assert await claimed(bench, 2) == [plants[1].id, plants[5].id]
    assert await claimed(bench, 2) == [plants[2].id, plants[3].id]


async def test_an_emergency_is_the_first_of_its_organisation(bench: Bench) -> None:
    plants = [await commandable(bench) for _ in range(3)]
    for plant in plants:
        command = await issue(plant)
        await move_to(plant, plants[0].organization_id)
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant_command SET type = 'EMERGENCY' WHERE id = %s", (command,))
    assert await claimed(bench, 1) == [plants[2].id]


async def test_organisations_take_turns_when_their_plants_have_connected(bench: Bench) -> None:
    """After an outage of the broker all plants of an organisation connect, and a thousand commands wait for each of them."""
    first, second, third, other = [await commandable(bench) for _ in range(4)]
    commands = {plant.id: [await issue(plant) for _ in range(2)] for plant in (first, second, third, other)}
    for plant in (second, third):
        await move_to(plant, first.organization_id)
    start = datetime.now(UTC)
    for _ in range(2):
        await sent(bench, start, 4)
    for plant in (first, second, third, other):
        await bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))

    turns = []
    for _ in range(2):
        async with bench.database.transaction() as db:
            await sending.wake(db, start, start, start, most_plants=10, most_commands=3)
        turns.append([plant for plant, own in commands.items() if await are_due(bench, own, start)])
    assert turns[0] == [first.id, other.id]
    assert turns[1] == list(commands)
    assert await sent(bench, start, 100) == [one for own in commands.values() for one in own]


async def test_an_organisation_whose_plants_connected_first_leaves_turns_to_others(bench: Bench) -> None:
    """With a thousand commands for each of its plants, one is made due at a time, and another organisation waited for all."""
    *plants, other = [await commandable(bench) for _ in range(31)]
    for plant in plants:
        await issue(plant)
        await move_to(plant, plants[0].organization_id)
    command = await issue(other)
    start = datetime.now(UTC) + timedelta(seconds=1)
    assert len(await sent(bench, start, 31)) == 31
    for plant in (*plants, other):
        await bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
    claims = 0
    while not await are_due(bench, [command], start):
        claims += 1
        async with bench.database.transaction() as db:
            await sending.wake(db, start, start, start, most_plants=10, most_commands=1)
    # Each of two organisations is the first of a claim with the same probability.
    assert claims <= 20


async def test_commands_that_were_not_sent_wait_for_the_turn_of_their_plant(bench: Bench) -> None:
    """Those that were sent before may have been lost with the session, and must not be executed after them."""
    plants = [await commandable(bench) for _ in range(3)]
    lost = [await issue(plant) for plant in plants]
    start = datetime.now(UTC)
    assert await sent(bench, start, 3) == lost
    for plant in plants:
        await bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
        await issue(plant)
        await move_to(plant, plants[0].organization_id)
    async with bench.database.transaction() as db:
        await sending.wake(db, start, start, start, most_plants=1, most_commands=1)
        now, hold = datetime.now(UTC), timedelta(seconds=5)
        plant_ids = await sending.plants_to_claim(db, now, hold, 10)
        claimed = await sending.claim(db, now, plant_ids, hold, timedelta(minutes=2), 10)
    assert [one.id for one in claimed] == lost[:1]


async def test_a_sender_is_not_called_again_for_plants_that_another_one_wakes(bench: Bench) -> None:
    """It counted the commands of the same plants, made none due, and notified itself, until the other sender committed."""
    plants = await connected(bench, 3)
    start = datetime.now(UTC)
    async with await psycopg.AsyncConnection.connect(bench.database.url, autocommit=True) as listener:
        await listener.execute("LISTEN plant_command_due")
        async with bench.database.transaction() as db:
            await sending.wake(db, start, start, start, most_plants=3, most_commands=1)
            async with bench.database.transaction() as other:
                await other.execute("SET LOCAL enable_seqscan = off")
                before = await scans_of_commands(other)
                await sending.wake(other, start, start, start, most_plants=3, most_commands=1)
                assert await scans_of_commands(other) == before
            assert await notices(listener) == 0
        assert await notices(listener) == 1
    assert await due_plants(bench, plants, start) == [0]


async def test_senders_wake_different_plants_at_once(bench: Bench) -> None:
    plants = await connected(bench, 3)
    start = datetime.now(UTC)
    async with bench.database.transaction() as db, bench.database.transaction() as other:
        for sender in (db, other):
            await sending.wake(sender, start, start, start, most_plants=1, most_commands=1)
    assert await due_plants(bench, plants, start) == [0, 1]


async def test_a_sender_is_not_called_again_while_the_commands_that_it_wakes_are_locked(bench: Bench) -> None:
    """It would wake the same plant each time, because that one connected first."""
    plants = await connected(bench, 2)
    start = datetime.now(UTC)
    async with await psycopg.AsyncConnection.connect(bench.database.url, autocommit=True) as listener:
        await listener.execute("LISTEN plant_command_due")
        async with bench.database.transaction() as db:
            await db.execute("SELECT FROM plant_command WHERE plant_id = %s FOR UPDATE", (plants[0][0].id,))
            async with bench.database.transaction() as other:
                await sending.wake(other, start, start, start, most_plants=10, most_commands=1)
            assert await notices(listener) == 0
    assert await due_plants(bench, plants, start) == []


async def test_a_sender_does_not_wait_for_a_plant_that_is_being_moved_or_deleted(bench: Bench) -> None:
    """It waited for the plant with the plant's commands locked, for which the move waited: a deadlock."""
    held, other = [await commandable(bench) for _ in range(2)]
    for plant in (held, other):
        await issue(plant)
    async with bench.database.transaction() as db:
        due = await claim_due(db, bench.keyring, datetime.now(UTC), 2)
        await record_published(db, datetime.now(UTC), [(one.command, False) for one in due], None)
    for plant in (held, other):
        await bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
    async with bench.database.transaction() as db:
        await db.execute("SELECT FROM plant WHERE id = %s FOR UPDATE", (held.id,))
        assert await claimed(bench, 2) == [other.id]
    assert await claimed(bench, 2) == [held.id]


async def connected(bench: Bench, count: int) -> list[tuple[BenchPlant, UUID]]:
    """Return plants of one organisation that have just connected, one after another, and the sent command of each."""
    plants = [await commandable(bench) for _ in range(count)]
    commands = [await issue(plant) for plant in plants]
    assert await sent(bench, datetime.now(UTC), count) == commands
    for plant in plants:
        await move_to(plant, plants[0].organization_id)
        await bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
    return list(zip(plants, commands, strict=True))


async def due_plants(bench: Bench, plants: list[tuple[BenchPlant, UUID]], at: datetime) -> list[int]:
    """Return the positions of the plants whose commands are due."""
    return [position for position, (_, command) in enumerate(plants) if await are_due(bench, [command], at)]


async def notices(listener: psycopg.AsyncConnection) -> int:
    """Return how many notifications arrived since the last call."""
    return len([notice async for notice in listener.notifies(timeout=0.2)])


async def sent(bench: Bench, at: datetime, limit: int) -> list[UUID]:
    """Claim commands and record that they were sent; return them."""
    async with bench.database.transaction() as db:
        claimed = await claim_due(db, bench.keyring, at, limit)
        await record_published(db, at, [(one.command, True) for one in claimed], None)
    return [one.command.id for one in claimed]


async def are_due(bench: Bench, commands: list[UUID], at: datetime) -> bool:
    return all([(await row(bench.database, one, "due_at"))[0] <= at for one in commands])


async def test_a_claim_does_not_read_every_command_that_waits(bench: Bench) -> None:
    """It is repeated each second and after each new command. 60,000 commands of absent plants took 0.3 s each time."""
    scans: list[int] = []
    for count in (2, 40):
        plant = await commandable(bench)
        for _ in range(count):
            await issue(plant)
        assert plant.id in await claimed(bench, 10)
        async with bench.database.transaction() as db:
            await db.execute("SET LOCAL enable_seqscan = off")
            before = await scans_of_commands(db)
            now, hold = datetime.now(UTC), timedelta(seconds=5)
            assert await sending.plants_to_claim(db, now, hold, 10) == []
            assert await sending.claim(db, now, [plant.id], hold, timedelta(minutes=2), 10) == []
            scans.append(await scans_of_commands(db) - before)
    assert scans[1] < scans[0] + 10, scans


async def scans_of_commands(db: Connection) -> int:
    """Return the number of scans of the table's indexes that the connection has not reported yet."""
    return int(await fetch_value(db, "SELECT idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'plant_command'"))
