"""Records of the sandbox ESM."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.protocol.time_blocks import TimeBlock

__all__ = [
    "EsiState",
    "IssuedCredentials",
    "NewSandboxPlant",
    "PlanResponse",
    "Reading",
    "SandboxPlant",
    "SandboxPlantChanges",
]


class EsiState(StrEnum):
    """State of a plant's controller at the ESM."""

    PLC_READY = "PLC_READY"
    PLC_OFFLINE = "PLC_OFFLINE"
    MAINTENANCE = "MAINTENANCE"
    UNKNOWN = "UNKNOWN"


class IssuedCredentials(msgspec.Struct, frozen=True):
    """A client's credentials. The secret is stored nowhere in plain text."""

    client_id: str
    client_secret: str


class SandboxPlant(msgspec.Struct, frozen=True, rename="camel"):
    """A simulated plant. Capacity in kWh, peak power in kWp; `version` rises with every plan."""

    id: UUID
    client_id: str
    external_plant_id: str
    name: str
    description: str | None
    capacity_kwh: float
    fve_peak_power_kwp: float
    config_enabled: bool
    plant_with_load: bool
    esi_state: EsiState
    time_configs: list[TimeBlock]
    version: int
    created_at: datetime
    updated_at: datetime


class NewSandboxPlant(msgspec.Struct, frozen=True):
    """A plant to create."""

    client_id: str
    external_plant_id: str
    name: str
    description: str | None
    capacity_kwh: float
    fve_peak_power_kwp: float
    config_enabled: bool
    time_configs: tuple[TimeBlock, ...]


class SandboxPlantChanges(msgspec.Struct, frozen=True):
    """The members to change; those left out stay as they are."""

    name: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    capacity_kwh: float | UnsetType = UNSET
    fve_peak_power_kwp: float | UnsetType = UNSET
    config_enabled: bool | UnsetType = UNSET
    esi_state: EsiState | UnsetType = UNSET
    time_configs: tuple[TimeBlock, ...] | UnsetType = UNSET


class PlanResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The sandbox's response to a plan."""

    request_code: str
    result_code: str
    message: str
    is_error: bool
    is_terminal: bool
    version: int


class Reading(msgspec.Struct, frozen=True):
    """Energy in kWh that a meter counted in the `interval` minutes from `time` on; negative into the grid."""

    time: datetime
    meter_id: str
    interval: int
    energy: float
