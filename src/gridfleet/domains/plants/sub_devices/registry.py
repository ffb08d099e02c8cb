"""Create, find, list, change and delete the sub-devices of a plant."""

import re
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET
from psycopg import errors as pg

from gridfleet.domains.audit.differences import differences
from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.device_templates.errors import TemplateNotFound
from gridfleet.domains.device_templates.models import DeviceTemplate, DeviceType, TemplateLevel
from gridfleet.domains.device_templates.roles import former_roles
from gridfleet.domains.plants.commands.expiry import DEVICE_DELETED, end_open_commands
from gridfleet.domains.plants.errors import ExternalIdTaken, PlantNotFound, SubDeviceNotFound
from gridfleet.domains.plants.former_roles import store as roles_store
from gridfleet.domains.plants.refused_messages.records import delete_unregistered_device
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.plants.sub_devices import store
from gridfleet.domains.plants.sub_devices.models import SubDevice, SubDeviceChanges, SubDeviceStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = [
    "EXTERNAL_ID_PATTERN",
    "create_sub_device",
    "delete_sub_device",
    "external_ids",
    "get_sub_device",
    "list_sub_devices",
    "update_sub_device",
]

MOST_OF_PLANT: Final = 10_000
"""The most sub-devices of a plant: ingest reads them together, and other plants wait meanwhile (docs/decisions/0428)."""

MOST_OF_ORGANIZATION: Final = 3_000_000
"""The most sub-devices of an organisation: ingest keeps those of all plants that send in memory (docs/decisions/0428)."""

EXTERNAL_ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"
_UNKNOWN_TEMPLATE: Final = "templateId: there is no such template"


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
    """Register a sub-device.

    Raises:
        PlantNotFound: The plant or the template does not exist; one code covers both in the specification.
        ExternalIdTaken: The plant has a sub-device with this external id.
        ValidationFailed: The template does not fit the sub-device, or the plant or the organisation has too many sub-devices.
    """
    if not await store.hold_plant(db, org, plant_id):
        raise PlantNotFound
    if await store.count(db, org, plant_id, None, None, None) >= MOST_OF_PLANT:
        raise ValidationFailed(details=[f"externalId: the plant has {MOST_OF_PLANT:,} sub-devices, the maximum"])
    if await store.count_of_organization(db, org) >= MOST_OF_ORGANIZATION:
        raise ValidationFailed(details=[f"externalId: the organisation has {MOST_OF_ORGANIZATION:,} sub-devices, the maximum"])
    try:
        if template_id is not None:
            await _require_fitting_template(db, template_id, type)
        device = await store.insert(db, org, new_id(), plant_id, external_id, name, type, serial_number, template_id, metadata)
    except (TemplateNotFound, pg.ForeignKeyViolation):
        # The foreign key is violated when the template is deleted at the same time.
        raise PlantNotFound(TemplateNotFound.message, details=[_UNKNOWN_TEMPLATE]) from None
    if device is None:
        raise ExternalIdTaken
    await delete_unregistered_device(db, org, plant_id, external_id)
    await record_in(db, org, Event.SUB_DEVICE_CREATED, _subject(device), {**_named(device), "type": type})
    return device


async def _require_fitting_template(db: Connection, template_id: UUID, type: DeviceType) -> DeviceTemplate:
    """Return a template that is of level SUB_DEVICE and of the device's type.

    Raises:
        TemplateNotFound: There is no such template.
        ValidationFailed: The template has another level or type.
    """
    template = (await templates_by_id(db, [template_id])).get(template_id)
    if template is None:
        raise TemplateNotFound
    if template.level is not TemplateLevel.SUB_DEVICE:
        raise ValidationFailed(details=["templateId: must be a template of level SUB_DEVICE"])
    if template.type is not type:
        raise ValidationFailed(details=[f"templateId: is a template for type {template.type}, not {type}"])
    return template


async def get_sub_device(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> SubDevice:
    """Return one sub-device.

    Raises:
        SubDeviceNotFound: The sub-device or its plant does not exist or is hidden from the caller.
    """
    device = await store.find(db, org, plant_id, external_id) if _may_exist(org, plant_id, external_id) else None
    if device is None:
        raise SubDeviceNotFound
    return device


async def update_sub_device(
    db: Connection, org: OrgScope, plant_id: UUID, external_id: str, changes: SubDeviceChanges
) -> SubDevice:
    """Change a sub-device and return it. An empty change returns it as it is.

    Raises:
        SubDeviceNotFound: There is no such sub-device.
        ValidationFailed: The template does not exist or does not fit.
    """
    device = await store.lock(db, org, plant_id, external_id) if _may_exist(org, plant_id, external_id) else None
    if device is None:
        raise SubDeviceNotFound
    columns = given(changes)
    if not columns:
        return device
    try:
        if changes.template_id is not UNSET:
            successor = await _require_fitting_template(db, changes.template_id, device.type)
            await _keep_roles(db, org, device, successor)
        updated = await store.update(db, org, device.id, columns)
    except (TemplateNotFound, pg.ForeignKeyViolation):
        raise ValidationFailed(details=[_UNKNOWN_TEMPLATE]) from None
    if changed := differences(device, updated, columns):
        await record_in(db, org, Event.SUB_DEVICE_CHANGED, _subject(device), {"externalId": device.external_id, **changed})
    return updated


async def delete_sub_device(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> None:
    """Delete the sub-device and end its open commands. Its history stays readable through its plant.

    Raises:
        SubDeviceNotFound: There is no such sub-device.
    """
    # The plant first, because its deletion locks commands before sub-devices.
    if not _may_exist(org, plant_id, external_id) or not await store.hold_plant(db, org, plant_id):
        raise SubDeviceNotFound
    device = await store.lock(db, org, plant_id, external_id, to_delete=True)
    if device is None:
        raise SubDeviceNotFound
    await end_open_commands(db, org, plant_id, utc_now(), DEVICE_DELETED, device.id)
    await _keep_roles(db, org, device, None)
    await store.delete(db, org, device.id)
    await record_in(db, org, Event.SUB_DEVICE_DELETED, _subject(device), _named(device))


async def _keep_roles(db: Connection, org: OrgScope, device: SubDevice, successor: DeviceTemplate | None) -> None:
    """Keep the roles that the signals of a device have now: hours until now may be computed again later."""
    template = None
    if device.template_id is not None:
        template = (await templates_by_id(db, [device.template_id])).get(device.template_id)
    roles = former_roles(template, successor, device.external_id)
    await roles_store.keep(db, org, device.plant_id, device.external_id, roles, device.template_id, successor)
    await roles_store.log_energy_after(db, org, device.plant_id, device.external_id, roles)


def _subject(device: SubDevice) -> Subject:
    return Subject(SubjectType.SUB_DEVICE, device.id, device.plant_id)


def _named(device: SubDevice) -> dict[str, str]:
    return {"externalId": device.external_id, "name": device.name}


def _may_exist(org: OrgScope, plant_id: UUID, external_id: str) -> bool:
    """Return whether a query can find the sub-device.

    The plant must not be hidden from the caller. The path must match the pattern of external ids: it may hold characters that
    PostgreSQL does not accept in text.
    """
    hidden = org.plant_ids is not None and plant_id not in org.plant_ids
    return not hidden and re.match(EXTERNAL_ID_PATTERN, external_id) is not None


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
    """Return one page of the plant's sub-devices, newest first.

    Raises:
        PlantNotFound: There is no such plant.
    """
    await get_plant(db, org, plant_id)
    return Page.of(
        await store.page(db, org, plant_id, type, status, search, paging),
        await store.count(db, org, plant_id, type, status, search),
        paging,
    )


async def external_ids(db: Connection, org: OrgScope, plant_id: UUID, type: DeviceType) -> set[str]:
    """Return the external ids of all of the plant's sub-devices of this type.

    Raises:
        PlantNotFound: There is no such plant.
    """
    await get_plant(db, org, plant_id)
    return set(await store.external_ids(db, org, plant_id, type))
