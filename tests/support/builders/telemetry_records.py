"""Telemetry for tests: a plant with sources, and frames written as by the ingest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.energy.recomputation import keep_energy
from gridfleet.domains.telemetry.frames.lookup import load_sources
from gridfleet.domains.telemetry.frames.models import FrameBatch, FrameLayout, microseconds
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache, Partitions, write_batch
from gridfleet.domains.telemetry.history.reading import Reading, Step
from gridfleet.domains.telemetry.rollups.recomputation import close_hour, correct_watermark, roll_up
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization

T = TypeVar("T")


def member(organization_id: UUID, plant_ids: frozenset[UUID] | None = None) -> OrgScope:
    """Return the scope of a member who may read the organisation."""
    caller = UserCaller(new_id(), new_id(), "reader@example.com", "Reader", False, None)
    return OrgScope(organization_id, OrgRole.VIEWER, caller, plant_ids)


def reading_from(database: Database) -> Reading:
    """Return how requests read history without a replica."""

    async def reading(check: Step[Any], read: Step[T]) -> T:
        async with database.transaction() as db:
            await check(db)
            return await read(db)

    return reading


async def work(database: Database) -> None:
    """Close every hour that is over, and do the work of the job that rolls up."""
    await correct_watermark(database)
    while await close_hour(database, timedelta(0)):
        pass
    await roll_up(database)
    await keep_energy(database)


async def allowed() -> None:
    """Confirm that a caller may read further pages."""


async def add_plant(database: Database, organization_id: UUID) -> UUID:
    """Return the id of a new plant without sub-devices."""
    plant_id = new_id()
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
            " VALUES (%s, %s, 'Plant', %s, 'GATEWAY', 'PASSWORD')",
            (plant_id, organization_id, plant_id.hex),
        )
    return plant_id


@dataclass(frozen=True)
class RecordedPlant:
    """A plant whose telemetry a test writes. `device` None is the plant itself."""

    database: Database
    organization_id: UUID
    id: UUID

    @classmethod
    async def create(cls, database: Database) -> "RecordedPlant":
        """Return a new plant in a new organisation."""
        organization = await add_organization(database)
        return cls(database, organization.id, await add_plant(database, organization.id))

    @property
    def org(self) -> OrgScope:
        """Scope that may read the plant."""
        return member(self.organization_id)

    async def add_device(self, external_id: str) -> None:
        """Register a sub-device."""
        async with self.database.transaction() as db:
            await db.execute(
                "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
                " VALUES (%s, %s, %s, %s, %s, 'INVERTER')",
                (new_id(), self.organization_id, self.id, external_id, external_id),
            )

    async def delete_device(self, external_id: str) -> None:
        """Delete a sub-device. Its telemetry remains."""
        async with self.database.transaction() as db:
            await db.execute("DELETE FROM sub_device WHERE plant_id = %s AND external_id = %s", (self.id, external_id))

    async def source(self, device: str | None) -> int:
        """Return the id of the device's source."""
        async with self.database.transaction() as db:
            sources = (await load_sources(db, [self.id]))[self.id]
        return next(source.id for source in sources if source.external_id == device)

    async def layout(self, metrics: Sequence[Metric | str]) -> int:
        """Return the id of a layout. A metric given only by key is in kW and without limits."""
        known = tuple(Metric(metric, "kW") if isinstance(metric, str) else metric for metric in metrics)
        async with self.database.transaction() as db:
            return await LayoutIdCache().id_of(db, FrameLayout(known))

    async def write(
        self,
        device: str | None,
        metrics: Sequence[Metric | str],
        frames: Mapping[datetime, Sequence[float | None]] | Sequence[tuple[datetime, Sequence[float | None]]],
    ) -> None:
        """Store frames of a device in one transaction. `frames` holds values by time, in the order of `metrics`."""
        source_id, layout_id = await self.source(device), await self.layout(metrics)
        batch = FrameBatch()
        for time, values in frames.items() if isinstance(frames, Mapping) else frames:
            batch.add(source_id, layout_id, microseconds(time), values)
        await Partitions(self.database).ensure_for(batch)
        async with self.database.transaction() as db:
            await write_batch(db, batch)
