"""Conversion of a reading to the values of each device: standard keys, rounded as by a real device."""

import math
from typing import Final

from gridfleet.simulator.physics import WMS_PER_KWH, PlantDesign, Reading, noise, wear

__all__ = ["CABINET", "GRID", "PLANT", "Values", "measure"]

PLANT: Final = ""
"""Key of the plant's own values among those of its devices."""
CABINET: Final = "CAB1"
GRID: Final = "GRID"

Values = dict[str, float | bool]
"""Values of one device by standard key. Power in kW, energy in kWh, state of charge in percent."""

_YEAR_MS: Final = 365.2425 * 86_400_000


def measure(design: PlantDesign, reading: Reading) -> dict[str, Values]:
    """Return values by device id. `PLANT` holds the plant's own values."""
    time_ms = reading.state.time_ms
    seed = design.seed
    ambient = _ambient(design, time_ms)
    voltage = 226 + 8 * noise(seed, 101, time_ms, 10 * 60_000)
    frequency = round(49.96 + 0.08 * noise(seed, 102, time_ms, 2 * 60_000), 3)
    stored = sum(battery.stored_wms for battery in reading.state.batteries)
    capacity = sum(battery.capacity_wms for battery in design.batteries)

    shown: dict[str, Values] = {
        PLANT: {
            "active_power": reading.grid_w / 1000,
            "load_power": reading.load_w / 1000,
            "frequency": frequency,
            "running": True,
            "fault": False,
            "grid_connected": True,
        },
        CABINET: {
            "temperature": round(ambient + 4 + 3 * noise(seed, 103, time_ms, 15 * 60_000), 1),
            "humidity": round(35 + 30 * noise(seed, 104, time_ms, 60 * 60_000), 1),
            "running": True,
            "fault": False,
            "warning": False,
            "door_open": noise(seed, 105, time_ms, 30 * 60_000) > 0.97,
        },
    }
    if capacity:
        shown[PLANT]["soc"] = round(100 * stored / capacity, 2)
    for number, (pv, power, produced) in enumerate(zip(design.pvs, reading.pv_w, reading.state.produced_wms, strict=True)):
        shown[pv.id] = {
            **_alternating_current(power, voltage + number * 0.2, frequency),
            "temperature": round(ambient + 25 * power / pv.peak_w, 1),
            "energy_produced": _kwh(produced),
            "running": power > 0,
            "fault": False,
            "warning": power > 0.98 * pv.peak_w,
            "grid_connected": True,
        }
    for battery, power, state in zip(design.batteries, reading.battery_w, reading.state.batteries, strict=True):
        strain = abs(power) / max(battery.charge_max_w, battery.discharge_max_w)
        soc = state.stored_wms / battery.capacity_wms
        shown[battery.id] = {
            **_alternating_current(power, voltage, frequency),
            "soc": round(100 * soc, 2),
            "soh": round(99.5 - 4 * wear(seed), 1),
            "capacity": battery.capacity_wms / WMS_PER_KWH,
            "temperature": round(18 + 0.2 * ambient + 9 * strain, 1),
            "energy_charged": _kwh(state.charged_wms),
            "energy_discharged": _kwh(state.discharged_wms),
            "running": power != 0,
            "fault": False,
            "warning": soc <= battery.soc_min + 0.01,
        }
    shown[GRID] = {
        **_alternating_current(reading.grid_w, voltage, frequency),
        "energy_imported": _kwh(reading.state.imported_wms),
        "energy_exported": _kwh(reading.state.exported_wms),
        "running": True,
        "fault": False,
        "warning": False,
        "grid_connected": True,
    }
    return shown


def _alternating_current(power_w: int, voltage: float, frequency: float) -> Values:
    """Return values of three phases with a power factor of about 0.99."""
    shown_voltage = round(voltage, 1)
    return {
        "active_power": power_w / 1000,
        "reactive_power": round(power_w / 1000 * 0.14, 3),
        "voltage": shown_voltage,
        "current": round(abs(power_w) * 1.01 / (3 * shown_voltage), 2),
        "frequency": frequency,
    }


def _ambient(design: PlantDesign, time_ms: int) -> float:
    season = -math.cos(2 * math.pi * (time_ms % _YEAR_MS) / _YEAR_MS) * (1 if design.latitude >= 0 else -1)
    hour = (time_ms / 3_600_000 + design.longitude / 15) % 24
    return 11 + 9 * season + 5 * math.cos(2 * math.pi * (hour - 15) / 24) + 4 * noise(design.seed, 107, time_ms, 6 * 3_600_000)


def _kwh(energy_wms: int) -> float:
    return round(energy_wms / WMS_PER_KWH, 6)
