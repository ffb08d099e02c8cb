"""The plants of a simulation, which are the same for the same seed."""

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gridfleet.sdk.plant import AuthMethod
from gridfleet.simulator.measurements import CABINET, GRID
from gridfleet.simulator.physics import WMS_PER_KWH, Battery, PlantDesign, Pv

__all__ = ["DeviceType", "SimulatedDevice", "SimulatedSite", "design_fleet"]

_ZONES: Final = ((12, "Europe/Berlin"), (17, "Europe/Prague"))
"""Time zones of places west of a longitude. Their clocks are the same."""
_LAST_ZONE: Final = "Europe/Bratislava"
_METHODS: Final = (AuthMethod.MTLS, AuthMethod.TOKEN, AuthMethod.PASSWORD)


class DeviceType(StrEnum):
    """Type of a sub-device."""

    CABINET = "CABINET"
    METER = "METER"
    INVERTER = "INVERTER"
    BATTERY = "BATTERY"


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A sub-device to register."""

    external_id: str
    name: str
    type: DeviceType


@dataclass(frozen=True, slots=True)
class SimulatedSite:
    """A plant to register, with its design."""

    serial_number: str
    name: str
    auth_method: AuthMethod
    design: PlantDesign

    @property
    def time_zone(self) -> str:
        """The time zone of the place."""
        return next((zone for east, zone in _ZONES if self.design.longitude < east), _LAST_ZONE)

    @property
    def devices(self) -> tuple[SimulatedDevice, ...]:
        """The cabinet, inverters, batteries and grid meter."""
        return (
            SimulatedDevice(CABINET, "Control cabinet", DeviceType.CABINET),
            *(SimulatedDevice(pv.id, f"PV inverter {pv.id}", DeviceType.INVERTER) for pv in self.design.pvs),
            *(SimulatedDevice(battery.id, f"Battery {battery.id}", DeviceType.BATTERY) for battery in self.design.batteries),
            SimulatedDevice(GRID, "Grid meter", DeviceType.METER),
        )


def design_fleet(plants: int, seed: int) -> list[SimulatedSite]:
    """Return plants of various sizes and locations. Their authentication methods alternate."""
    return [_design(number, seed) for number in range(1, plants + 1)]


def _design(number: int, seed: int) -> SimulatedSite:
    chance = random.Random(f"{seed}/{number}")
    pvs = tuple(Pv(f"PV{index}", chance.randrange(8_000, 60_000, 500)) for index in range(1, chance.randint(1, 3) + 1))
    peak_w = sum(pv.peak_w for pv in pvs)
    batteries = []
    for index in range(1, chance.randint(1, 2) + 1):
        kwh = chance.randrange(5, 40, 5)
        power_w = int(kwh * 1000 * chance.choice((0.3, 0.5, 0.8)))
        batteries.append(Battery(f"BAT{index}", kwh * WMS_PER_KWH, power_w, power_w))
    return SimulatedSite(
        serial_number=f"SIM-{number:04d}",
        name=f"Simulated plant {number}",
        auth_method=_METHODS[(number - 1) % len(_METHODS)],
        design=PlantDesign(
            seed=chance.getrandbits(32),
            # Central Europe: most of it is land.
            latitude=round(chance.uniform(45.5, 52), 4),
            longitude=round(chance.uniform(5, 22), 4),
            pvs=pvs,
            batteries=tuple(batteries),
            base_load_w=int(peak_w * chance.uniform(0.01, 0.04)),
            peak_load_w=int(peak_w * chance.uniform(0.06, 0.18)),
        ),
    )
