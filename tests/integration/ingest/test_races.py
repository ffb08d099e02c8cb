"""What changes while a batch is being read must cost no message."""

import asyncio

from ingest_bench import Bench, moment


async def test_a_plant_struck_out_while_its_batch_is_read_loses_nothing(bench: Bench) -> None:
    known, new = await bench.plant(), await bench.plant()
    await bench.take(known.message({"time": moment(0).isoformat(), "fields": {"a": 1}}))

    reading = asyncio.create_task(
        bench.take(
            known.message({"time": moment(1).isoformat(), "fields": {"a": 2}}),
            new.message({"time": moment(1).isoformat(), "fields": {"a": 2}}),
        )
    )
    while not reading.done():  # a change of the plant is heard of at every point at which the reading waits
        await asyncio.sleep(0)
        bench.pipeline.book.forget(str(known.id))
        bench.pipeline.book.forget(str(new.id))

    assert (await reading).results == {"accepted": 2}
    assert (await known.stored())["a"] == {moment(0): 1, moment(1): 2}
    assert (await new.stored())["a"] == {moment(1): 2}


async def test_what_was_read_before_a_change_is_not_remembered_after_it(bench: Bench) -> None:
    plant = await bench.plant()
    async with bench.database.transaction() as db:
        await db.execute("LOCK TABLE telemetry_source")  # the reading has seen the devices and waits here for the sources
        reading = asyncio.create_task(bench.take(plant.message({"time": moment(0).isoformat(), "fields": {"a": 1}})))
        await asyncio.sleep(0.3)
        await plant.add_device("NEW")  # tells the book, as the notification would
    await reading

    await bench.take(plant.message({"time": moment(1).isoformat(), "devices": [{"id": "NEW", "fields": {"a": 2}}]}))

    assert (await plant.stored())["NEW.a"] == {moment(1): 2}
