"""The sub-devices of a plant."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import (
    NOT_NULL,
    Call,
    Input,
    Message,
    Metadata,
    PageQuery,
    Pattern,
    S,
    endpoint,
    omitted,
    org_member,
)
from gridfleet.domains.alerts import deletion
from gridfleet.domains.device_templates.models import DeviceType
from gridfleet.domains.plants.sub_devices import registry
from gridfleet.domains.plants.sub_devices.models import SubDevice, SubDeviceChanges, SubDeviceStatus
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page

ExternalId = Annotated[
    str,
    Pattern(registry.EXTERNAL_ID_PATTERN, "must be 1 to 32 letters, digits, - or _, beginning with a letter or digit"),
]


Name = Annotated[str, Field(min_length=1, max_length=255)]
SerialNumber = Annotated[str, Field(max_length=64)]


class SubDeviceFilter(PageQuery):
    """Filter of sub-devices. `search` matches externalId, name and serial number."""

    type: DeviceType | None = None
    status: SubDeviceStatus | None = None
    search: Annotated[str, Field(max_length=255)] | None = None


class NewSubDevice(Input):
    """A sub-device to register."""

    external_id: ExternalId
    name: Name
    type: DeviceType
    serial_number: Annotated[SerialNumber | None, NOT_NULL] = None
    template_id: Annotated[UUID | None, NOT_NULL] = None
    metadata: Metadata = {}


class SubDevicePatch(Input):
    """Changes to a sub-device."""

    name: Name = omitted()
    serial_number: SerialNumber = omitted()
    template_id: UUID = omitted()


@endpoint(
    "GET",
    "/api/v1/plants/{plantId}/sub-devices",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", "PLANT_NOT_FOUND", *S),
)
async def list_sub_devices(org: OrgScope, db: Connection, plant_id: UUID, query: SubDeviceFilter) -> Page[SubDevice]:
    """List the plant's sub-devices, newest first."""
    return await registry.list_sub_devices(
        db, org, plant_id, type=query.type, status=query.status, search=query.search, paging=query.paging
    )


@endpoint(
    "POST",
    "/api/v1/plants/{plantId}/sub-devices",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("VALIDATION_ERROR", "PLANT_NOT_FOUND", "SUB_DEVICE_EXTERNAL_ID_TAKEN", *S),
    success=201,
)
async def create_sub_device(org: OrgScope, db: Connection, plant_id: UUID, body: NewSubDevice) -> SubDevice:
    """Register a sub-device. Its values in the plant's snapshots are stored from now on."""
    return await registry.create_sub_device(
        db,
        org,
        plant_id,
        external_id=body.external_id,
        name=body.name,
        type=body.type,
        serial_number=body.serial_number,
        template_id=body.template_id,
        metadata=body.metadata,
    )


@endpoint(
    "GET",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("INVALID_UUID", "SUB_DEVICE_NOT_FOUND", *S),
)
async def get_sub_device(org: OrgScope, db: Connection, plant_id: UUID, external_id: str) -> SubDevice:
    """Return one sub-device."""
    return await registry.get_sub_device(db, org, plant_id, external_id)


@endpoint(
    "PATCH",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("VALIDATION_ERROR", "SUB_DEVICE_NOT_FOUND", *S),
)
async def update_sub_device(org: OrgScope, db: Connection, plant_id: UUID, external_id: str, body: SubDevicePatch) -> SubDevice:
    """Change a sub-device. Omitted members stay. A new template applies to snapshots that arrive from now on."""
    changes = SubDeviceChanges(body.name, body.serial_number, body.template_id)
    return await registry.update_sub_device(db, org, plant_id, external_id, changes)


@endpoint(
    "DELETE",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("INVALID_UUID", "SUB_DEVICE_NOT_FOUND", *S),
)
async def delete_sub_device(call: Call, org: OrgScope, plant_id: UUID, external_id: str) -> Message:
    """Delete a sub-device. Its history stays readable through its plant.

    Its open alerts of rules with `autoResolve` are resolved.
    """
    await deletion.delete_sub_device(call.state.shares.of(org), org, plant_id, external_id)
    return Message("The sub-device is deleted.")
