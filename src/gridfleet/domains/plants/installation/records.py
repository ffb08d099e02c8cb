"""Keep and show refused messages and sightings."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.installation import store
from gridfleet.domains.plants.installation.models import RefusedMessage, Sighting
from gridfleet.domains.plants.registry import get_plant
from gridfleet.kernel.caller import OrgScope, SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging

__all__ = [
    "list_refused_messages",
    "list_unregistered_devices",
    "record_refused_messages",
    "record_sightings",
    "trim_refused_messages",
    "trim_sightings",
]

MAX_AGE: Final = timedelta(days=7)
MAX_PER_PLANT: Final = 1_000
MAX_SIGHTING_AGE: Final = timedelta(days=30)


async def record_refused_messages(db: Connection, system: SystemScope, messages: Sequence[tuple[UUID, RefusedMessage]]) -> None:
    """Keeps (plant, message): of a plant that floods a thousand a minute, until `trim_refused_messages` comes."""
    if messages:
        since = max(message.received_at for _, message in messages) - timedelta(minutes=1)
        await store.insert_refused(db, system, messages, since, MAX_PER_PLANT)


async def record_sightings(db: Connection, system: SystemScope, sightings: Sequence[tuple[UUID, str, datetime, int]]) -> None:
    """Keeps (plant, external id, seen at, how often), of a plant two thousand devices until `trim_sightings` comes: more are
    invented."""
    await store.record_sightings(db, system, sightings, 2 * MAX_PER_PLANT)


async def list_refused_messages(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> Page[RefusedMessage]:
    """One page of a plant's refused messages, newest first; raises `PlantNotFound`."""
    await get_plant(db, org, plant_id)
    return Page.of(await store.page_refused(db, org, plant_id, paging), await store.count_refused(db, org, plant_id), paging)


async def list_unregistered_devices(db: Connection, org: OrgScope, plant_id: UUID) -> list[Sighting]:
    """Devices the plant speaks of that are not registered; raises `PlantNotFound`."""
    await get_plant(db, org, plant_id)
    return await store.list_sightings(db, org, plant_id)


async def trim_refused_messages(db: Connection, system: SystemScope) -> int:
    """Keeps a week and a thousand a plant; answers how many were dropped."""
    return await store.trim_refused(db, system, MAX_AGE, MAX_PER_PLANT)


async def trim_sightings(db: Connection, system: SystemScope) -> int:
    """Forgets devices that their plant has not named for a month, and of more than a thousand those that it named longest
    ago; answers how many."""
    return await store.trim_sightings(db, system, MAX_SIGHTING_AGE, MAX_PER_PLANT)
