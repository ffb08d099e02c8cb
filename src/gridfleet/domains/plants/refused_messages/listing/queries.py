"""List refused messages and unregistered devices over all plants."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from gridfleet.domains.plants.refused_messages.listing import store
from gridfleet.domains.plants.refused_messages.models import PlantRefusedMessage, PlantUnregisteredDevice, RefusedFilter
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import MOST_COUNTED, CursorPage, CursorPaging, TimeKey

__all__ = ["DeviceKey", "list_refused_messages", "list_unregistered_devices"]

# PostgreSQL has no text with the character 0.
DeviceKey = tuple[Annotated[datetime, msgspec.Meta(tz=True)], UUID, Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*\Z")]]
"""The key of an unregistered device: when it was first seen, its plant and its external id."""


async def list_refused_messages(
    db: Connection, org: OrgScope, which: RefusedFilter, paging: CursorPaging[TimeKey]
) -> CursorPage[PlantRefusedMessage]:
    """Return one page of the refused messages of the organisation's plants, newest first."""
    messages = await store.page_messages(db, org, which, paging)
    total = await store.count_messages(db, org, which, MOST_COUNTED)
    return CursorPage.of([((message.received_at, message.id), message) for message in messages], total, paging)


async def list_unregistered_devices(
    db: Connection, org: OrgScope, which: RefusedFilter, paging: CursorPaging[DeviceKey]
) -> CursorPage[PlantUnregisteredDevice]:
    """Return one page of the unregistered devices of the organisation's plants, most recently discovered first."""
    devices = await store.page_devices(db, org, which, paging)
    total = await store.count_devices(db, org, which, MOST_COUNTED)
    return CursorPage.of(
        [((device.first_seen_at, device.plant_id, device.external_id), device) for device in devices], total, paging
    )
