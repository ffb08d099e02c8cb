"""One simulated plant: its physics, its snapshots, and its execution of commands."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gridfleet.protocol.envelope import CommandType, format_time
from gridfleet.sdk.plant import Command, CommandRejected, DeviceEntry, Snapshot
from gridfleet.simulator import physics
from gridfleet.simulator.measurements import PLANT, measure
from gridfleet.simulator.physics import PlantState, Targets
from gridfleet.simulator.registration import RegisteredPlant
from gridfleet.simulator.site import SiteCommands
from gridfleet.simulator.state import Energy, SavedPlant

__all__ = ["Measured", "SimulatedPlant"]

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_DAYS_KEPT: Final = 3
_CONTINUES_WITHIN_MS: Final = 15 * 60_000


class Measured(msgspec.Struct, frozen=True):
    """A snapshot to send, and the values that the service must return for it."""

    snapshot: Snapshot
    expected: dict[str, float]


class SimulatedPlant:
    """A registered plant with its state."""

    def __init__(self, registered: RegisteredPlant, saved: SavedPlant | None) -> None:
        self.registered = registered
        self._design = registered.site.design
        self._state = saved.state if saved and _fits(registered, saved.state) else None
        self.days: dict[str, Energy] = dict(saved.days) if saved and self._state else {}
        self._targets = Targets()
        self._site = SiteCommands()
        self._counters_lost = False
        self._second: int | None = None
        """The second of the newest snapshot of this run."""
        self._before: PlantState | None = None
        """The last state before that second; None if there is none, or if the counters were reset in that second."""
        self._energy_before: Energy | None = None
        """The energy of that second's day before it; None if the day had none."""

    @property
    def id(self) -> str:
        """The plant's id."""
        return self.registered.id

    @property
    def time_ms(self) -> int | None:
        """End of the last step in epoch milliseconds, or None before the first."""
        return self._state.time_ms if self._state else None

    def advance(self, time_ms: int, interval_ms: int) -> Measured:
        """Advance to `time_ms` and measure. After a pause of more than 15 minutes only one interval is simulated."""
        state = self._state or physics.initial_state(self._design, time_ms - interval_ms)
        pause_ms = time_ms - state.time_ms
        step_ms = pause_ms if pause_ms <= max(interval_ms, _CONTINUES_WITHIN_MS) else interval_ms
        reading = physics.step(self._design, state, time_ms, step_ms, self._site.apply(self._targets, self._design, time_ms))
        self._count(reading.state)
        self._state = reading.state
        return self._snapshot(time_ms, measure(self._design, reading))

    def reset_counters(self) -> None:
        """Reset all counters, as after the replacement of devices.

        The next step's energy counts for no day: the service cannot count it, because it continues from the first new value.
        """
        if self._state is not None:
            self._state = physics.reset_counters(self._state)
            self._counters_lost = True

    def _count(self, state: PlantState) -> None:
        """Count the energy up to a new state by the service's rule: of each second, the last value of a counter counts."""
        day, second = _day_of(state.time_ms), state.time_ms // 1000
        if second != self._second:
            self._second, self._before, self._energy_before = second, self._state, self.days.get(day)
        if self._counters_lost:
            self._before, self._counters_lost = None, False
        energy = self._energy_before if self._before is None else _add(self._energy_before, self._before, state)
        self.days.pop(day, None)
        if energy is not None:
            self.days[day] = energy

    def saved(self) -> SavedPlant | None:
        """Return the state to save for a later run, or None before the first step."""
        if self._state is None:
            return None
        return SavedPlant(self._state, {date: self.days[date] for date in sorted(self.days)[-_DAYS_KEPT:]})

    async def execute(self, command: Command) -> None:
        """Execute a command to the site, or an action of the system templates. Raises CommandRejected for anything else."""
        if command.type != CommandType.DEVICE_COMMAND:
            self._site = self._site.execute(command, self._state.time_ms if self._state else 0)
            return
        if self._site.stopped:
            raise CommandRejected("EMERGENCY_STOP_ACTIVE", "the site was stopped")
        batteries = {battery.id: battery for battery in self._design.batteries}
        pvs = {pv.id: pv for pv in self._design.pvs}
        device = command.target
        if device is None or device not in self.registered.writers:
            raise CommandRejected("DEVICE_UNKNOWN", f"there is no device {device!r} at this plant")
        targets = self._targets
        match command.action:
            case "stop":
                targets = replace(targets, stopped=targets.stopped | {device})
            case "start":
                targets = replace(
                    targets,
                    stopped=targets.stopped - {device},
                    battery_w={id: power for id, power in targets.battery_w.items() if id != device},
                    pv_limit_w={id: power for id, power in targets.pv_limit_w.items() if id != device},
                )
            case "set_power" if device in batteries:
                battery = batteries[device]
                power = _watts(command.params)
                if not -battery.discharge_max_w <= power <= battery.charge_max_w:
                    raise CommandRejected(
                        "OUT_OF_RANGE", f"the power of {device} must be {-battery.discharge_max_w} to {battery.charge_max_w} W"
                    )
                targets = replace(targets, battery_w={**targets.battery_w, device: power})
            case "set_power_limit" if device in pvs:
                targets = replace(targets, pv_limit_w={**targets.pv_limit_w, device: max(0, _watts(command.params))})
            case "reset_fault":
                pass
            case _:
                raise CommandRejected("ACTION_UNKNOWN", f"{device} cannot {command.action}")
        self._targets = targets

    def _snapshot(self, time_ms: int, shown: dict[str, dict[str, float | bool]]) -> Measured:
        expected: dict[str, float] = {}
        own: dict[str, int | float | bool | None] = {}
        devices = []
        for device, values in shown.items():
            encoded = self.registered.writers[device].encode(values)
            if device == PLANT:
                own = encoded.fields
                expected |= encoded.expected
            else:
                devices.append(DeviceEntry(device, encoded.fields))
                expected |= {f"{device}.{key}": value for key, value in encoded.expected.items()}
        return Measured(Snapshot(time=datetime.fromtimestamp(time_ms / 1000, UTC), fields=own, devices=devices), expected)


def _day_of(time_ms: int) -> str:
    return format_time(datetime.fromtimestamp(time_ms / 1000, UTC))[:10]


def _add(day: Energy | None, before: PlantState, after: PlantState) -> Energy | None:
    """Return the energy of the day of `after`, increased by the rise of its counters since `before`.

    A day begins with the last value within the hour before midnight, else with its first value.
    """
    midnight = after.time_ms - after.time_ms % _DAY_MS
    if before.time_ms < midnight - _HOUR_MS:
        return day
    day = day or Energy()
    return Energy(
        day.produced_wms + sum(after.produced_wms) - sum(before.produced_wms),
        day.imported_wms + after.imported_wms - before.imported_wms,
        day.exported_wms + after.exported_wms - before.exported_wms,
    )


def _fits(registered: RegisteredPlant, state: PlantState) -> bool:
    """Return whether a saved state belongs to this design. Another seed produces another design."""
    design = registered.site.design
    return len(state.produced_wms) == len(design.pvs) and [
        battery.floor_wms <= saved.stored_wms <= battery.ceiling_wms
        for battery, saved in zip(design.batteries, state.batteries, strict=False)
    ] == [True] * max(len(design.batteries), len(state.batteries))


def _watts(params: dict[str, Any] | None) -> int:
    power_kw = (params or {}).get("power_kw")
    if not isinstance(power_kw, int | float):
        raise CommandRejected("PARAMS_INVALID", "power_kw must be a number")
    return round(power_kw * 1000)
