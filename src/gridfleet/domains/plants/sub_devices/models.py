"""Sub-devices as they are stored."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.domains.device_templates.models import DeviceType

__all__ = ["SubDevice", "SubDeviceChanges", "SubDeviceStatus"]


class SubDeviceStatus(StrEnum):
    """Status of a sub-device; UNKNOWN until a message of its plant names it, and while its plant is OFFLINE."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    DEGRADED = "DEGRADED"
    UNKNOWN = "UNKNOWN"


class SubDevice(msgspec.Struct, frozen=True, rename="camel"):
    """One sub-device. `serial_number` is for audit only."""

    id: UUID
    organization_id: UUID
    plant_id: UUID
    external_id: str
    name: str
    serial_number: str | None
    template_id: UUID | None
    type: DeviceType
    status: SubDeviceStatus
    metadata: dict[str, Any]
    last_seen_at: datetime | None
    created_at: datetime
    updated_at: datetime


class SubDeviceChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of a PATCH; UNSET members stay as they are."""

    name: str | UnsetType = UNSET
    serial_number: str | UnsetType = UNSET
    template_id: UUID | UnsetType = UNSET
