"""The read-only templates of every deployment: one for plants and one for each type of sub-device.

Keys, units and meanings follow SunSpec's points where they exist. Power at a meter is positive when it is taken from the grid,
power of a battery is positive when it charges, and the production of an inverter is positive.
"""

from typing import Any, Final, NamedTuple
from uuid import UUID

from gridfleet.domains.device_templates.models import DeviceType, TemplateLevel

__all__ = ["SYSTEM_TEMPLATES", "SystemTemplate"]


class SystemTemplate(NamedTuple):
    """The content of a system template. Its id is the same in every deployment."""

    id: UUID
    name: str
    type: DeviceType
    level: TemplateLevel
    signals: list[dict[str, Any]]
    actions: list[dict[str, Any]]


def _gauge(key: str, unit: str, label: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "field": key, "label": label, "unit": unit, **more}


def _counter(key: str, label: str) -> dict[str, Any]:
    return {"key": key, "field": key, "label": label, "unit": "kWh", "kind": "counter", "min": 0, "role": key}


def _bits(*signals: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "bit": bit, "label": label, "severity": grave} for bit, (key, label, grave) in enumerate(signals)]


def _ac(role: str) -> list[dict[str, Any]]:
    return [
        _gauge("active_power", "kW", "Active power", role=role),
        _gauge("reactive_power", "kvar", "Reactive power"),
        _gauge("voltage", "V", "Voltage", min=0),
        _gauge("current", "A", "Current"),
        _gauge("frequency", "Hz", "Frequency", min=0, max=100),
    ]


_TEMPERATURE = _gauge("temperature", "°C", "Temperature", min=-60, max=150)
_STATE = (("running", "Running", "INFO"), ("fault", "Fault", "CRITICAL"), ("warning", "Warning", "WARNING"))
_POWER_LIMIT = {
    "action": "set_power_limit",
    "label": "Limit the active power",
    "params": [{"name": "power_kw", "type": "number", "unit": "kW", "min": 0}],
}
_SETPOINT = {
    "action": "set_power",
    "label": "Charge (positive) or discharge (negative)",
    "params": [{"name": "power_kw", "type": "number", "unit": "kW"}],
}
_START = {"action": "start", "label": "Start"}
_STOP = {"action": "stop", "label": "Stop"}
_RESET = {"action": "reset_fault", "label": "Acknowledge and clear the fault"}

SYSTEM_TEMPLATES: Final = (
    SystemTemplate(
        UUID("00000000-0000-7000-8000-000000000001"),
        "Gridfleet plant",
        DeviceType.CABINET,
        TemplateLevel.PLANT,
        [
            _gauge("active_power", "kW", "Power at the grid connection", role="grid_power"),
            _gauge("load_power", "kW", "Consumption of the site", role="load_power"),
            _gauge("frequency", "Hz", "Grid frequency", min=0, max=100),
            _gauge("soc", "%", "State of charge of the site", min=0, max=100, role="soc"),
            *_bits(
                ("running", "Running", "INFO"), ("fault", "Fault", "CRITICAL"), ("grid_connected", "Grid connected", "INFO")
            ),
        ],
        [],
    ),
    SystemTemplate(
        UUID("00000000-0000-7000-8000-000000000002"),
        "Gridfleet cabinet",
        DeviceType.CABINET,
        TemplateLevel.SUB_DEVICE,
        [
            _TEMPERATURE,
            _gauge("humidity", "%", "Relative humidity", min=0, max=100),
            *_bits(*_STATE, ("door_open", "Door open", "WARNING")),
        ],
        [_RESET],
    ),
    SystemTemplate(
        UUID("00000000-0000-7000-8000-000000000003"),
        "Gridfleet meter",
        DeviceType.METER,
        TemplateLevel.SUB_DEVICE,
        [
            *_ac("grid_power"),
            _counter("energy_imported", "Energy taken from the grid"),
            _counter("energy_exported", "Energy fed into the grid"),
            *_bits(*_STATE, ("grid_connected", "Grid connected", "INFO")),
        ],
        [],
    ),
    SystemTemplate(
        UUID("00000000-0000-7000-8000-000000000004"),
        "Gridfleet inverter",
        DeviceType.INVERTER,
        TemplateLevel.SUB_DEVICE,
        [
            *_ac("pv_power"),
            _TEMPERATURE,
            _counter("energy_produced", "Energy produced"),
            *_bits(*_STATE, ("grid_connected", "Grid connected", "INFO")),
        ],
        [_POWER_LIMIT, _START, _STOP, _RESET],
    ),
    SystemTemplate(
        UUID("00000000-0000-7000-8000-000000000005"),
        "Gridfleet battery",
        DeviceType.BATTERY,
        TemplateLevel.SUB_DEVICE,
        [
            *_ac("battery_power"),
            _gauge("soc", "%", "State of charge", min=0, max=100, role="soc"),
            _gauge("soh", "%", "State of health", min=0, max=100, role="soh"),
            _gauge("capacity", "kWh", "Usable capacity", min=0),
            _TEMPERATURE,
            _counter("energy_charged", "Energy charged"),
            _counter("energy_discharged", "Energy discharged"),
            *_bits(*_STATE),
        ],
        [_SETPOINT, _START, _STOP, _RESET],
    ),
)
