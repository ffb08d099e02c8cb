"""Plants as they are stored."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "AuthMethod",
    "EsmFacts",
    "Lifecycle",
    "OwnPlace",
    "Plant",
    "PlantChanges",
    "PlantStatus",
    "PlantToImport",
    "PlantType",
]


class PlantType(StrEnum):
    """The kind of a plant's controller."""

    SENSOR = "SENSOR"
    ACTUATOR = "ACTUATOR"
    GATEWAY = "GATEWAY"
    CONTROLLER = "CONTROLLER"


class AuthMethod(StrEnum):
    """How a plant authenticates to the broker."""

    MTLS = "MTLS"
    TOKEN = "TOKEN"  # noqa: S105 - a method, not a secret
    PASSWORD = "PASSWORD"  # noqa: S105 - a method, not a secret


class Lifecycle(StrEnum):
    """PENDING → ACTIVE ⇄ SUSPENDED; DECOMMISSIONED is final."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    DECOMMISSIONED = "DECOMMISSIONED"


class PlantStatus(StrEnum):
    """Presence; UNKNOWN until the plant is first seen."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"
    UNKNOWN = "UNKNOWN"


class Plant(msgspec.Struct, frozen=True):
    """One plant. Powers in kW(p), energies in kWh. The members `capacity_kwh` to `tag` come from the linked ESM.

    Users may set `latitude`, `longitude` and `tag` to other values. `time_zone` is None for that of the organisation;
    `effective_time_zone` is the one that counts.
    """

    id: UUID
    organization_id: UUID
    name: str
    serial_number: str
    type: PlantType
    auth_method: AuthMethod
    lifecycle_status: Lifecycle
    status: PlantStatus
    template_id: UUID | None
    external_plant_id: str | None
    metadata: dict[str, Any]
    activated_at: datetime | None
    last_seen_at: datetime | None
    last_auth_failure_at: datetime | None
    auth_failure_count: int
    secret_rotated_at: datetime | None
    certificate_expires_at: datetime | None
    certificate_fingerprint: str | None
    certificate_serial_number: str | None
    previous_certificate_valid_until: datetime | None
    capacity_kwh: float | None
    config_enabled: bool | None
    description: str | None
    esi_state: str | None
    fve_peak_power_kwp: float | None
    latitude: float | None
    longitude: float | None
    plant_with_load: bool | None
    tag: str | None
    time_zone: str | None
    effective_time_zone: str
    created_at: datetime
    updated_at: datetime


class PlantChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of a PATCH; UNSET members stay as they are."""

    name: str | UnsetType = UNSET
    serial_number: str | UnsetType = UNSET
    type: PlantType | UnsetType = UNSET
    auth_method: AuthMethod | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    external_plant_id: str | UnsetType | None = UNSET
    template_id: UUID | UnsetType | None = UNSET
    organization_id: UUID | UnsetType = UNSET
    latitude: float | UnsetType | None = UNSET
    longitude: float | UnsetType | None = UNSET
    tag: str | UnsetType | None = UNSET
    time_zone: str | UnsetType | None = UNSET


class OwnPlace(NamedTuple):
    """What users set about a plant's place; None where the ESM's value or the organisation's time zone counts.

    Coordinates are in degrees, and there are both or none.
    """

    latitude: float | None = None
    longitude: float | None = None
    tag: str | None = None
    time_zone: str | None = None


class PlantToImport(msgspec.Struct, frozen=True):
    """A plant from one row of an imported file; `row` is the number of the row."""

    row: int
    name: str
    serial_number: str
    type: PlantType
    auth_method: AuthMethod
    external_plant_id: str | None
    template_id: UUID | None
    metadata: dict[str, Any]
    place: OwnPlace


class EsmFacts(NamedTuple):
    """A plant as its ESM describes it: capacity in kWh, peak power in kWp, coordinates in degrees. Named like the columns."""

    capacity_kwh: float | None
    fve_peak_power_kwp: float | None
    config_enabled: bool | None
    description: str | None
    esi_state: str | None
    latitude: float | None
    longitude: float | None
    plant_with_load: bool | None
    tag: str | None
