"""Which metrics of a device have a role in its plant."""

from collections.abc import Mapping
from typing import Final

from gridfleet.domains.device_templates.models import DeviceTemplate, SignalRole

__all__ = [
    "ENERGY_KEYS",
    "GRID_DEVICE",
    "GRID_ROLES",
    "PV_PREFIX",
    "STANDARD_KEYS",
    "former_roles",
    "is_counter",
    "signal_roles",
    "units_of",
]

GRID_DEVICE: Final = "GRID"
"""External id of a plant's meter at the grid connection."""
PV_PREFIX: Final = "PV"
"""The beginning of the external ids of devices that produce energy."""

GRID_ROLES: Final = frozenset({SignalRole.GRID_POWER, SignalRole.ENERGY_IMPORTED, SignalRole.ENERGY_EXPORTED})

_PV_KEYS: Final = {"active_power": SignalRole.PV_POWER, "energy_produced": SignalRole.ENERGY_PRODUCED}
_GRID_KEYS: Final = {
    "active_power": SignalRole.GRID_POWER,
    "energy_imported": SignalRole.ENERGY_IMPORTED,
    "energy_exported": SignalRole.ENERGY_EXPORTED,
}
STANDARD_KEYS: Final = tuple(_PV_KEYS | _GRID_KEYS)
"""The keys that have a role without a template."""
ENERGY_KEYS: Final = frozenset({"energy_produced", "energy_imported", "energy_exported"})
"""Those of them that are counters."""


def signal_roles(declared: Mapping[str, str] | None, external_id: str | None) -> dict[str, SignalRole]:
    """Return the roles of a device's metrics by key.

    If the template declares no role, or there is no template, the standard keys have roles in devices whose external id begins
    with PV and in the device GRID.

    Args:
        declared: The roles that its template declares, by key; None without a template.
        external_id: Its external id; None for the plant itself.
    """
    if declared:
        return {key: SignalRole(role) for key, role in declared.items()}
    if external_id is None:
        return {}
    if external_id == GRID_DEVICE:
        return dict(_GRID_KEYS)
    return dict(_PV_KEYS) if external_id.startswith(PV_PREFIX) else {}


def former_roles(
    template: DeviceTemplate | None, successor: DeviceTemplate | None, external_id: str | None
) -> dict[str, SignalRole]:
    """Return, by key, the roles that a device's metrics have with `template` and whose keys `successor` does not declare.

    Args:
        template: The template of the device until now.
        successor: Its next template; None if it has none, or the device is deleted.
        external_id: Its external id; None for the plant itself.
    """
    declared = {} if template is None else {signal["key"]: signal["role"] for signal in template.signals if "role" in signal}
    known = set() if successor is None else {signal["key"] for signal in successor.signals}
    return {key: role for key, role in signal_roles(declared, external_id).items() if key not in known}


def is_counter(role: SignalRole) -> bool:
    """Return whether the role is that of an energy counter."""
    return role.startswith("energy_")


def units_of(role: SignalRole) -> tuple[str, ...]:
    """Return the units that a signal with this role may have."""
    if is_counter(role):
        return "Wh", "kWh", "MWh"
    return ("%",) if role in (SignalRole.SOC, SignalRole.SOH) else ("W", "kW", "MW")
