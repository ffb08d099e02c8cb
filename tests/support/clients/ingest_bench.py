"""The ingest pipeline on the test's own database without a broker: plants, their messages, and stored values."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gridfleet.domains.ingest.models import Batch, Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.envelope import sign_message
from support.builders.accounts import add_organization

Values = dict[str, dict[datetime, float]]


@dataclass
class Bench:
    """A pipeline and its plants."""

    database: Database
    keyring: Keyring = field(default_factory=lambda: Keyring.parse(Keyring.generate()))
    pipeline: Pipeline = field(init=False)
    _holder: Pipeline = field(init=False)
    """The pipeline that holds the plants' shard."""

    def __post_init__(self) -> None:
        self.pipeline = self._holder = self.another_process()

    def another_process(self) -> Pipeline:
        """Return a pipeline with empty caches, as after a restart."""
        return Pipeline(self.database, self.keyring, window_seconds=600)

    async def plant(
        self, devices: Sequence[str] = (), plant_id: UUID | None = None, organization_id: UUID | None = None
    ) -> "BenchPlant":
        """Return a new ACTIVE plant with sub-devices that have no template, by default of a new organisation."""
        organization_id = organization_id or (await add_organization(self.database)).id
        plant = BenchPlant(self, organization_id, plant_id or new_id())
        async with self.database.transaction() as db:
            await db.execute(
                "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
                " VALUES (%s, %s, 'Plant', %s, 'GATEWAY', 'PASSWORD', 'ACTIVE')",
                (plant.id, organization_id, plant.id.hex),
            )
            await db.execute(
                "INSERT INTO plant_secret (plant_id, key_version, hmac_secret) VALUES (%s, 1, %s)",
                (plant.id, self.keyring.encrypt(plant.key, table="plant_secret", column="hmac_secret", row_id=plant.id)),
            )
        for external_id in devices:
            await plant.add_device(external_id)
        return plant

    async def waiting_for(self, table: str) -> None:
        """Return once a transaction waits for a lock on the table."""
        async with asyncio.timeout(60), self.database.autocommit() as db:
            while True:
                cursor = await db.execute("SELECT FROM pg_locks WHERE relation = %s::regclass AND NOT granted", (table,))
                if await cursor.fetchone() is not None:
                    return
                await asyncio.sleep(0.01)

    async def take(self, *deliveries: Delivery, pipeline: Pipeline | None = None) -> Batch:
        """Process one batch from bytes to committed rows."""
        pipeline = pipeline or self.pipeline
        if pipeline is not self._holder:
            pipeline.plant_cache.note_shard_taken()
            self._holder = pipeline
        batch = await pipeline.prepare(deliveries)
        async with self.database.transaction() as db:
            await pipeline.store(db, batch)
        return batch


@dataclass
class BenchPlant:
    """A plant that signs with `key`."""

    bench: Bench
    organization_id: UUID
    id: UUID
    key: bytes = bytes(range(32))

    async def add_device(self, external_id: str, signals: list[dict[str, Any]] | None = None) -> UUID | None:
        """Register a sub-device, with a template of these signals if given. Returns the id of the template or None."""
        template_id = None
        async with self.bench.database.transaction() as db:
            if signals is not None:
                template_id = new_id()
                await db.execute(
                    "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
                    " VALUES (%s, %s, 'INVERTER', 'SUB_DEVICE', 1, %s, '[]')",
                    (template_id, template_id.hex, Jsonb(signals)),
                )
            await db.execute(
                "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, template_id)"
                " VALUES (%s, %s, %s, %s, %s, 'INVERTER', %s)",
                (new_id(), self.organization_id, self.id, external_id, external_id, template_id),
            )
        self.bench.pipeline.plant_cache.invalidate(str(self.id))
        return template_id

    def message(
        self, payload: object, *, channel: str = "telemetry", sent_at: int | None = None, message_id: str = "m"
    ) -> Delivery:
        """Return a signed message as the broker delivers it."""
        content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        now = int(time.time() * 1000)
        topic = f"v1/plants/{self.id}/{channel}"
        body = sign_message(self.key, topic, message_id, now if sent_at is None else sent_at, content)
        return self.delivery(body, channel)

    def delivery(self, body: bytes, channel: str = "telemetry") -> Delivery:
        """Return a delivery of any bytes on one of the plant's topics."""
        return Delivery(f"v1.plants.{self.id}.{channel}", body, int(time.time() * 1000) - 60_000)

    async def stored(self) -> Values:
        """Return every stored value by metric (`{device}.{key}`, the plant's own by key) and time."""
        return await self._values(
            "SELECT s.external_id, l.metrics, f.vals, array_fill(f.time, ARRAY[cardinality(f.vals)]) FROM telemetry_frame f"
            " JOIN telemetry_source s ON s.id = f.source_id JOIN telemetry_layout l ON l.id = f.layout_id WHERE s.plant_id = %s"
        )

    async def latest(self) -> Values:
        """Return the newest values by metric and time."""
        return await self._values(
            "SELECT s.external_id, l.metrics, t.vals, coalesce(t.times, array_fill(t.time, ARRAY[cardinality(t.vals)]))"
            " FROM telemetry_latest t JOIN telemetry_source s ON s.id = t.source_id"
            " JOIN telemetry_layout l ON l.id = t.layout_id WHERE s.plant_id = %s"
        )

    async def refusals(self) -> list[tuple[str, str]]:
        """Return (reason, detail) of the plant's refused messages in order."""
        return await self.rows("SELECT reason, detail FROM refused_message WHERE plant_id = %s ORDER BY received_at, id")

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about this plant."""
        async with self.bench.database.transaction() as db:
            return await (await db.execute(query.encode(), (self.id,))).fetchall()

    async def _values(self, query: str) -> Values:
        found: Values = {}
        for device, metrics, values, times in await self.rows(query):
            for metric, value, moment in zip(metrics, values, times, strict=True):
                if value is not None:
                    name = f"{device}.{metric}" if device else metric
                    assert moment not in found.setdefault(name, {}), f"{name} is stored twice at {moment}"
                    found[name][moment] = value
        return found


def moment(seconds: int) -> datetime:
    """Return a time `seconds` (up to an hour) after a start one to two hours ago, which is the same for the whole run."""
    assert seconds <= 3600, "the time can be in the future, and ingest refuses it in the first minutes of each hour"
    return datetime.fromtimestamp(_START + seconds, UTC)


_START = int(time.time()) // 3600 * 3600 - 3600
