"""Views of plants: with the template in lists; a single plant also with its alerts and groups."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from gridfleet.domains.alerts.models import Alert
from gridfleet.domains.device_templates.models import DeviceTemplate
from gridfleet.domains.plants.groups.models import PlantGroup
from gridfleet.domains.plants.models import AuthMethod, Lifecycle, Plant, PlantStatus, PlantType

__all__ = ["PlantDetailed", "PlantView", "detailed", "view"]


class PlantView(msgspec.Struct, frozen=True, rename="camel"):
    """A plant in a list."""

    id: UUID
    organization_id: UUID
    name: str
    serial_number: str
    type: PlantType
    auth_method: AuthMethod
    lifecycle_status: Lifecycle
    status: PlantStatus
    template_id: UUID | None
    template: DeviceTemplate | None
    external_plant_id: str | None
    metadata: dict[str, Any]
    time_zone: str | None
    effective_time_zone: str
    activated_at: datetime | None
    last_seen_at: datetime | None
    last_auth_failure_at: datetime | None
    secret_rotated_at: datetime | None
    certificate_expires_at: datetime | None
    auth_failure_count: int
    certificate_fingerprint: str | None
    certificate_serial_number: str | None
    previous_certificate_valid_until: datetime | None
    created_at: datetime
    updated_at: datetime


class PlantDetailed(PlantView, frozen=True, rename="camel"):
    """A single plant. Powers in kWp, energies in kWh, coordinates in degrees."""

    alerts: list[Alert]
    capacity_kwh: float | None
    config_enabled: bool | None
    description: str | None
    esi_state: str | None
    fve_peak_power_kwp: float | None
    latitude: float | None
    longitude: float | None
    plant_groups: list[PlantGroup]
    plant_with_load: bool | None
    tag: str | None


_LISTED = tuple(name for name in PlantView.__struct_fields__ if name != "template")


def view(plant: Plant, template: DeviceTemplate | None) -> PlantView:
    """Return the view of a plant in a list."""
    return PlantView(template=template, **{name: getattr(plant, name) for name in _LISTED})


def detailed(plant: Plant, template: DeviceTemplate | None, groups: list[PlantGroup], alerts: list[Alert]) -> PlantDetailed:
    """Return the view of a single plant. `alerts` are those not resolved."""
    return PlantDetailed(template=template, alerts=alerts, plant_groups=groups, **msgspec.structs.asdict(plant))
