"""Looks up sources and layouts by their ids."""

from collections.abc import Iterable
from typing import Final

from gridfleet.domains.telemetry.places import store
from gridfleet.domains.telemetry.places.models import LayoutKeys, SourcePlace
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["layout_keys", "source_places"]

_SYSTEM: Final = SystemScope("ingest must know whose the sources are that it writes")


async def source_places(db: Connection, source_ids: Iterable[int]) -> dict[int, SourcePlace]:
    """The sources by id."""
    return {place.id: place for place in await store.source_places(db, _SYSTEM, list(source_ids))}


async def layout_keys(db: Connection, layout_ids: Iterable[int]) -> dict[int, LayoutKeys]:
    """The layouts' metrics by the layout's id."""
    return {keys.layout_id: keys for keys in await store.layout_keys(db, _SYSTEM, list(layout_ids))}
