"""Thousands of refusals: 3 kB of a plant can be a message with a thousand bad snapshots."""

from gridfleet.domains.plants.refused_messages.records import record_refused_messages
from support.clients.ingest_bench import Bench, moment

GOOD = {"time": moment(0).isoformat(), "fields": {"good": 1}}


async def test_a_batch_has_few_refusals_however_many_bad_snapshots_a_message_has(bench: Bench) -> None:
    """Hundreds of such messages in one batch could not be written within the 30 s of a statement, each time again."""
    plant, neighbour = await bench.plant(), await bench.plant()
    batch = await bench.take(*[plant.message([0] * 999 + [GOOD])] * 15, neighbour.message([0]))
    assert (batch.message_count, batch.results) == (10, {"accepted": 10, "malformed": 9_990})
    assert len(batch.refused) == 1_000
    assert await plant.rows("SELECT count(*) FROM refused_message WHERE plant_id = %s") == [(1_000,)]


async def test_the_room_for_refused_messages_is_counted_once(bench: Bench) -> None:
    """Counted for each message, a plant with a thousand refused messages took 0.8 ms for each further one."""
    plant = await bench.plant()
    for count in (990, 20):
        batch = await bench.pipeline.prepare([plant.message([0] * count)])
        async with bench.database.transaction() as db:
            await record_refused_messages(db, batch.refused)
            cursor = await db.execute(
                "SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'refused_message'"
            )
            [scans] = await cursor.fetchone() or []
        assert scans < 10
    assert await plant.rows("SELECT count(*) FROM refused_message WHERE plant_id = %s") == [(1_000,)]


async def test_a_batch_has_few_unregistered_devices_of_a_plant(bench: Bench) -> None:
    """The 152,000 of 4 MiB took 7 to 11 s to record, in which the messages of all plants waited; 2,000 of them were stored."""
    plant, neighbour = await bench.plant(), await bench.plant()
    messages = []
    for number in range(3):
        devices = [{"id": f"{number}-{n}", "fields": {}} for n in range(900)]
        messages.append(plant.message({"time": moment(0).isoformat(), "devices": [*devices, {"id": "0-7", "fields": {}}]}))
    batch = await bench.take(*messages, neighbour.message({**GOOD, "devices": [{"id": "x", "fields": {}}]}))
    assert {plant_id: len(own) for plant_id, own in batch.unregistered.items()} == {plant.id: 2_000, neighbour.id: 1}
    assert await plant.rows("SELECT count(*), max(count) FROM unregistered_device WHERE plant_id = %s") == [(2_000, 4)]
    assert await neighbour.rows("SELECT external_id FROM unregistered_device WHERE plant_id = %s") == [("x",)]
