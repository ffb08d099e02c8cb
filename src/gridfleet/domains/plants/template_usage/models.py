"""Users of a device template."""

import msgspec

from gridfleet.domains.plants.groups.models import BriefPlant
from gridfleet.kernel.pagination import CursorPage

__all__ = ["TemplateUsage", "TemplateUser"]


class TemplateUser(BriefPlant, frozen=True, rename="camel"):
    """A plant that uses a template: itself, or `device_count` of its sub-devices do."""

    uses_itself: bool
    device_count: int


class TemplateUsage(msgspec.Struct, frozen=True, rename="camel"):
    """How many plants and sub-devices of the organisation use a template, and one page of the plants."""

    plant_count: int
    device_count: int
    plants: CursorPage[TemplateUser]
