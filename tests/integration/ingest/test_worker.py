"""Ingest workers at a real broker: what waited, who works on which shard, what survives their end."""

import asyncio
import contextlib
import signal
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiormq
import pytest

from gridfleet.domains.alerts.rule_cache import RuleCache
from gridfleet.domains.ingest.backlog import load_empty_at, save_empty_at
from gridfleet.domains.ingest.models import Batch, Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.ingest.readers import OwnNamesReader
from gridfleet.domains.plants.topology import INGEST_EXCHANGE, PLANTS_VHOST, UNROUTED_QUEUE, ingest_queue
from gridfleet.domains.telemetry.frames import store
from gridfleet.kernel.broker.connection import vhost_url
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db.leases import open_leases
from gridfleet.kernel.tasks import supervise
from support.clients.ingest_bench import Bench, BenchPlant, moment
from support.clients.raw_properties import STRANGE, STRANGE_HEADERS, RawProperties
from support.servers.ingest_line import SHARDS, Line, all_dealt_with, until
from support.servers.running_task import running

YEAR_MILLISECONDS = 31_536_000_000
"""Longer than this machine has run: the time of the first batch must not count from its start."""


def aged(plant: BenchPlant, number: int, age: timedelta) -> Delivery:
    sent_at = int((datetime.now(UTC) - age).timestamp() * 1000)
    return plant.message({"time": moment(number).isoformat(), "fields": {"a": number}}, sent_at=sent_at)


def numbered(plant: BenchPlant, number: int) -> Delivery:
    return plant.message({"time": moment(number).isoformat(), "fields": {"a": number}})


def note_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the number of messages of each prepared batch is added."""
    sizes: list[int] = []
    prepare = Pipeline.prepare

    async def noted(pipeline: Pipeline, deliveries: Sequence[Delivery]) -> Batch:
        sizes.append(len(deliveries))
        return await prepare(pipeline, deliveries)

    monkeypatch.setattr(Pipeline, "prepare", noted)
    return sizes


async def empty_before(line: Line, age: timedelta) -> None:
    """Store that the queue of every shard was empty so long ago."""
    async with line.bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO ingest_shard (shard, drained_at) SELECT shard, now() - %s FROM generate_series(0, %s) AS shard",
            (age, SHARDS - 1),
        )


async def test_messages_that_waited_without_a_worker_are_not_too_old(line: Line) -> None:
    """They were fresh when they came, half an hour ago; there are more of them than fit into the window."""
    plants = [await line.bench.plant() for _ in range(4)]
    await empty_before(line, timedelta(minutes=30))
    count = 2_500
    for number in range(count):
        await line.publish(aged(plants[number % 4], number, timedelta(minutes=20)))

    async with line.worker():
        await until(lambda: all_dealt_with(plants, count), 40)

    assert [await plant.refusals() for plant in plants] == [[]] * 4
    for first, plant in enumerate(plants):
        assert (await plant.stored())["a"] == {moment(n): n for n in range(first, count, 4)}


async def test_a_message_after_a_pause_is_stored_without_waiting_for_others(line: Line) -> None:
    """Batches begin a year apart, so a message that waits for others is not stored during the test."""
    plant = await line.bench.plant()
    async with line.worker(ingest_batch_milliseconds=YEAR_MILLISECONDS):
        await line.publish(numbered(plant, 0))
        await until(lambda: all_dealt_with([plant], 1))
    assert (await plant.stored())["a"] == {moment(0): 0}


async def test_messages_that_follow_each_other_share_a_batch(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = await line.bench.plant()
    sizes = note_batches(monkeypatch)
    async with line.worker(ingest_batch_milliseconds=5_000):
        await line.publish(numbered(plant, 0))
        await until(lambda: all_dealt_with([plant], 1))
        for number in range(1, 10):
            await line.publish(numbered(plant, number))
        await until(lambda: all_dealt_with([plant], 10))
    assert sizes == [1, 9]


async def test_messages_that_arrive_during_a_write_are_the_next_batch(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared earlier, some of them would wait for this write and the others for one more."""
    plant = await line.bench.plant()
    sizes = note_batches(monkeypatch)
    async with line.worker(ingest_batch_milliseconds=1):
        async with line.bench.database.transaction() as db:
            await db.execute("LOCK TABLE telemetry_latest IN SHARE MODE")  # it can be read
            await line.publish(numbered(plant, 0))
            await line.bench.waiting_for("telemetry_latest")
            for number in range(1, 10):
                await line.publish(numbered(plant, number))
                await until(line.all_delivered)
            assert sizes == [1]
        await until(lambda: all_dealt_with([plant], 10))
    assert sizes == [1, 9]


async def test_a_full_batch_does_not_wait(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that are not full begin a year apart. The window of one shard is half a batch, so several plants publish."""
    plants = [await line.bench.plant() for _ in range(12)]
    sizes = note_batches(monkeypatch)

    async def one_is_full() -> bool:
        return 20 in sizes

    async with line.worker(ingest_batch_milliseconds=YEAR_MILLISECONDS, ingest_batch_messages=20):
        await line.publish(numbered(plants[0], 0))
        await until(lambda: all_dealt_with(plants, 1))
        for number in range(1, 12 * 10):
            await line.publish(numbered(plants[number % 12], number))
        await until(one_is_full)


async def test_a_batch_has_few_bytes_however_many_messages_wait(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 messages of 256 KiB take minutes to read, and the broker closes a connection that is silent for so long."""
    plant = await line.bench.plant()
    count = 60
    for number in range(count):
        snapshot = {"time": moment(number).isoformat(), "fields": {"a": number}, "ignored": "x" * 200_000}
        await line.publish(plant.message(snapshot))
    sizes: list[int] = []
    prepare = Pipeline.prepare

    async def measured(pipeline: Pipeline, deliveries: Sequence[Delivery]) -> Batch:
        sizes.append(sum(len(delivery.body) for delivery in deliveries))
        return await prepare(pipeline, deliveries)

    monkeypatch.setattr(Pipeline, "prepare", measured)
    async with line.worker():
        await until(lambda: all_dealt_with([plant], count))

    assert (await plant.stored())["a"] == {moment(n): n for n in range(count)}
    assert sum(sizes) > count * 200_000
    assert max(sizes) <= 4 * 1024 * 1024


async def test_a_batch_has_few_frames_however_small_its_messages_are(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field is stored with the 200 positions of its layout: 8 bytes became a row that takes 0.09 ms to merge."""
    monkeypatch.setattr("gridfleet.domains.ingest.pipeline.MOST_FRAMES", 100)
    plant = await line.bench.plant()
    await plant.add_device("D", [{"key": f"k{n}", "field": f"n{n}"} for n in range(200)])
    count = 10
    for number in range(count):
        start = moment(number).timestamp() * 1000
        entries = [{"id": "D", "time": start + n, "fields": {f"n{n}": n}} for n in range(60)]
        await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": number}, "devices": entries}))
    sizes: list[int] = []
    prepare = Pipeline.prepare

    async def measured(pipeline: Pipeline, deliveries: Sequence[Delivery]) -> Batch:
        batch = await prepare(pipeline, deliveries)
        sizes.append(len(batch.frames.frames))
        return batch

    monkeypatch.setattr(Pipeline, "prepare", measured)
    async with line.worker():
        await until(lambda: all_dealt_with([plant], count))

    stored = await plant.stored()
    assert stored["a"] == {moment(n): n for n in range(count)}
    assert [len(stored[f"D.k{n}"]) for n in range(60)] == [count] * 60
    assert max(sizes) <= 2 * 61


@pytest.mark.local_tables(reason="the owner of the distributed tables is no superuser")
async def test_a_worker_that_starts_again_reads_plants_again(line: Line) -> None:
    """Notifications of the time between were missed. The connection that receives new ones is slower than the first message."""
    plant = await line.bench.plant()
    late_listener = (
        "CREATE FUNCTION late_listener() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF current_setting('application_name') = 'gridfleet-listen' THEN PERFORM pg_advisory_xact_lock(1); END IF; END $$",
        "CREATE EVENT TRIGGER late_listener ON login EXECUTE FUNCTION late_listener()",
        "ALTER EVENT TRIGGER late_listener ENABLE ALWAYS",
    )
    async with line.process() as worker:
        async with running(worker.run()):
            await line.publish(aged(plant, 1, timedelta(0)))
            await until(lambda: all_dealt_with([plant], 1))
        async with line.bench.database.transaction() as db:
            await db.execute("UPDATE plant SET lifecycle_status = 'DECOMMISSIONED' WHERE id = %s", (plant.id,))
            for statement in late_listener:
                await db.execute(statement.encode())
        async with line.bench.database.transaction() as db:
            await db.execute("SELECT pg_advisory_xact_lock(1)")
            async with running(supervise("worker", worker.run)):
                await line.publish(aged(plant, 2, timedelta(0)))
                await until(lambda: all_dealt_with([plant], 2))
    assert [reason for reason, _ in await plant.refusals()] == ["NOT_PROVISIONED"]
    assert (await plant.stored())["a"] == {moment(1): 1}


async def test_messages_are_taken_after_a_clock_that_was_ahead_is_corrected(line: Line) -> None:
    """The stored time at which the queue was empty is in the future. A message has waited for five minutes."""
    plant = await line.bench.plant()
    await empty_before(line, -timedelta(hours=1))
    await line.publish(aged(plant, 0, timedelta(minutes=5)))

    async with line.worker():
        await until(lambda: all_dealt_with([plant], 1))

    assert await plant.refusals() == []


async def test_a_stored_time_that_is_in_the_future_is_replaced(line: Line) -> None:
    await empty_before(line, -timedelta(hours=1))
    now = datetime.now(UTC)
    async with line.bench.database.transaction() as db:
        await save_empty_at(db, {0: int(now.timestamp() * 1000) - 5_000})
        await save_empty_at(db, {0: int(now.timestamp() * 1000) - 9_000})
        found = await load_empty_at(db, 0)
    assert found == int(now.timestamp() * 1000) - 5_000


async def test_properties_that_cannot_be_decoded_hold_up_nothing(line: Line) -> None:
    """RabbitMQ from 4.0 on makes properties and headers of what an MQTT 5 client sends beside its message."""
    plant = await line.bench.plant()
    strange = [*STRANGE.values(), *STRANGE_HEADERS.values()]
    async with line.worker() as worker:
        for number, raw in enumerate([*strange, None]):
            message = plant.message({"time": moment(number).isoformat(), "fields": {"a": number}})
            properties = None if raw is None else RawProperties(raw)
            await line.channel.basic_publish(
                message.body, exchange="amq.topic", routing_key=message.routing_key, properties=properties
            )
        await until(lambda: all_dealt_with([plant], len(strange) + 1))
        assert not worker.done()
    assert (await plant.stored())["a"] == {moment(number): number for number in range(len(strange) + 1)}


async def test_a_worker_replaces_the_queues_of_its_shards(line: Line) -> None:
    plants = [await line.bench.plant() for _ in range(4)]
    for number in range(100):
        await line.publish(plants[number % 4].message({"time": moment(number).isoformat(), "fields": {"a": number}}))
    try:
        async with line.worker("quorum") as worker:
            await until(lambda: all_dealt_with(plants, 100), 60)
            assert not worker.done()
            async with open_management(line.node.management_url) as management:

                async def replaced() -> bool:
                    """No spare queue is left either: it would take the messages of the tests that follow."""
                    types = await management.queue_types(PLANTS_VHOST)
                    shards = {name: kind for name, kind in types.items() if name.startswith(INGEST_EXCHANGE)}
                    return shards == {ingest_queue(shard): "quorum" for shard in range(SHARDS)}

                await until(replaced, 60)
        assert [await plant.refusals() for plant in plants] == [[]] * 4
    finally:
        for shard in range(SHARDS):
            await line.channel.queue_delete(ingest_queue(shard))
        await line.channel.queue_delete(UNROUTED_QUEUE)


async def test_an_old_message_is_refused_once_the_queue_was_seen_empty(line: Line) -> None:
    plant = await line.bench.plant()
    await empty_before(line, timedelta(minutes=30))
    async with line.worker():
        await line.publish(aged(plant, 1, timedelta(minutes=20)))
        await until(lambda: all_dealt_with([plant], 1))
        assert await plant.refusals() == []  # it cannot be known that it did not wait
        await asyncio.sleep(4)
        await line.publish(aged(plant, 2, timedelta(minutes=20)))
        await until(lambda: all_dealt_with([plant], 2))
    [(reason, _)] = await plant.refusals()
    assert reason == "TIMESTAMP_OUT_OF_WINDOW"


async def test_what_waits_behind_another_consumer_is_not_taken_for_nothing(line: Line) -> None:
    """A worker that hangs may have lost its leases and still be the queue's active consumer."""
    plants = [await line.bench.plant() for _ in range(6)]
    await empty_before(line, timedelta(minutes=30))
    hanging = await (await aiormq.connect(vhost_url(line.node.url, PLANTS_VHOST))).channel()
    await hanging.basic_qos(prefetch_count=1)
    for shard in range(SHARDS):
        await hanging.basic_consume(ingest_queue(shard), lambda _: asyncio.sleep(0))
    for number, plant in enumerate(plants):
        await line.publish(aged(plant, number, timedelta(minutes=20)), aged(plant, number + 10, timedelta(minutes=20)))
    async with line.worker():
        await asyncio.sleep(4)
        await hanging.connection.close()
        await until(lambda: all_dealt_with(plants, 12))
    assert [await plant.refusals() for plant in plants] == [[]] * 6


async def shares(line: Line) -> list[int]:
    """How many shards each worker holds, by the locks."""
    async with line.bench.database.transaction() as db:
        cursor = await db.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY pid ORDER BY 1"
        )
        return [row[0] - 1 for row in await cursor.fetchall()]  # one of its locks counts the member


async def has_shares(line: Line, wanted: list[int]) -> bool:
    return await shares(line) == wanted


async def test_workers_share_the_shards_fairly_and_take_over_from_each_other(line: Line) -> None:
    plants = [await line.bench.plant() for _ in range(12)]
    sent = 0

    async def everyone_speaks() -> None:
        nonlocal sent
        for plant in plants:
            await line.publish(plant.message({"time": moment(sent).isoformat(), "fields": {"a": sent}}))
        sent += 1

    async with line.worker() as first:
        await until(lambda: has_shares(line, [4]))
        await everyone_speaks()
        async with line.worker() as second:
            await until(lambda: has_shares(line, [2, 2]))
            await everyone_speaks()
            async with line.worker():
                await until(lambda: has_shares(line, [1, 1, 2]))
                for _ in range(20):
                    await everyone_speaks()
                first.cancel()
                second.cancel()
                for _ in range(20):
                    await everyone_speaks()
                await until(lambda: has_shares(line, [4]))
                await until(lambda: all_dealt_with(plants, len(plants) * sent))
    for plant in plants:
        assert (await plant.stored())["a"] == {moment(n): n for n in range(sent)}
        assert list((await plant.latest())["a"].values()) == [sent - 1]


async def test_members_of_other_machines_may_have_the_same_process_id(bench: Bench) -> None:
    async with open_leases(bench.database.url, 7, 4) as first:
        async with asyncio.timeout(5):
            async with open_leases(bench.database.url, 7, 4) as second:
                assert (await first.fair_count(), await second.fair_count()) == (2, 2)
        await until(lambda: _is(first.fair_count(), 4))


HOLD_ALL = """
import asyncio, sys
from gridfleet.kernel.db import leases

async def main():
    leases.HANGING_SECONDS = 1
    async with leases.open_leases(sys.argv[1], 7, 4) as own:
        await own.take(4)
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_pieces_of_a_process_that_hangs_are_taken_over_and_not_those_of_one_that_is_busy(bench: Bench) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD_ALL, bench.database.url, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"held\n"
        async with open_leases(bench.database.url, 7, 4) as other:
            await asyncio.sleep(3)
            assert await other.take(4) == set()
            holder.send_signal(signal.SIGSTOP)
            await until(lambda: _is(other.fair_count(), 4))
            assert await other.take(4) == {0, 1, 2, 3}
    finally:
        holder.kill()
        await holder.wait()


@pytest.mark.parametrize(("pieces", "members", "wanted"), [(8, 3, [2, 3, 3]), (8, 5, [1, 1, 2, 2, 2]), (2, 4, [0, 0, 1, 1])])
async def test_shares_differ_by_one_at_most(bench: Bench, pieces: int, members: int, wanted: list[int]) -> None:
    async with contextlib.AsyncExitStack() as open_members:
        found = [await open_members.enter_async_context(open_leases(bench.database.url, 7, pieces)) for _ in range(members)]
        assert sorted([await member.fair_count() for member in found]) == wanted


async def _is(answer: Awaitable[int], wanted: int) -> bool:
    return await answer == wanted


async def test_a_queue_that_was_deleted_comes_back_with_its_consumer(line: Line) -> None:
    """By an operator's mistake: what was in it is gone, what follows must not be."""
    plants = [await line.bench.plant() for _ in range(8)]
    async with _supervised(line):
        await until(lambda: has_shares(line, [4]))
        await line.channel.queue_delete(ingest_queue(1))
        async with asyncio.timeout(15):
            while True:
                probe = await (await aiormq.connect(vhost_url(line.node.url, PLANTS_VHOST))).channel()
                try:
                    if (await probe.queue_declare(ingest_queue(1), passive=True)).consumer_count == 1:
                        break
                except aiormq.exceptions.ChannelNotFoundEntity:
                    pass
                finally:
                    await probe.connection.close()
                await asyncio.sleep(0.2)
        for number, plant in enumerate(plants):
            await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": number}}))
        await until(lambda: all_dealt_with(plants, 8))


@asynccontextmanager
async def _supervised(line: Line) -> AsyncIterator[None]:
    async def keep_working() -> None:
        while True:
            async with line.worker() as working:
                await asyncio.wait({working})

    async with running(keep_working()):
        yield


async def test_what_the_database_refuses_is_refused_alone(line: Line) -> None:
    """Nothing that plants can send is known to do this: the database is made to choke on one value."""
    plants = [await line.bench.plant() for _ in range(3)]
    async with line.bench.database.transaction() as db:
        await db.execute("ALTER TABLE telemetry_frame ADD CONSTRAINT choke CHECK (vals[1] <> 666)")
    count = 90
    for number in range(count):
        value = 666 if number in (7, 40, 41) else number
        snapshot = {"time": moment(number).isoformat(), "fields": {"a": value}}
        await line.publish(plants[number % 3].message(snapshot))
    async with line.worker():
        await until(lambda: all_dealt_with(plants, count), 30)
        await until(lambda: _is(line.waiting(), 0))
    refused = [refusal for plant in plants for refusal in await plant.refusals()]
    assert refused == [("MALFORMED", "the message could not be stored")] * 3
    stored = {at: value for plant in plants for at, value in (await plant.stored())["a"].items()}
    assert stored == {moment(number): number for number in range(count) if number not in (7, 40, 41)}


@pytest.mark.parametrize("stage", ["read", "taken together", "written"])
async def test_what_fails_in_the_process_is_refused_alone(line: Line, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that plants can send is known to do this: a stage is made to choke on one value."""
    plants = [await line.bench.plant() for _ in range(3)]

    def choke(values: object) -> None:
        if "666" in repr(values):
            raise struct.error("poison")

    if stage == "written":
        pack = store.pack_row
        monkeypatch.setattr(store, "pack_row", lambda *row: choke(row[3]) or pack(*row))
    elif stage == "read":
        named = OwnNamesReader.read
        monkeypatch.setattr(OwnNamesReader, "read", lambda reader, fields: choke(fields) or named(reader, fields))
    else:
        examine = RuleCache.examine
        monkeypatch.setattr(
            RuleCache, "examine", lambda rules, frames, now: choke(list(frames.frames.values())) or examine(rules, frames, now)
        )
    count, poison = 90, (7, 40, 41)
    for number in range(count):
        value = 666 if number in poison else number
        status = plants[number % 3].delivery(b'{"status":"ONLINE"}', "status")
        await line.publish(plants[number % 3].message({"time": moment(number).isoformat(), "fields": {"a": value}}), status)
    async with line.worker() as working:
        await until(lambda: all_dealt_with(plants, count), 30)
        await until(lambda: _is(line.waiting(), 0))
        assert not working.done()
    assert [reason for plant in plants for reason, _ in await plant.refusals()] == ["MALFORMED"] * len(poison)
    stored = {at: value for plant in plants for at, value in (await plant.stored())["a"].items()}
    assert stored == {moment(number): number for number in range(count) if number not in poison}
    for plant in plants:
        assert await plant.rows("SELECT status FROM plant WHERE id = %s") == [("ONLINE",)]


async def test_a_plant_deleted_while_its_batch_is_written_takes_nothing_along(line: Line) -> None:
    staying, going = await line.bench.plant(), await line.bench.plant(["D"])
    everything = [
        {
            "time": moment(0).isoformat(),
            "fields": {"a": 0},
            "devices": [{"id": "D", "fields": {"a": 0}}, {"id": "X", "fields": {}}],
        }
    ]
    async with line.worker():
        await line.publish(staying.message(everything), going.message(everything))
        await until(lambda: all_dealt_with([staying, going], 2))
        async with line.bench.database.transaction() as db:
            await db.execute("LOCK TABLE telemetry_latest IN EXCLUSIVE MODE")  # the batch waits here with its frames written
            for number in range(1, 20):
                snapshot = {"time": moment(number).isoformat(), "fields": {"a": number}, "devices": [{"id": "X", "fields": {}}]}
                await line.publish(staying.message(snapshot), going.message(snapshot), going.delivery(b"poison"))
            await asyncio.sleep(0.5)
            await db.execute("DELETE FROM plant WHERE id = %s", (going.id,))
        await until(lambda: all_dealt_with([staying], 20))
        await until(lambda: _is(line.waiting(), 0))
    assert (await staying.stored())["a"] == {moment(number): number for number in range(20)}
    assert await staying.refusals() == []


async def test_a_database_that_goes_away_for_a_moment_is_waited_for(line: Line) -> None:
    plant = await line.bench.plant()
    async with line.worker() as working:
        await until(lambda: _all_consumed(line))  # a worker that loses the database before that is started again
        for number in range(60):
            await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": number}}))
            if number % 20 == 10:
                async with line.bench.database.transaction() as db:
                    await db.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE application_name = 'worker' AND datname = current_database()"
                    )
            await asyncio.sleep(0.02)
        await until(lambda: all_dealt_with([plant], 60), 90)
        assert not working.done()
    assert (await plant.stored())["a"] == {moment(number): number for number in range(60)}
    assert await plant.refusals() == []


async def _all_consumed(line: Line) -> bool:
    answers = [await line.channel.queue_declare(ingest_queue(shard), passive=True) for shard in range(SHARDS)]
    return all(answer.consumer_count == 1 for answer in answers)


BREAK = (
    "CREATE FUNCTION corrupted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " RAISE EXCEPTION 'missing chunk' USING ERRCODE = 'XX001'; END $$",
    "CREATE TRIGGER corrupted BEFORE INSERT ON telemetry_frame FOR EACH ROW EXECUTE FUNCTION corrupted()",
)
REPAIR = (
    # In the order of an INSERT. DROP TRIGGER locks a partition before its table: a deadlock with a batch that is tried again.
    "LOCK TABLE telemetry_frame",
    "DROP TRIGGER corrupted ON telemetry_frame",
    "DROP FUNCTION corrupted",
)
HIDE = ("ALTER TABLE telemetry_latest RENAME TO hidden",)
SHOW = ("ALTER TABLE hidden RENAME TO telemetry_latest",)


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_a_database_that_takes_nothing_is_waited_for_and_costs_nothing(line: Line) -> None:
    """A damaged table, a schema in disorder: no message is to blame for that."""
    plants = [await line.bench.plant() for _ in range(3)]
    async with _supervised(line):
        for number, (harm, cure) in enumerate([(BREAK, REPAIR), (HIDE, SHOW)]):
            await _carry_out(line, harm)
            for plant in plants:
                await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": number}}))
            await asyncio.sleep(1.5)
            await _carry_out(line, cure)
        await until(lambda: all_dealt_with(plants, 6), 30)
    for plant in plants:
        assert await plant.refusals() == []
        assert (await plant.stored())["a"] == {moment(0): 0, moment(1): 1}


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_a_message_that_is_too_long_for_the_database_stands_alone(line: Line) -> None:
    """PostgreSQL counts a limit of its own as its failure, and would have it tried for ever."""
    plant = await line.bench.plant()
    limit = [
        statement.replace("XX001", "54000").replace("BEGIN", "BEGIN IF NEW.vals[1] <> 13 THEN RETURN NEW; END IF;")
        for statement in BREAK
    ]
    await _carry_out(line, limit)
    async with line.worker():
        for number in (12, 13, 14):
            await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": number}}))
        await until(lambda: all_dealt_with([plant], 3), 30)
    assert (await plant.stored())["a"] == {moment(12): 12, moment(14): 14}
    assert len(await plant.refusals()) == 1


async def _carry_out(line: Line, statements: Sequence[str]) -> None:
    async with line.bench.database.transaction() as db:
        for statement in statements:
            await db.execute(statement.encode())
