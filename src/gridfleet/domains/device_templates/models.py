"""Templates, their signals and actions, as they are stored and returned."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "Action",
    "ActionParameter",
    "DeviceTemplate",
    "DeviceType",
    "ParameterType",
    "Severity",
    "Signal",
    "SignalKind",
    "SignalRole",
    "TemplateChanges",
    "TemplateLevel",
]

KEY = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
FIELD = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"

Key = Annotated[str, msgspec.Meta(pattern=KEY, description="a letter, then up to 63 letters, digits, _ or -")]
Field = Annotated[str, msgspec.Meta(pattern=FIELD, description="a letter, then up to 63 letters, digits, _, - or .")]
Label = Annotated[str, msgspec.Meta(max_length=120)]
Unit = Annotated[str, msgspec.Meta(max_length=20)]


class DeviceType(StrEnum):
    """The kind of a sub-device."""

    CABINET = "CABINET"
    METER = "METER"
    INVERTER = "INVERTER"
    BATTERY = "BATTERY"


class TemplateLevel(StrEnum):
    """Whether a template describes the fields of a plant or of a sub-device."""

    PLANT = "PLANT"
    SUB_DEVICE = "SUB_DEVICE"


class Severity(StrEnum):
    """How serious a binary signal, an alert or a notification is, ascending."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    EMERGENCY = "EMERGENCY"


class SignalKind(StrEnum):
    """A gauge rises and falls; a counter only rises until it is reset."""

    GAUGE = "gauge"
    COUNTER = "counter"


class SignalRole(StrEnum):
    """What a numeric signal is in its plant.

    Positive power is produced by PV, charges the battery, is taken from the grid, or is consumed.
    """

    PV_POWER = "pv_power"
    BATTERY_POWER = "battery_power"
    GRID_POWER = "grid_power"
    LOAD_POWER = "load_power"
    SOC = "soc"
    SOH = "soh"
    ENERGY_PRODUCED = "energy_produced"
    ENERGY_IMPORTED = "energy_imported"
    ENERGY_EXPORTED = "energy_exported"
    ENERGY_CHARGED = "energy_charged"
    ENERGY_DISCHARGED = "energy_discharged"


class Signal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One metric: numeric (`field`: raw × scale + offset) or binary (`bit` of the integer field `word`)."""

    key: Key
    field: Field | UnsetType = UNSET
    bit: Annotated[int, msgspec.Meta(ge=0, le=63)] | UnsetType = UNSET
    word: Field | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    unit: Unit | UnsetType = UNSET
    scale: float | UnsetType = UNSET
    offset: float | UnsetType = UNSET
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    kind: SignalKind | UnsetType = UNSET
    role: SignalRole | UnsetType = UNSET
    symbols: dict[str, Label] | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    invert: bool | UnsetType = UNSET


class ParameterType(StrEnum):
    """Type of an action's parameter."""

    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    STRING = "string"
    ENUM = "enum"


class ActionParameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A typed parameter of an action; limits in the parameter's unit."""

    name: Key
    type: ParameterType
    unit: Unit | UnsetType = UNSET
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    max_length: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | UnsetType = msgspec.field(default=UNSET, name="maxLength")
    enum: Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    required: bool = True


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command that devices of this template support."""

    action: Annotated[str, msgspec.Meta(pattern=KEY)]
    label: Label | UnsetType = UNSET
    params: Annotated[list[ActionParameter], msgspec.Meta(max_length=50)] = []
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = msgspec.field(default=30, name="timeoutSeconds")


class DeviceTemplate(msgspec.Struct, frozen=True, rename="camel"):
    """A template as stored. `signals` and `actions` are stored as they were written, so that clients read what they sent."""

    id: UUID
    name: str
    type: DeviceType
    level: TemplateLevel
    version: int
    is_system: bool
    signals: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    created_at: datetime
    updated_at: datetime


class TemplateChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of a PATCH; UNSET members stay as they are."""

    name: str | UnsetType = UNSET
    signals: list[Signal] | UnsetType = UNSET
    actions: list[Action] | UnsetType = UNSET
