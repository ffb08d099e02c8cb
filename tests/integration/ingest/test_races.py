"""What changes while a batch is being read must cost no message."""

import asyncio
from datetime import timedelta

import psycopg
import pytest

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.changes import CHANNEL, ChangePublisher
from gridfleet.domains.plants.presence.records import sweep_silent
from gridfleet.domains.telemetry.frames.store import partition_days
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import open_database
from gridfleet.kernel.db.notifications import received_during
from gridfleet.kernel.ids import new_id
from support.builders.alerting import ago, snapshot
from support.builders.interleaving import until_blocked
from support.clients.ingest_bench import Bench, BenchPlant, moment


async def test_a_plant_struck_out_while_its_batch_is_read_loses_nothing(bench: Bench) -> None:
    known, new = await bench.plant(), await bench.plant()
    await bench.take(known.message({"time": moment(0).isoformat(), "fields": {"a": 1}}))

    reading = asyncio.create_task(
        bench.take(
            known.message({"time": moment(1).isoformat(), "fields": {"a": 2}}),
            new.message({"time": moment(1).isoformat(), "fields": {"a": 2}}),
        )
    )
    while not reading.done():  # a change of the plant is received at every point at which the reading waits
        await asyncio.sleep(0)
        bench.pipeline.plant_cache.invalidate(str(known.id))
        bench.pipeline.plant_cache.invalidate(str(new.id))

    assert (await reading).results == {"accepted": 2}
    assert (await known.stored())["a"] == {moment(0): 1, moment(1): 2}
    assert (await new.stored())["a"] == {moment(1): 2}


async def test_what_was_read_before_a_change_is_not_remembered_after_it(bench: Bench) -> None:
    plant = await bench.plant()
    async with bench.database.transaction() as db:
        await db.execute("LOCK TABLE telemetry_source")  # the reading has seen the devices and waits here for the sources
        reading = asyncio.create_task(bench.take(plant.message({"time": moment(0).isoformat(), "fields": {"a": 1}})))
        await asyncio.sleep(0.3)
        await plant.add_device("NEW")  # invalidates the cache, as the notification would
    await reading

    await bench.take(plant.message({"time": moment(1).isoformat(), "devices": [{"id": "NEW", "fields": {"a": 2}}]}))

    assert (await plant.stored())["NEW.a"] == {moment(1): 2}


async def test_a_device_is_online_again_as_soon_as_its_plant_speaks_of_it(bench: Bench) -> None:
    plant = await bench.plant(["D"])

    def snapshot() -> Delivery:
        return plant.message({"time": moment(0).isoformat(), "devices": [{"id": "D", "fields": {}}]})

    async def status() -> str:
        [(found,)] = await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s")
        return str(found)

    await bench.take(snapshot())
    assert await status() == "ONLINE"
    await bench.take(plant.delivery(b'{"status":"OFFLINE"}', "status"))
    assert await status() == "UNKNOWN"
    await bench.take(snapshot())
    assert await status() == "ONLINE"
    await bench.take(snapshot(), plant.delivery(b'{"status":"OFFLINE"}', "status"), snapshot())
    assert await status() == "UNKNOWN", "of messages that are read together, OFFLINE counts as the newest"
    await bench.take(snapshot())
    assert await status() == "ONLINE"
    await bench.take(
        plant.delivery(b'{"status":"OFFLINE"}', "status"), snapshot(), plant.delivery(b'{"status":"OFFLINE"}', "status")
    )
    assert await status() == "UNKNOWN"


async def test_silence_makes_plants_and_devices_offline(bench: Bench) -> None:
    talker, silent, offline = [await bench.plant(["D", "E"]) for _ in range(3)]
    at = moment(0).isoformat()
    both = [{"id": "D", "fields": {}}, {"id": "E", "fields": {}}]
    for plant in (talker, silent, offline):
        await bench.take(plant.message({"time": at, "devices": both}))
    await bench.take(offline.delivery(b'{"status":"OFFLINE"}', "status"))

    async def statuses(plant: BenchPlant) -> list[str]:
        return [
            *(row[0] for row in await plant.rows("SELECT status FROM plant WHERE id = %s")),
            *(row[0] for row in await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s ORDER BY external_id")),
        ]

    async def pass_by(seconds: int, table: str, where: str) -> None:
        async with bench.database.transaction() as db:
            await db.execute(
                f"UPDATE {table} SET last_seen_at = last_seen_at - %s * interval '1 second' WHERE {where}".encode(), (seconds,)
            )

    async def sweep() -> None:
        async with bench.database.transaction() as db:
            await sweep_silent(db)

    await pass_by(89, "plant", "true")
    await pass_by(89, "sub_device", "true")
    await sweep()
    assert await statuses(talker) == await statuses(silent) == ["ONLINE"] * 3
    await pass_by(2, "plant", f"id = '{silent.id}'")
    await pass_by(2, "sub_device", "external_id = 'E'")
    await sweep()
    assert await statuses(talker) == ["ONLINE", "ONLINE", "OFFLINE"]
    assert await statuses(silent) == ["OFFLINE", "UNKNOWN", "UNKNOWN"]
    assert await statuses(offline) == ["OFFLINE", "UNKNOWN", "UNKNOWN"]
    # A plant that usually speaks every ten minutes may be silent for half an hour.
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant SET usual_interval_seconds = 600 WHERE id = %s", (talker.id,))
    await pass_by(1_700, "plant", f"id = '{talker.id}'")
    await sweep()
    assert (await statuses(talker))[0] == "ONLINE"
    await pass_by(100, "plant", f"id = '{talker.id}'")
    await sweep()
    assert (await statuses(talker))[0] == "OFFLINE"


async def test_a_database_lost_while_a_message_is_read_is_no_fault_of_the_message(bench: Bench) -> None:
    plant = await bench.plant()
    message = plant.message({"time": moment(0).isoformat(), "fields": {"new": 1}})
    async with bench.database.transaction() as db:
        await db.execute("LOCK TABLE telemetry_layout")  # the reading waits here for a place for the new name
        reading = asyncio.create_task(bench.pipeline.prepare([message]))
        await bench.waiting_for("telemetry_layout")
        await db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'telemetry_layout'::regclass AND NOT granted"
        )
        with pytest.raises(psycopg.errors.AdminShutdown):
            await reading
    await bench.take(message)
    assert (await plant.stored())["new"] == {moment(0): 1}
    assert await plant.refusals() == []


@pytest.mark.parametrize("table", ["sub_device", "plant"])
async def test_what_is_deleted_while_it_is_looked_up_does_not_fail_the_batch(bench: Bench, table: str) -> None:
    plant, other = await bench.plant(["BAT1"]), await bench.plant()
    await bench.take(plant.message(snapshot(ago(10), {"a": 1}, BAT1={"soc": 5})))
    bench.pipeline.plant_cache.invalidate_all()
    messages = [
        plant.message(snapshot(ago(5), {"a": 1}, BAT1={"soc": 5})),
        other.message(snapshot(ago(5), {"a": 2})),
    ]
    async with bench.database.transaction() as db:
        await db.execute("SELECT FROM plant WHERE id = %s FOR UPDATE", (plant.id,))
        await db.execute(f"DELETE FROM {table} WHERE {'id' if table == 'plant' else 'plant_id'} = %s".encode(), (plant.id,))
        taking = asyncio.create_task(bench.take(*messages))
        await until_blocked(bench.database)
    await taking
    assert {metric: list(values.values()) for metric, values in (await other.stored()).items()} == {"a": [2]}
    if table == "sub_device":
        assert [len(values) for values in (await plant.stored()).values()] == [2, 1]


@pytest.mark.parametrize("is_known", [False, True], ids=["new plant", "known plant"])
async def test_a_sub_device_deleted_before_it_has_a_source_does_not_fail_the_batch(bench: Bench, is_known: bool) -> None:
    """A failed batch clears the caches of all plants, so one user could slow all of them down by registering and deleting."""
    plant, other, pipeline = await bench.plant(), await bench.plant(), bench.another_process()
    if is_known:
        await bench.take(plant.message(snapshot(ago(10), {"a": 0})), pipeline=pipeline)
    await plant.add_device("BAT1")
    pipeline.plant_cache.note_device(str(plant.id), "BAT1")
    messages = [plant.message(snapshot(ago(5), {"a": 1}, BAT1={"soc": 5})), other.message(snapshot(ago(5), {"a": 2}))]
    async with bench.database.transaction() as db:
        # As a deletion does it. It leaves the plant to others.
        await db.execute("SELECT FROM plant WHERE id = %s FOR KEY SHARE", (plant.id,))
        await db.execute("DELETE FROM sub_device WHERE plant_id = %s", (plant.id,))
        taking = asyncio.create_task(bench.take(*messages, pipeline=pipeline))
        await until_blocked(bench.database)
    await taking
    assert [[*values.values()][-1] for one in (plant, other) for values in (await one.stored()).values()] == [1, 2]
    assert await plant.rows("SELECT external_id FROM unregistered_device WHERE plant_id = %s") == [("BAT1",)]


async def test_a_plant_deleted_while_its_message_is_refused_does_not_fail_the_batch(bench: Bench) -> None:
    going, staying = await bench.plant(), await bench.plant()
    messages = [going.delivery(b"{"), staying.delivery(b"{"), staying.message(snapshot(ago(5), {"a": 2}))]
    for plant in (going, staying):
        await bench.take(plant.message(snapshot(ago(10), {"a": 1})))
    async with bench.database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (going.id,))
        taking = asyncio.create_task(bench.take(*messages))
        await until_blocked(bench.database)
    await taking
    assert [*(await staying.stored())["a"].values()] == [1, 2]
    assert [reason for reason, _ in await staying.refusals()] == ["MALFORMED"]


async def test_caches_may_be_cleared_while_a_partition_is_created(bench: Bench) -> None:
    partitions = bench.pipeline.partitions
    day = utc_now().date() - timedelta(days=399)
    async with bench.database.transaction() as db:
        await db.execute("LOCK TABLE telemetry_frame")
        creating = asyncio.create_task(partitions.ensure([day]))
        await bench.waiting_for("telemetry_frame")
        bench.pipeline.invalidate()
    await creating
    async with bench.database.transaction() as db:
        assert day in await partition_days(db)


async def test_changes_that_wait_when_the_broker_is_lost_are_published_in_the_next_run(bench: Bench) -> None:
    organization_id, plant_id = new_id(), new_id()
    tasks: set[asyncio.Task[None]] = set()
    async with open_database(bench.database.url, name="publisher", size=1) as database:
        publisher = ChangePublisher(database)

        async def run_again() -> None:
            tasks.add(asyncio.create_task(publisher.run()))

        async with database.transaction():  # the publisher waits for the only connection
            publisher.note({organization_id: {plant_id}})
            publishing = asyncio.create_task(publisher.run())
            await asyncio.sleep(0.5)
            publishing.cancel()
            await asyncio.wait({publishing})
        expected = {f"values:{organization_id}:{plant_id}"}
        assert await received_during(bench.database.url, CHANNEL, run_again, expected, 10) == expected
        for task in tasks:
            task.cancel()
