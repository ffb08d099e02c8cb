"""The sub-devices of a plant: create, look up, list."""

import re
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.device_templates.models import DeviceType, TemplateLevel
from gridfleet.domains.plants.errors import ExternalIdTaken, SubDeviceNotFound
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.plants.sub_devices import store
from gridfleet.domains.plants.sub_devices.models import SubDevice, SubDeviceStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["EXTERNAL_ID_PATTERN", "create_sub_device", "get_sub_device", "list_sub_devices"]

EXTERNAL_ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"


async def create_sub_device(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    *,
    external_id: str,
    name: str,
    type: DeviceType,
    serial_number: str | None,
    template_id: UUID | None,
    metadata: dict[str, Any],
) -> SubDevice:
    """A new sub-device. Raises `PlantNotFound`, `ExternalIdTaken`, and `ValidationFailed` for an unfit template."""
    await get_plant(db, org, plant_id)
    if template_id is not None:
        await require_fitting_template(db, template_id, type)
    device = await store.insert(db, org, new_id(), plant_id, external_id, name, type, serial_number, template_id, metadata)
    if device is None:
        raise ExternalIdTaken
    return device


async def require_fitting_template(db: Connection, template_id: UUID, type: DeviceType) -> None:
    """Raises `ValidationFailed` unless the template exists, is of level SUB_DEVICE and of the device's type."""
    template = (await templates_by_id(db, [template_id])).get(template_id)
    if template is None:
        raise ValidationFailed(details=["templateId: there is no such template"])
    if template.level is not TemplateLevel.SUB_DEVICE:
        raise ValidationFailed(details=["templateId: must be a template of level SUB_DEVICE"])
    if template.type is not type:
        raise ValidationFailed(details=[f"templateId: is a template for type {template.type}, not {type}"])


async def get_sub_device(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> SubDevice:
    """One sub-device; raises `SubDeviceNotFound`, also when the plant is absent or hidden from the caller."""
    hidden = org.plant_ids is not None and plant_id not in org.plant_ids
    # A path may hold what no external id, and no text of PostgreSQL, does.
    impossible = re.match(EXTERNAL_ID_PATTERN, external_id) is None
    device = None if hidden or impossible else await store.find(db, org, plant_id, external_id)
    if device is None:
        raise SubDeviceNotFound
    return device


async def list_sub_devices(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    *,
    type: DeviceType | None,
    status: SubDeviceStatus | None,
    search: str | None,
    paging: Paging,
) -> Page[SubDevice]:
    """One page of the plant's sub-devices, newest first; raises `PlantNotFound`."""
    await get_plant(db, org, plant_id)
    return Page.of(
        await store.page(db, org, plant_id, type, status, search, paging),
        await store.count(db, org, plant_id, type, status, search),
        paging,
    )
