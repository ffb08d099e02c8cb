"""A message whose statements exceed their time is set aside; those of other plants are stored."""

import asyncio
import time

import pytest

from gridfleet.kernel import metrics
from gridfleet.kernel.db import Database
from gridfleet.mqtt.batch_writer import BatchWriter
from support.clients.ingest_bench import Bench, BenchPlant, moment

TOO_LONG = "RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';"
"""What the server raises when it has ended a statement by `statement_timeout`."""
SLOW = 666


@pytest.fixture
def writer(bench: Bench) -> BatchWriter:
    return BatchWriter(bench.database, bench.pipeline)


async def write(writer: BatchWriter, *messages: tuple[BenchPlant, int, float]) -> None:
    """Write one batch: each message reports a value of the metric `a`, and the second of its measurement."""
    deliveries = [
        plant.message({"time": moment(second).isoformat(), "fields": {"a": value}}) for plant, second, value in messages
    ]
    async with asyncio.timeout(60):
        await writer.write(deliveries, await writer.prepare(deliveries))


async def test_the_lag_does_not_stay_while_no_message_arrives(bench: Bench) -> None:
    """A process whose last batch was late, and which got no other, raised the alert as long as others stored messages."""
    plant, writer = await bench.plant(), BatchWriter(bench.database, bench.pipeline, idle_seconds=5.0)

    async def write_late(second: int) -> None:
        content = {"time": moment(second).isoformat(), "fields": {"a": second}}
        deliveries = [plant.message(content, sent_at=int((time.time() - 90) * 1000), message_id=f"m{second}")]
        await writer.write(deliveries, await writer.prepare(deliveries))

    async with asyncio.timeout(60):
        for second in range(3):
            await write_late(second)
            assert 90 <= lag() < 120
            await asyncio.sleep(0.5)
            assert lag() >= 90
        while lag():
            await asyncio.sleep(0.05)


def lag() -> float:
    [sample] = metrics.INGEST_LAG_SECONDS.collect()[0].samples
    return sample.value


async def delay(database: Database, statement: str, table: str = "telemetry_frame") -> None:
    """Execute a statement before each row that a table gets, for frames only if their value is slow."""
    condition = f"IF NEW.vals[1] <> {SLOW} THEN RETURN NEW; END IF;" if table == "telemetry_frame" else ""
    async with database.transaction() as db:
        await db.execute(
            f"CREATE OR REPLACE FUNCTION delay_{table}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {condition} {statement} RETURN NEW; END $$".encode()
        )
        await db.execute(
            f"CREATE OR REPLACE TRIGGER delay BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION delay_{table}()".encode()
        )


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_a_message_that_takes_too_long_is_refused_alone(bench: Bench, writer: BatchWriter) -> None:
    plants = [await bench.plant() for _ in range(3)]
    await delay(bench.database, TOO_LONG)

    await write(writer, *((plants[n % 3], n, SLOW if n == 7 else n) for n in range(30)))

    assert [await plant.refusals() for plant in plants] == [[], [("MALFORMED", "the message could not be stored")], []]
    stored = {at: value for plant in plants for at, value in (await plant.stored())["a"].items()}
    assert stored == {moment(n): n for n in range(30) if n != 7}


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_messages_of_a_slow_plant_come_last_and_take_a_share_of_the_time(bench: Bench, writer: BatchWriter) -> None:
    slow, other = await bench.plant(), await bench.plant()
    await delay(bench.database, TOO_LONG)
    await write(writer, (slow, 0, SLOW), (other, 0, 0))
    async with bench.database.transaction() as db:
        await db.execute("CREATE SEQUENCE tries")  # what sequences count outlives the end of a transaction
        await db.execute("CREATE SEQUENCE stored_before MINVALUE 0")
    await delay(
        bench.database,
        "PERFORM nextval('tries'), setval('stored_before', (SELECT count(*) FROM telemetry_frame)), pg_sleep(30);",
    )

    await write(writer, *((slow, n, SLOW) for n in range(1, 11)), *((other, n, n) for n in range(1, 11)))

    [(tries, stored_before, _)] = await slow.rows("SELECT t.last_value, s.last_value, %s::uuid FROM tries t, stored_before s")
    assert 1 <= tries <= 3  # two seconds each, of five
    assert stored_before == 11
    assert (await other.stored())["a"] == {moment(n): n for n in range(11)}
    assert len(await slow.refusals()) == 11

    await delay(bench.database, "NULL;")
    await write(writer, (slow, 20, 1), (slow, 21, 2))
    assert (await slow.stored())["a"] == {moment(20): 1, moment(21): 2}


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_no_message_is_refused_while_every_statement_takes_too_long(bench: Bench, writer: BatchWriter) -> None:
    plants = [await bench.plant() for _ in range(3)]
    await delay(bench.database, TOO_LONG)
    await delay(bench.database, TOO_LONG, "refused_message")

    writing = asyncio.create_task(write(writer, *((plants[n % 3], n, SLOW) for n in range(9))))
    await asyncio.sleep(2)
    assert not writing.done()
    await delay(bench.database, "NULL;")
    await writing

    assert [await plant.refusals() for plant in plants] == [[], [], []]
    assert [len((await plant.stored())["a"]) for plant in plants] == [3, 3, 3]
