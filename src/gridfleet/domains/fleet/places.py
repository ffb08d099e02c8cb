"""The places of a fleet, for a map."""

from uuid import UUID

from gridfleet.domains.fleet import store
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["places_as_geojson"]


async def places_as_geojson(db: Connection, org: OrgScope, after: UUID | None, limit: int) -> bytes:
    """Return up to `limit` of the plants that have coordinates, by id, as the GeoJSON of `Places`.

    Args:
        after: The `nextCursor` of the page before; None for the first page.
        limit: The most features.
    """
    page = await store.places(db, org, after, limit)
    cursor = "null" if page.next_cursor is None else f'"{page.next_cursor}"'
    return (
        f'{{"type":"FeatureCollection","total":{page.total},"withoutPlace":{page.without_place},"nextCursor":{cursor},'
        f'"features":[{page.features}]}}'
    ).encode()
