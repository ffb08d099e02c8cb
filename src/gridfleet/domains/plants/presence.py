"""Connectivity of plants and sub-devices: what messages say, and what silence says."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.plants import store
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.mqtt_access import store as mqtt_access
from gridfleet.domains.plants.sub_devices import store as sub_devices
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["DeviceSeen", "PlantSeen", "record_bad_signatures", "record_presence", "sweep_silent"]


class PlantSeen(NamedTuple):
    """A plant spoke at `at`; `interval_seconds` is how often it usually does, if known; `reason` what it said of the status."""

    plant_id: UUID
    at: datetime
    status: PlantStatus
    interval_seconds: float | None
    reason: str | None = None


class DeviceSeen(NamedTuple):
    """A plant spoke of one of its sub-devices."""

    sub_device_id: UUID
    at: datetime
    status: SubDeviceStatus
    interval_seconds: float | None


async def record_presence(
    db: Connection, system: SystemScope, plants: Sequence[PlantSeen], devices: Sequence[DeviceSeen]
) -> None:
    """Writes when who was last seen, and the statuses; sub-devices of plants that went OFFLINE become UNKNOWN."""
    if plants:
        await store.record_presence(db, system, plants)
    if devices:
        await sub_devices.record_presence(db, system, devices)
    if offline := [seen.plant_id for seen in plants if seen.status is PlantStatus.OFFLINE]:
        await sub_devices.forget_status(db, system, offline)


async def record_bad_signatures(db: Connection, system: SystemScope, plant_id: UUID, count: int) -> None:
    """Adds to the plant's `authFailureCount`."""
    await mqtt_access.count_failure(db, system, plant_id, count)


async def sweep_silent(db: Connection, system: SystemScope) -> tuple[int, int]:
    """Marks plants and sub-devices that fell silent; answers how many of each."""
    plants = await store.mark_silent(db, system)
    if plants:
        await sub_devices.forget_status(db, system, plants)
    return len(plants), await sub_devices.mark_silent(db, system)
