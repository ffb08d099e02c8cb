"""Processes whose GRIDFLEET_INGEST_SHARDS differs: between them they read every queue."""

import re
from collections.abc import Sequence
from datetime import timedelta

from pydantic import SecretStr

from gridfleet.amqp.upkeep import keep_broker
from gridfleet.cli.doctor import examination
from gridfleet.cli.doctor.broker import check_broker
from gridfleet.cli.doctor.models import Finding
from gridfleet.domains.ingest.backlog import load_empty_at
from gridfleet.domains.plants.topology import PLANTS_VHOST, count_shards, ingest_queue
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.clock import utc_now
from support.clients.ingest_bench import BenchPlant, moment
from support.servers.ingest_line import SHARDS, Line, all_dealt_with, until
from support.servers.running_task import running


async def publish_to_all(line: Line, plants: Sequence[BenchPlant], number: int = 0) -> None:
    for plant in plants:
        await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": number}}))


async def consumers(line: Line) -> list[int]:
    """Return the number of consumers of each shard's queue."""
    answers = [await line.channel.queue_declare(ingest_queue(shard), passive=True) for shard in range(SHARDS)]
    return [answer.consumer_count or 0 for answer in answers]


async def all_consumed(line: Line) -> bool:
    return await consumers(line) == [1] * SHARDS


async def all_bound(line: Line) -> bool:
    return await count_shards(line.node.management_url) == SHARDS


async def test_ingest_with_a_lower_number_reads_the_queues_that_exist(line: Line) -> None:
    plants = [await line.bench.plant() for _ in range(24)]
    await publish_to_all(line, plants)
    waiting = [await line.channel.queue_declare(ingest_queue(shard), passive=True) for shard in range(SHARDS)]
    assert all(queue.message_count for queue in waiting)

    async with line.worker(ingest_shards=2):
        await until(lambda: all_dealt_with(plants, len(plants)), 20)

    assert [await plant.refusals() for plant in plants] == [[]] * len(plants)


async def test_a_process_that_runs_takes_its_part_of_the_queues_that_another_one_adds(line: Line) -> None:
    plants = [await line.bench.plant() for _ in range(24)]
    await line.node.declare(2)
    async with line.worker(ingest_shards=2):
        await publish_to_all(line, plants)
        await until(lambda: all_dealt_with(plants, len(plants)))
        async with line.worker(ingest_shards=SHARDS):
            await until(lambda: all_bound(line))
            await until(lambda: all_consumed(line), 30)
            await publish_to_all(line, plants, 1)
            await until(lambda: all_dealt_with(plants, 2 * len(plants)))
        await until(lambda: all_consumed(line))
        await publish_to_all(line, plants, 2)
        await until(lambda: all_dealt_with(plants, 3 * len(plants)))


async def test_only_ingest_adds_queues(line: Line) -> None:
    """The gateway declares them only if there are none."""
    await line.node.declare(2)
    settings = line.node.settings.model_copy(
        update={
            "ingest_shards": SHARDS,
            "broker_url": SecretStr(line.node.url),
            "broker_management_url": SecretStr(line.node.management_url),
        }
    )
    async with open_management(line.node.management_url) as management:

        async def has_declared() -> bool:
            return "unrouted" in (await management.policies()).get(PLANTS_VHOST, {})

        await management.delete_policy(PLANTS_VHOST, "unrouted")
        async with running(keep_broker(settings)):
            await until(has_declared)
        found = [name for name in await management.queue_types(PLANTS_VHOST) if name.startswith("gridfleet.ingest.")]
        assert sorted(found) == [ingest_queue(0), ingest_queue(1)]

        for name in found:
            await management.delete_queue(PLANTS_VHOST, name)
        await management.delete_policy(PLANTS_VHOST, "unrouted")
        async with running(keep_broker(settings)):
            await until(has_declared)
        found = [name for name in await management.queue_types(PLANTS_VHOST) if name.startswith("gridfleet.ingest.")]
        assert sorted(found) == [ingest_queue(shard) for shard in range(SHARDS)]


async def test_doctor_names_queues_that_no_process_reads(line: Line) -> None:
    urls = {"broker_url": SecretStr(line.node.url), "broker_management_url": SecretStr(line.node.management_url)}
    examined = examination(line.node.settings.model_copy(update=urls))

    async def finding() -> Finding:
        return {one.check: one for one in await check_broker(examined)}["queues of ingest"]

    assert (await finding()).status == "ok"
    plant = await line.bench.plant()
    await publish_to_all(line, [plant])
    unread = await finding()
    assert unread.status == "fail"
    assert re.fullmatch(r"messages wait that no process reads: gridfleet\.ingest\.\d", unread.found)
    assert "gridfleet ingest" in (unread.remedy or "")
    async with line.worker():
        await until(lambda: all_dealt_with([plant], 1))
        assert (await finding()).status == "ok"


async def test_a_queue_without_a_stored_time_was_empty_when_the_others_were(line: Line) -> None:
    """It was added while the service was stopped, or since the times were last stored."""
    hour_ago = utc_now() - timedelta(hours=1)
    async with line.bench.database.transaction() as db:
        before = int(utc_now().timestamp() * 1000)
        assert await load_empty_at(db, 2) >= before
        await db.execute("INSERT INTO ingest_shard (shard, drained_at) VALUES (0, %s), (1, now())", (hour_ago,))
        assert await load_empty_at(db, 2) == int(hour_ago.timestamp() * 1000)
