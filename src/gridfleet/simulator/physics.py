"""Physics of a simulated plant: sun, clouds, load, batteries, and a grid that closes the balance.

Everything is a pure function of a design, a state and a time. Power is a whole number of watts and is the average of the step
that ends at its time. Energy is a whole number of watt-milliseconds. So a counter is exactly the sum of power times step, and
grid = load + charging − production holds to the watt.

Signs: grid power is positive for import, battery power is positive for charging, production is positive.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

__all__ = [
    "WMS_PER_KWH",
    "Battery",
    "BatteryState",
    "PlantDesign",
    "PlantState",
    "Pv",
    "Reading",
    "Targets",
    "clear_sky",
    "initial_state",
    "load_w",
    "noise",
    "reset_counters",
    "step",
    "wear",
]

WMS_PER_KWH: Final = 1_000 * 3_600_000
"""Watt-milliseconds of a kilowatt-hour."""

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Pv:
    """A PV inverter with the peak power of its panels."""

    id: str
    peak_w: int


@dataclass(frozen=True, slots=True)
class Battery:
    """A battery. Limits of the state of charge are fractions. `efficiency` is one-way, in per mille."""

    id: str
    capacity_wms: int
    charge_max_w: int
    discharge_max_w: int
    soc_min: float = 0.10
    soc_max: float = 0.95
    efficiency: int = 960

    @property
    def floor_wms(self) -> int:
        """Energy that is never discharged."""
        return math.ceil(self.capacity_wms * self.soc_min)

    @property
    def ceiling_wms(self) -> int:
        """Energy at which charging ends."""
        return math.floor(self.capacity_wms * self.soc_max)


@dataclass(frozen=True, slots=True)
class PlantDesign:
    """The equipment and the place of a site, in degrees north and east. `seed` determines its weather and its load."""

    seed: int
    latitude: float
    longitude: float
    pvs: tuple[Pv, ...]
    batteries: tuple[Battery, ...]
    base_load_w: int
    peak_load_w: int


@dataclass(frozen=True, slots=True)
class BatteryState:
    """Stored energy, and lifetime counters at the terminals."""

    stored_wms: int
    charged_wms: int
    discharged_wms: int


@dataclass(frozen=True, slots=True)
class PlantState:
    """State of a plant after the step that ended at `time_ms` (epoch milliseconds)."""

    time_ms: int
    produced_wms: tuple[int, ...]
    batteries: tuple[BatteryState, ...]
    imported_wms: int
    exported_wms: int


@dataclass(frozen=True, slots=True)
class Targets:
    """Active targets from commands: stopped devices, battery power, and inverter limits, in watts.

    `site_w` is the power that the site must draw from the grid (negative: feed in), within the capability of its batteries.
    """

    stopped: frozenset[str] = frozenset()
    battery_w: Mapping[str, int] = field(default_factory=dict)
    pv_limit_w: Mapping[str, int] = field(default_factory=dict)
    site_w: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Powers of one step in watts, and the state at its end."""

    pv_w: tuple[int, ...]
    battery_w: tuple[int, ...]
    load_w: int
    grid_w: int
    state: PlantState


def noise(seed: int, stream: int, time_ms: int, period_ms: int) -> float:
    """Return smooth noise from 0 to 1 that depends only on the arguments. `period_ms` is the distance of its random values."""
    index, rest = divmod(time_ms, period_ms)
    blend = (1 - math.cos(math.pi * rest / period_ms)) / 2
    return _random(seed, stream, index) * (1 - blend) + _random(seed, stream, index + 1) * blend


def _random(seed: int, stream: int, index: int) -> float:
    """Return a fraction from SplitMix64's finaliser over the arguments."""
    value = (seed * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9 + index * 0x94D049BB133111EB) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return (value ^ value >> 31) / (_MASK + 1)


def clear_sky(latitude: float, longitude: float, time_ms: int) -> float:
    """Return the share of peak power that panels produce under a clear sky: 0 at night, close to 1 under a high sun.

    Solar elevation from declination and hour angle (Cooper 1969), with atmospheric loss at low sun as an exponent.

    Args:
        latitude: Degrees north.
        longitude: Degrees east.
        time_ms: Milliseconds since the epoch.
    """
    days = time_ms / _DAY_MS
    day_of_year = days % 365.2425
    declination = math.radians(23.44) * math.sin(2 * math.pi * (day_of_year + 284) / 365.2425)
    hour_angle = 2 * math.pi * ((days + longitude / 360) % 1 - 0.5)
    phi = math.radians(latitude)
    elevation = math.sin(phi) * math.sin(declination) + math.cos(phi) * math.cos(declination) * math.cos(hour_angle)
    return float(max(0.0, elevation) ** 1.15)


def _clouds(seed: int, time_ms: int) -> float:
    """Return the share of the clear-sky power that the clouds let through."""
    day = 0.35 + 0.65 * noise(seed, 1, time_ms, _DAY_MS)
    passing = 0.55 * noise(seed, 2, time_ms, 40 * 60_000) + 0.25 * noise(seed, 3, time_ms, 4 * 60_000)
    return max(0.05, min(1.0, day * (1.25 - passing)))


def load_w(design: PlantDesign, time_ms: int) -> int:
    """Return the consumption of the site: a base, a morning and an evening peak, lower at weekends, with noise."""
    local = time_ms + int(design.longitude / 15 * _HOUR_MS)
    hour = local % _DAY_MS / _HOUR_MS
    weekday = (local // _DAY_MS + 3) % 7  # the epoch began on a Thursday
    shape = 0.9 * math.exp(-(((hour - 7.5) / 1.5) ** 2)) + math.exp(-(((hour - 19) / 2.5) ** 2)) + 0.35 * (9 < hour < 17)
    busy = (0.75 if weekday >= 5 else 1.0) * (0.7 + 0.6 * noise(design.seed, 4, time_ms, 20 * 60_000))
    jitter = 0.9 + 0.2 * noise(design.seed, 5, time_ms, 30_000)
    return max(50, round((design.base_load_w + design.peak_load_w * shape * busy) * jitter))


def wear(seed: int) -> float:
    """Return how long a plant was in use before its first step, from 0 to 1, which is some years."""
    return _random(seed, 106, 0)


def initial_state(design: PlantDesign, time_ms: int) -> PlantState:
    """Return the state of a plant after some time of operation: batteries half full, counters above zero.

    Production and the cycles of batteries follow from the wear. A battery has lost the energy that these cycles cost, and the
    site has consumed half of its production.
    """
    worn = wear(design.seed)
    produced = tuple(int(pv.peak_w * (500 + 3_000 * worn)) * _HOUR_MS for pv in design.pvs)

    def cycled(battery: Battery) -> BatteryState:
        charged = int((50 + 450 * worn) * (battery.ceiling_wms - battery.floor_wms))
        return BatteryState(battery.capacity_wms // 2, charged, charged * battery.efficiency**2 // 1_000_000)

    return PlantState(
        time_ms,
        produced,
        tuple(cycled(battery) for battery in design.batteries),
        int((1_000 + 20_000 * _random(design.seed, 70, 0)) * WMS_PER_KWH),
        sum(produced) // 2,
    )


def step(design: PlantDesign, state: PlantState, time_ms: int, step_ms: int, targets: Targets = Targets()) -> Reading:
    """Return the reading of a step of `step_ms` that ends at `time_ms`. Sun and load are those at the middle of the step."""
    middle = time_ms - step_ms // 2
    sun = clear_sky(design.latitude, design.longitude, middle) * _clouds(design.seed, middle)
    pv_w = tuple(
        0 if pv.id in targets.stopped else min(round(pv.peak_w * sun), targets.pv_limit_w.get(pv.id, pv.peak_w))
        for pv in design.pvs
    )
    load = load_w(design, middle)
    surplus = sum(pv_w) - load + (targets.site_w or 0)
    powers = []
    batteries = []
    for battery, before in zip(design.batteries, state.batteries, strict=True):
        wanted = 0 if battery.id in targets.stopped else targets.battery_w.get(battery.id, surplus)
        power, after = _battery_step(battery, before, wanted, step_ms)
        surplus -= power
        powers.append(power)
        batteries.append(after)
    grid = load + sum(powers) - sum(pv_w)
    after_step = PlantState(
        time_ms,
        tuple(before + power * step_ms for before, power in zip(state.produced_wms, pv_w, strict=True)),
        tuple(batteries),
        state.imported_wms + max(0, grid) * step_ms,
        state.exported_wms + max(0, -grid) * step_ms,
    )
    return Reading(pv_w, tuple(powers), load, grid, after_step)


def _battery_step(battery: Battery, state: BatteryState, wanted_w: int, step_ms: int) -> tuple[int, BatteryState]:
    """Return the actual power (positive: charging) for the wanted power, within the battery's limits, and the new state."""
    if wanted_w >= 0:
        room = max(0, battery.ceiling_wms - state.stored_wms)
        power = min(wanted_w, battery.charge_max_w, room * 1000 // (step_ms * battery.efficiency))
        stored = state.stored_wms + power * step_ms * battery.efficiency // 1000
        return power, replace(state, stored_wms=stored, charged_wms=state.charged_wms + power * step_ms)
    usable = max(0, state.stored_wms - battery.floor_wms)
    power = min(-wanted_w, battery.discharge_max_w, usable * battery.efficiency // (1000 * step_ms))
    stored = state.stored_wms - -(-power * step_ms * 1000 // battery.efficiency)
    return -power, replace(state, stored_wms=stored, discharged_wms=state.discharged_wms + power * step_ms)


def reset_counters(state: PlantState) -> PlantState:
    """Return the state with all counters at zero, as after the replacement of devices."""
    batteries = tuple(replace(battery, charged_wms=0, discharged_wms=0) for battery in state.batteries)
    return replace(state, produced_wms=(0,) * len(state.produced_wms), batteries=batteries, imported_wms=0, exported_wms=0)
