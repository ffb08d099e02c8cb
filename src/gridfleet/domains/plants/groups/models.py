"""Groups as they are stored, and plants as members of groups."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.domains.plants.models import Lifecycle, PlantStatus

__all__ = ["BriefPlant", "CountedPlantGroup", "GroupMember", "GroupMemberFilter", "PlantGroup", "PlantGroupChanges"]


class PlantGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One group."""

    id: UUID
    organization_id: UUID
    name: str
    description: str | None
    created_at: datetime
    updated_at: datetime


class CountedPlantGroup(PlantGroup, frozen=True, rename="camel"):
    """A group in a list, with the number of its plants that the caller may see."""

    plant_count: int


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


class GroupMember(BriefPlant, frozen=True, rename="camel"):
    """A plant in a page of a group's plants."""

    lifecycle_status: Lifecycle
    last_seen_at: datetime | None
    device_count: int


class GroupMemberFilter(msgspec.Struct, frozen=True):
    """Conditions of a list of a group's plants. None, and an empty set, select all.

    Attributes:
        search: A text in the name or serial number, in upper or lower case.
    """

    statuses: frozenset[PlantStatus] = frozenset()
    search: str | None = None
