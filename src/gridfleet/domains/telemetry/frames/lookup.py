"""Look up sources and layouts."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import LayoutColumns, Source, SourceLayout, SourceOwner
from gridfleet.kernel.db import Connection

__all__ = [
    "count_own_names",
    "count_used_names",
    "layout_columns",
    "load_device_sources",
    "load_sources",
    "source_owners",
    "used_layouts",
]


async def load_sources(db: Connection, plant_ids: Sequence[UUID]) -> dict[UUID, list[Source]]:
    """Return the sources of these plants and their sub-devices; create missing ones."""
    await store.ensure_sources(db, plant_ids)
    return await store.sources(db, plant_ids)


async def load_device_sources(db: Connection, named: Mapping[UUID, Iterable[str]]) -> dict[UUID, list[Source]]:
    """Return the sources of the sub-devices that exist, by plant; create missing ones.

    Args:
        named: External ids by plant.
    """
    names = [(plant_id, name) for plant_id, own in named.items() for name in own]
    await store.ensure_device_sources(db, names)
    return await store.device_sources(db, names)


async def used_layouts(db: Connection, source_ids: Sequence[int]) -> dict[int, list[SourceLayout]]:
    """Return every layout without units, limits and scales that each source has used, oldest first: those of its own names.

    A layout of a template gives its metrics a meaning that the device's own values do not have.
    """
    await store.complete_own_scalings(db, source_ids)
    return await store.used_layouts(db, source_ids)


async def count_used_names(db: Connection, source_ids: Sequence[int]) -> dict[int, int]:
    """Return the number of names in the layouts that `used_layouts` returns, by source. Sources without names are left out."""
    return await store.count_used_names(db, source_ids)


async def count_own_names(db: Connection, plant_id: UUID, since: datetime) -> int:
    """Return the number of names in layouts without units and limits that sources without a template have used since then."""
    return await store.count_own_names(db, plant_id, since)


async def source_owners(db: Connection, source_ids: Iterable[int]) -> dict[int, SourceOwner]:
    """Return the sources by id."""
    return {owner.id: owner for owner in await store.source_owners(db, list(source_ids))}


async def layout_columns(db: Connection, layout_ids: Iterable[int]) -> dict[int, LayoutColumns]:
    """Return the metrics of layouts by the layout's id."""
    return {keys.layout_id: keys for keys in await store.layout_columns(db, list(layout_ids))}
