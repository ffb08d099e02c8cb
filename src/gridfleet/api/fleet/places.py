"""`/api/v1/fleet/places`."""

from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import Asset, Input, S, endpoint, org_member
from gridfleet.domains.fleet.models import Places
from gridfleet.domains.fleet.places import places_as_geojson
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection

_GEOJSON: Final = "application/geo+json"
MOST_PLACES: Final = 20_000


class PlacesQuery(Input):
    """A page of places."""

    cursor: UUID | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_PLACES)] = MOST_PLACES


@endpoint(
    "GET",
    "/api/v1/fleet/places",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", *S),
    response=Places,
    response_content_types=(_GEOJSON,),
    addition=True,
    tagged=True,
)
async def list_places(org: OrgScope, db: Connection, query: PlacesQuery) -> Asset:
    """List the plants that have coordinates as GeoJSON, with their status and worst open alert."""
    return Asset(_GEOJSON, await places_as_geojson(db, org, query.cursor, query.limit))
