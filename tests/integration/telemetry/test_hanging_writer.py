"""An ingest process that hangs in the middle of a batch does not stop the one that takes over its plants."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import FrameBatch, microseconds
from gridfleet.domains.telemetry.frames.writer import Partitions, days_of, write_batch
from gridfleet.kernel.db import Database, open_database
from support.builders.telemetry_records import RecordedPlant

HANGING = "hanging"


@pytest.mark.parametrize("packing", ["pack_row", "pack_latest_row"])
async def test_another_process_writes_what_a_hanging_one_is_copying(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, packing: str
) -> None:
    plant = await RecordedPlant.create(database)
    batch = FrameBatch()
    batch.add(await plant.source(None), await plant.layout(["p"]), microseconds(datetime.now(UTC)), [2.0])
    await Partitions(database).ensure(days_of(batch))
    reached, resumes = threading.Event(), threading.Event()
    pack = getattr(store, packing)

    def pack_slowly(*args: object) -> bytes:
        if threading.current_thread().name.startswith(HANGING):
            reached.set()
            assert resumes.wait(60)
        packed: bytes = pack(*args)
        return packed

    async def write_elsewhere() -> None:
        async with open_database(database_url, name=HANGING, size=1) as other, other.transaction() as db:
            await write_batch(db, batch)

    monkeypatch.setattr(store, packing, pack_slowly)
    with ThreadPoolExecutor(1, thread_name_prefix=HANGING) as threads:
        writing = threads.submit(asyncio.run, write_elsewhere())
        try:
            assert await asyncio.to_thread(reached.wait, 30)
            async with database.transaction() as db:
                await write_batch(db, batch)
        finally:
            resumes.set()
        await asyncio.wrap_future(writing)
    async with database.transaction() as db:
        rows = await (
            await db.execute("SELECT vals FROM telemetry_frame UNION ALL SELECT vals FROM telemetry_latest")
        ).fetchall()
    assert rows == [([2.0],), ([2.0],)]
