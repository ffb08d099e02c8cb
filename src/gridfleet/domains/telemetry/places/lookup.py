"""Look up sources and layouts by their ids."""

from collections.abc import Iterable

from gridfleet.domains.telemetry.places import store
from gridfleet.domains.telemetry.places.models import LayoutColumns, SourceOwner
from gridfleet.kernel.db import Connection

__all__ = ["layout_columns", "source_owners"]


async def source_owners(db: Connection, source_ids: Iterable[int]) -> dict[int, SourceOwner]:
    """Return the sources by id."""
    return {place.id: place for place in await store.source_owners(db, list(source_ids))}


async def layout_columns(db: Connection, layout_ids: Iterable[int]) -> dict[int, LayoutColumns]:
    """Return the metrics of layouts by the layout's id."""
    return {keys.layout_id: keys for keys in await store.layout_columns(db, list(layout_ids))}
