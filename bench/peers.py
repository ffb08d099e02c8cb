"""The usual way to store telemetry, one row per value, for comparison: the ingest process with another storage step.

`python -m bench.peers executemany` or `copy` consumes, verifies, decodes and acknowledges as `gridfleet ingest` does.
"""

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

import uvloop

from gridfleet.domains.ingest import pipeline
from gridfleet.domains.telemetry.frames.models import FrameBatch, to_datetime
from gridfleet.kernel.db import Connection, open_database
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from gridfleet.mqtt.worker import IngestWorker

__all__ = ["BATCH_MESSAGES", "CREATE_TABLE", "TABLE", "VALUES"]

BATCH_MESSAGES: Final = 250
"""Maximum number of messages in a peer's transaction: tens of thousands of rows. A larger number brings no improvement."""
TABLE: Final = "peer_value"
VALUES: Final = "1"
"""Number of points in a row of the table, as an SQL expression."""
CREATE_TABLE: Final = (
    f"DROP TABLE IF EXISTS {TABLE}; CREATE TABLE {TABLE} (source_id integer, metric_id integer, time timestamptz,"
    " value float8 NOT NULL, PRIMARY KEY (source_id, metric_id, time))"
)


class _Row(NamedTuple):
    source_id: int
    metric_id: int
    time: object
    value: float


def _rows(batch: FrameBatch) -> Iterator[_Row]:
    for (source_id, time, _), values in batch.frames.items():
        moment = to_datetime(time)
        for metric_id, value in enumerate(values):
            if value is not None:
                yield _Row(source_id, metric_id, moment, value)


async def _write_by_executemany(db: Connection, batch: FrameBatch) -> None:
    cursor = db.cursor()
    await cursor.executemany(f"INSERT INTO {TABLE} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING", _rows(batch))


async def _write_by_copy(db: Connection, batch: FrameBatch) -> None:
    cursor = db.cursor()
    async with cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "int4", "timestamptz", "float8"])
        for row in _rows(batch):
            await copy.write_row(row)


async def _run(settings: Settings) -> None:
    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    async with open_database(settings.secret("database_url").get_secret_value(), name="gridfleet-peer", size=4) as database:
        await IngestWorker(settings, database, keyring).run()


if __name__ == "__main__":
    pipeline.write_batch = {"executemany": _write_by_executemany, "copy": _write_by_copy}[sys.argv[1]]  # type: ignore[attr-defined]
    settings = Settings()
    batch = min(BATCH_MESSAGES, settings.ingest_batch_messages)
    uvloop.run(_run(settings.model_copy(update={"ingest_batch_messages": batch})))
