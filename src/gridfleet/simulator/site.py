"""Behaviour of a simulated site on commands to the whole site: setpoints, modes, emergency stop, schedules, constraints."""

from dataclasses import dataclass, field, replace
from typing import Any

from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Mode
from gridfleet.sdk.plant import Command, CommandRejected
from gridfleet.simulator.physics import PlantDesign, Targets

__all__ = ["SiteCommands"]


@dataclass(frozen=True, slots=True)
class SiteCommands:
    """The effective commands. A setpoint ends at `until_ms` (epoch milliseconds, None: never).

    `step_of` is the id and the revision of the schedule whose step the setpoint is, None for a partner's own setpoint.
    """

    mode: Mode = Mode.AUTO
    mode_w: int | None = None
    setpoint_w: int | None = None
    until_ms: int | None = None
    step_of: tuple[Any, Any] | None = None
    constraints: dict[str, Any] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        """Whether an emergency stop is active."""
        return self.mode is Mode.EMERGENCY_STOP

    def execute(self, command: Command, now_ms: int) -> "SiteCommands":
        """Return the effective commands after a new one. `now_ms` is the site's own clock. Raises CommandRejected."""
        if self.stopped and command.mode not in (Mode.AUTO, Mode.EMERGENCY_STOP):
            raise CommandRejected("EMERGENCY_STOP_ACTIVE", "only the mode AUTO starts the site again")
        match command.type:
            case CommandType.SITE_SETPOINT if command.power_kw is not None:
                return self._hold(command, now_ms)
            case CommandType.MODE_CHANGE | CommandType.EMERGENCY if command.mode in set(Mode):
                power = None if command.power_kw is None else round(command.power_kw * 1000)
                return replace(self, mode=Mode(command.mode), mode_w=power, setpoint_w=None, until_ms=None)
            case CommandType.SCHEDULE:
                # The steps of a schedule arrive as single setpoints. Another schedule, or one without intervals, ends them.
                holds = bool((command.schedule or {}).get("intervals")) and self.step_of == _schedule_of(command)
                over = self.step_of is not None and not holds
                return replace(self, setpoint_w=None, until_ms=None, step_of=None) if over else self
            case CommandType.CONFIG:
                return replace(self, constraints={**self.constraints, **((command.params or {}).get("constraints") or {})})
        raise CommandRejected("PARAMS_INVALID", f"{command.type} lacks its parameters")

    def _hold(self, command: Command, now_ms: int) -> "SiteCommands":
        assert command.power_kw is not None
        limit = self.constraints.get("importLimitKw" if command.power_kw > 0 else "exportLimitKw")
        if limit is not None and abs(command.power_kw) > limit:
            raise CommandRejected("OUT_OF_RANGE", f"the site's limit is {limit} kW")
        seconds = (command.params or {}).get("durationSeconds")
        until_ms = None if seconds is None else now_ms + round(seconds * 1000)
        return replace(
            self,
            setpoint_w=round(command.power_kw * 1000),
            until_ms=until_ms,
            step_of=_schedule_of(command),
        )

    def apply(self, targets: Targets, design: PlantDesign, time_ms: int) -> Targets:
        """Return the active targets at a time: those of devices, overridden by those of the site."""
        devices = [battery.id for battery in design.batteries]
        if self.stopped:
            return replace(targets, stopped=targets.stopped | {*devices, *(pv.id for pv in design.pvs)})
        if self.setpoint_w is not None and (self.until_ms is None or time_ms <= self.until_ms):
            return replace(targets, site_w=self.setpoint_w, battery_w={})
        match self.mode:
            case Mode.STANDBY:
                return replace(targets, stopped=targets.stopped | set(devices))
            case Mode.CHARGE:
                most = {one.id: one.charge_max_w for one in design.batteries}
            case Mode.DISCHARGE:
                most = {one.id: -one.discharge_max_w for one in design.batteries}
            case _:
                return targets
        total = sum(most.values())
        share = 1.0 if self.mode_w is None or not total else min(1.0, abs(self.mode_w / total))
        return replace(targets, battery_w={device: round(power * share) for device, power in most.items()})


def _schedule_of(command: Command) -> tuple[Any, Any] | None:
    return None if command.schedule is None else (command.schedule.get("scheduleId"), command.schedule.get("revision"))
