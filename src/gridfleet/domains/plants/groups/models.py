"""Groups as they are stored, and plants as members of groups."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.domains.plants.models import PlantStatus

__all__ = ["BriefPlant", "PlantGroup", "PlantGroupChanges"]


class PlantGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One group."""

    id: UUID
    organization_id: UUID
    name: str
    description: str | None
    created_at: datetime
    updated_at: datetime


class PlantGroupChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of a PATCH; UNSET members stay as they are."""

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET


class BriefPlant(msgspec.Struct, frozen=True, rename="camel"):
    """A plant in a group."""

    id: UUID
    name: str
    serial_number: str
    status: PlantStatus
