"""Records of a fleet."""

from typing import Literal, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.plants.models import Lifecycle, PlantStatus

__all__ = ["Place", "PlacePoint", "PlaceProperties", "Places", "PlacesPage"]


class PlacePoint(msgspec.Struct, frozen=True):
    """A point on the map: longitude and latitude in degrees."""

    type: Literal["Point"]
    coordinates: list[float]


class PlaceProperties(msgspec.Struct, frozen=True, rename="camel"):
    """What a map shows about a plant. `worst_alert` is the highest severity of its alerts that are not resolved."""

    name: str
    status: PlantStatus
    lifecycle_status: Lifecycle
    worst_alert: Severity | None


class Place(msgspec.Struct, frozen=True):
    """A plant with coordinates, as a GeoJSON feature."""

    type: Literal["Feature"]
    id: UUID
    geometry: PlacePoint
    properties: PlaceProperties


class Places(msgspec.Struct, frozen=True, rename="camel"):
    """Plants of a fleet as a GeoJSON feature collection (RFC 7946), by id.

    `total` counts all plants with coordinates, `without_place` those without. `next_cursor` is null on the last page.
    """

    type: Literal["FeatureCollection"]
    total: int
    without_place: int
    next_cursor: UUID | None
    features: list[Place]


class PlacesPage(NamedTuple):
    """A page of places. `features` is the JSON of its features, separated by commas.

    `next_cursor` is the id of the last one, None on the last page.
    """

    total: int
    without_place: int
    next_cursor: UUID | None
    features: str
