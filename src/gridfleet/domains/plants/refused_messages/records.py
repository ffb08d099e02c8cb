"""Store, list and trim refused messages and unregistered devices."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.refused_messages import store
from gridfleet.domains.plants.refused_messages.models import RefusedMessage, UnregisteredDevice, UnregisteredSeen
from gridfleet.domains.plants.registry import get_plant
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.batches import in_batches
from gridfleet.kernel.pagination import Page, Paging

__all__ = [
    "MAX_PER_PLANT",
    "MAX_UNREGISTERED",
    "MAX_UNREGISTERED_FIELDS",
    "delete_unregistered_device",
    "list_refused_messages",
    "list_unregistered_devices",
    "record_refused_messages",
    "record_unregistered_devices",
    "trim_refused_messages",
    "trim_unregistered_devices",
]

MAX_AGE: Final = timedelta(days=7)
MAX_AHEAD: Final = timedelta(minutes=5)
"""How far clocks of processes may differ. Messages of a later time were received while a clock was wrong."""
MAX_PER_PLANT: Final = 1_000
MAX_UNREGISTERED: Final = 2 * MAX_PER_PLANT
MAX_UNREGISTERED_AGE: Final = timedelta(days=30)
MAX_UNREGISTERED_FIELDS: Final = 50
"""Maximum number of names of an unregistered device's fields: enough to recognise its template, and at most 3 kB."""


async def record_refused_messages(db: Connection, messages: Sequence[tuple[UUID, RefusedMessage]]) -> None:
    """Store refused messages: of one plant, at most 1,000 a minute. `trim_refused_messages` deletes the surplus later.

    Args:
        messages: (plant, message).
    """
    if messages:
        now = max(message.received_at for _, message in messages)
        await store.insert_refused(db, messages, now - timedelta(minutes=1), now + MAX_AHEAD, MAX_PER_PLANT)


async def record_unregistered_devices(db: Connection, unregistered: Sequence[UnregisteredSeen]) -> None:
    """Store unregistered devices, at most 2,000 of one plant. A plant that names more sends invented ids.

    `trim_unregistered_devices` later deletes all but 1,000.
    """
    await store.record_unregistered_devices(db, unregistered, MAX_UNREGISTERED)


async def list_refused_messages(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> Page[RefusedMessage]:
    """Return one page of a plant's refused messages, newest first.

    Raises:
        PlantNotFound: There is no such plant.
    """
    await get_plant(db, org, plant_id)
    return Page.of(await store.page_refused(db, org, plant_id, paging), await store.count_refused(db, org, plant_id), paging)


async def list_unregistered_devices(db: Connection, org: OrgScope, plant_id: UUID) -> list[UnregisteredDevice]:
    """Return the unregistered devices in the plant's snapshots.

    Raises:
        PlantNotFound: There is no such plant.
    """
    await get_plant(db, org, plant_id)
    return await store.list_unregistered_devices(db, org, plant_id)


async def delete_unregistered_device(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> None:
    """Delete the record of an unregistered device that is registered now.

    A batch of snapshots at the same time may write it again. Lists leave it out, and trimming deletes it.
    """
    await store.delete_unregistered_device(db, org, plant_id, external_id)


async def trim_refused_messages(database: Database, max_per_plant: int = MAX_PER_PLANT) -> int:
    """Delete refused messages older than a week, and those beyond the newest 1,000 of a plant. Returns their number.

    Those of the future, from a clock that was ahead, are deleted first: otherwise they would be the newest.

    Runs in short transactions: one statement would take too long after a flood, and fail again each time while more arrive.
    """
    count = await in_batches(database, partial(store.delete_early_refused, ahead=MAX_AHEAD))
    count += await in_batches(database, partial(store.delete_old_refused, max_age=MAX_AGE))
    async with database.transaction() as db:
        plants = await store.newest_surplus(db, max_per_plant)
    for newest in plants:
        count += await in_batches(database, partial(store.delete_surplus, newest=newest))
    return count


async def trim_unregistered_devices(database: Database) -> int:
    """Delete unregistered devices that were not seen for 30 days, and keep only the 1,000 of each plant that were seen last.

    Runs in short transactions, as `trim_refused_messages`. Returns the number of deleted devices.
    """
    count = await in_batches(database, partial(store.delete_old_devices, max_age=MAX_UNREGISTERED_AGE))
    async with database.transaction() as db:
        plants = await store.plants_with_surplus_devices(db, MAX_PER_PLANT)
    for plant_id in plants:
        surplus = partial(store.delete_surplus_devices, plant_id=plant_id, max_per_plant=MAX_PER_PLANT)
        count += await in_batches(database, surplus)
    return count
