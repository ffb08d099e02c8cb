"""Presence of plants and sub-devices, from their messages and from missing messages."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.partner_events.changes import publish_status_changes
from gridfleet.domains.plants import store as registered
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.mqtt_access import store as mqtt_access
from gridfleet.domains.plants.presence import store
from gridfleet.domains.plants.sub_devices import store as sub_devices
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.kernel.db import Connection, Database

__all__ = [
    "DeviceSeen",
    "PlantSeen",
    "lock_seen_before",
    "record_bad_signatures",
    "record_presence",
    "sweep_all_silent",
    "sweep_silent",
]

_PLANTS_AT_ONCE: Final = 100
_DEVICES_AT_ONCE: Final = 1_000


class PlantSeen(NamedTuple):
    """A message of a plant.

    Attributes:
        at: When it was read.
        status: The plant's status that follows from it.
        interval_seconds: The plant's usual interval; None if unknown.
        reason: The plant's own reason for the status.
        sent_at: When it was sent, by the service's clock. None for status messages, which are read in the order in which they
            were sent; other messages of a plant come through other queues.
        request_id: The request id of the message.
    """

    plant_id: UUID
    at: datetime
    status: PlantStatus
    interval_seconds: float | None
    reason: str | None = None
    sent_at: datetime | None = None
    request_id: str | None = None


class DeviceSeen(NamedTuple):
    """A sub-device that occurred in a message of its plant.

    Attributes:
        at: When the message was read.
        status: The sub-device's status that follows from it.
        interval_seconds: The sub-device's usual interval; None if unknown.
    """

    sub_device_id: UUID
    at: datetime
    status: SubDeviceStatus
    interval_seconds: float | None


async def record_presence(
    db: Connection, plants: Collection[PlantSeen], devices: Collection[DeviceSeen], *, hold: Collection[UUID] = ()
) -> set[UUID]:
    """Write when plants and sub-devices were last seen, and their statuses; publish the changes of plants' statuses.

    Sub-devices of plants that go OFFLINE become UNKNOWN. A message that a plant sent before it went OFFLINE does not set it to
    ONLINE.

    Args:
        hold: Plants whose sub-devices, unregistered devices or commands the transaction locks. They are locked first, because
            the deletion and the move of a plant lock the plant first too.

    Returns:
        The plants that stay unchanged, because they went OFFLINE after their message or do not exist.
    """
    written, changes = await store.record_presence(db, plants) if plants else ([], [])
    if others := set(hold).difference(written):
        await registered.hold_many(db, others)
    await publish_status_changes(db, changes)
    offline = [seen.plant_id for seen in plants if seen.status is PlantStatus.OFFLINE]
    if devices or offline:
        await sub_devices.lock_many(db, [seen.sub_device_id for seen in devices], offline)
    if devices:
        await sub_devices.record_presence(db, devices)
    if offline:
        await sub_devices.invalidate_status(db, offline)
    return {seen.plant_id for seen in plants}.difference(written)


async def lock_seen_before(db: Connection, times: Mapping[UUID, datetime]) -> dict[UUID, datetime]:
    """Lock the ACTIVE plants that were last seen before these times, and return when that was."""
    return await store.lock_seen_before(db, times)


async def record_bad_signatures(db: Connection, counts: Mapping[UUID, int], seen: Collection[UUID]) -> None:
    """Add numbers of bad signatures to the `authFailureCount` of plants.

    Args:
        counts: The number of each plant.
        seen: Plants whose presence the transaction writes later. All are locked here in one order, because another ingest
            process may write the same plants.
    """
    await registered.lock_many(db, {*counts, *seen})
    await mqtt_access.count_failures(db, counts)


async def sweep_silent(db: Connection, most_plants: int | None = None, most_devices: int | None = None) -> tuple[int, int]:
    """Mark plants and sub-devices that no longer send as OFFLINE: up to the given numbers, or all.

    Returns:
        The numbers of plants and of changed sub-devices.
    """
    plants, changes = await store.mark_silent(db, most_plants)
    await publish_status_changes(db, changes)
    if plants:
        await sub_devices.invalidate_status(db, plants)
    return len(plants), await sub_devices.mark_silent(db, most_devices)


async def sweep_all_silent(database: Database) -> None:
    """Mark all plants and sub-devices that no longer send as OFFLINE, in short transactions.

    All plants of a large fleet may go silent at once. In one transaction, they would all stay locked: an ingest batch with a
    message of one that sends again would wait, and a statement could take too long, again at each run.
    """
    more = True
    while more:
        async with database.transaction() as db:
            plants, devices = await sweep_silent(db, _PLANTS_AT_ONCE, _DEVICES_AT_ONCE)
        more = plants == _PLANTS_AT_ONCE or devices == _DEVICES_AT_ONCE
