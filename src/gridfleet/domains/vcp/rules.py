"""What a partner command may request of a site, and the plant command that follows. Pure functions that return records.

Values beyond the site's limits are refused, not clipped. Positive power is taken from the grid and bound by the import limit;
negative power is fed in and bound by the export limit.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from gridfleet.domains.device_templates.models import DeviceTemplate
from gridfleet.domains.device_templates.parameters import find_action, parameter_complaints
from gridfleet.domains.plants.commands.models import LONGEST_WAIT
from gridfleet.domains.vcp.models import Device, Instruction, Rejection, Verified
from gridfleet.domains.vcp.sites.models import Constraints, Fallback, ScheduleInterval, Site
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.numbers import compared
from gridfleet.protocol.envelope import format_time
from gridfleet.protocol.partner_messages import (
    MAX_INTERVALS,
    ConstraintChanges,
    ConstraintsCommand,
    DeviceCommand,
    FallbackChanges,
    FallbackCommand,
    Heading,
    Interval,
    Mode,
    ModeCommand,
    RejectionReason,
    ScheduleCancel,
    ScheduleSet,
    SetpointCommand,
)

__all__ = ["changed_constraints", "changed_fallback", "check_site", "instruct", "power_fits", "written_intervals"]

_SETPOINT_LIFE: Final = timedelta(minutes=5)
_OLDEST_SETPOINT: Final = _SETPOINT_LIFE + timedelta(minutes=10)
"""Age beyond which a setpoint without an `expiresAt` has waited too long. A partner's clock may differ by ten minutes."""
_EMERGENCY_LIFE: Final = timedelta(hours=24)
_LIFE: Final = timedelta(hours=1)
"""Time that a plant has for a command without an `expiresAt`."""

_LONGEST_SILENCE: Final = 7 * 86_400
_LONGEST_INTERVAL: Final = 7 * 86_400


def check_site(verified: Verified, site: Site, now: datetime) -> None:
    """Check that the site accepts this command now. Raises Rejection."""
    command = verified.command
    if command.expires_at is not None and command.expires_at <= now:
        raise Rejection(RejectionReason.EXPIRED, f"expired at {format_time(command.expires_at)}")
    if command.expires_at is None and isinstance(command, SetpointCommand) and now - command.issued_at > _OLDEST_SETPOINT:
        # Other commands are signed, which limits their age, or set limits, which hold until they are changed.
        raise Rejection(RejectionReason.EXPIRED, f"issued at {format_time(command.issued_at)}, without an expiresAt")
    if site.lifecycle_status != "ACTIVE":
        raise Rejection(RejectionReason.SITE_SUSPENDED, f"the plant is {site.lifecycle_status}")
    frees = isinstance(command, ModeCommand) and command.mode is Mode.AUTO
    if site.mode(now) is Mode.EMERGENCY_STOP and not frees:
        raise Rejection(RejectionReason.EMERGENCY_STOP_ACTIVE, "only the mode AUTO ends the emergency stop")


def instruct(
    verified: Verified, site: Site, now: datetime, device: Device | None = None, template: DeviceTemplate | None = None
) -> Instruction:
    """Return the content of the plant command.

    Args:
        device: The sub-device that the command names, None if it does not exist.
        template: The template of `device`, None if it has none.

    Raises:
        Rejection: The site's limits, schedule, devices or templates do not allow the command.
    """
    command = verified.command
    match command:
        case SetpointCommand():
            _check_power(site.constraints, command.power_kw, "powerKw")
            content: dict[str, Any] = {"powerKw": command.power_kw}
            if command.duration_seconds is not None:
                content["params"] = {"durationSeconds": command.duration_seconds}
            return Instruction(content, _end(command, now, _SETPOINT_LIFE))
        case ModeCommand():
            _check_mode(site.constraints, command)
            content = {"mode": command.mode.value}
            if command.power_kw is not None:
                content["powerKw"] = command.power_kw
            return Instruction(content, _end(command, now, _EMERGENCY_LIFE if command.mode is Mode.EMERGENCY_STOP else _LIFE))
        case DeviceCommand():
            return _device_instruction(command, now, device, template)
        case ScheduleSet():
            _check_schedule(command, site)
            content = {
                "scheduleId": command.schedule_id,
                "revision": command.revision,
                "intervals": written_intervals(command.intervals),
            }
            return Instruction({"schedule": content}, _end(command, now, _LIFE))
        case ScheduleCancel():
            if site.schedule_ends_at is None or site.schedule_id != command.schedule_id:
                raise Rejection(RejectionReason.SCHEDULE_INVALID, "scheduleId: is not the schedule in force")
            content = {"scheduleId": command.schedule_id, "revision": site.schedule_revision, "intervals": []}
            return Instruction({"schedule": content}, _end(command, now, _LIFE))
        case ConstraintsCommand():
            constraints = msgspec.to_builtins(changed_constraints(site.constraints, command.constraints))
            return Instruction({"params": {"constraints": constraints}}, _end(command, now, _LIFE))
        case FallbackCommand():
            fallback = msgspec.to_builtins(changed_fallback(site.fallback, command.fallback))
            return Instruction({"params": {"fallback": fallback}}, _end(command, now, _LIFE))
    raise TypeError(f"no rule for {type(command).__name__}")


def _end(command: Heading, now: datetime, life: timedelta) -> datetime:
    """Return when the plant command expires. What the command sets at the site holds until the command's own `expiresAt`."""
    return min(command.expires_at or now + life, now + LONGEST_WAIT)


def power_fits(constraints: Constraints, power_kw: float) -> bool:
    """Return whether the site's import or export limit allows this power: positive is import, negative export."""
    _, limit = _limit_of(constraints, power_kw)
    return limit is None or abs(power_kw) <= limit


def _limit_of(constraints: Constraints, power_kw: float) -> tuple[str, float | None]:
    if power_kw > 0:
        return "importLimitKw", constraints.import_limit_kw
    return "exportLimitKw", constraints.export_limit_kw


def _check_power(constraints: Constraints, power_kw: float, path: str) -> None:
    name, limit = _limit_of(constraints, power_kw)
    if limit is not None and abs(power_kw) > limit:
        power, allowed = compared(abs(power_kw), limit)
        sign = "-" if power_kw < 0 else ""
        raise Rejection(RejectionReason.CONSTRAINT_VIOLATED, f"{path}: {sign}{power} kW is beyond {name} of {allowed} kW")


def _check_mode(constraints: Constraints, command: ModeCommand) -> None:
    limits = {
        Mode.CHARGE: ("chargeMaxKw", constraints.charge_max_kw),
        Mode.DISCHARGE: ("dischargeMaxKw", constraints.discharge_max_kw),
    }
    if command.mode not in limits:
        if command.power_kw is not None:
            raise Rejection(RejectionReason.PARAMS_INVALID, f"powerKw: {command.mode} does not take a power")
        return
    name, limit = limits[command.mode]
    power_kw = 0.0 if command.power_kw is None else command.power_kw
    if power_kw and (power_kw > 0) != (command.mode is Mode.CHARGE):
        raise Rejection(RejectionReason.PARAMS_INVALID, "powerKw: must be positive for CHARGE and negative for DISCHARGE")
    if limit is not None and (limit == 0 or abs(power_kw) > limit):
        raise Rejection(RejectionReason.CONSTRAINT_VIOLATED, f"{command.mode}: is beyond {name} of {compared(limit)[0]} kW")
    _check_power(constraints, power_kw, "powerKw")


def _device_instruction(
    command: DeviceCommand, now: datetime, device: Device | None, template: DeviceTemplate | None
) -> Instruction:
    if device is None:
        raise Rejection(RejectionReason.DEVICE_UNKNOWN, "deviceId: the site has no such sub-device")
    action = None if template is None else find_action(template, command.action)
    if action is None:
        raise Rejection(RejectionReason.ACTION_NOT_IN_TEMPLATE, f"action: is not in the template of {device.external_id}")
    if complaints := list(parameter_complaints(action, command.params)):
        raise Rejection(RejectionReason.PARAMS_INVALID, "; ".join(complaints)[:500])
    content = {"action": command.action, "params": command.params}
    return Instruction(content, _end(command, now, timedelta(seconds=action.timeout_seconds)), device)


def _check_schedule(command: ScheduleSet, site: Site) -> None:
    if not 1 <= len(command.intervals) <= MAX_INTERVALS:
        raise Rejection(RejectionReason.SCHEDULE_INVALID, f"intervals: must have 1 to {MAX_INTERVALS} items")
    if command.schedule_id == site.schedule_id and command.revision <= (site.schedule_revision or 0):
        raise Rejection(RejectionReason.SCHEDULE_INVALID, f"revision: must be above {site.schedule_revision}")
    before: Interval | None = None
    for interval in sorted(command.intervals, key=lambda one: one.start):
        if not 1 <= interval.duration_seconds <= _LONGEST_INTERVAL:
            raise Rejection(RejectionReason.SCHEDULE_INVALID, f"intervals.durationSeconds: must be 1 to {_LONGEST_INTERVAL}")
        if before is not None and before.start + timedelta(seconds=before.duration_seconds) > interval.start:
            raise Rejection(RejectionReason.SCHEDULE_INVALID, f"intervals: two overlap at {format_time(interval.start)}")
        _check_power(site.constraints, interval.power_kw, "intervals.powerKw")
        before = interval


def written_intervals(intervals: Sequence[Interval | ScheduleInterval]) -> list[dict[str, Any]]:
    """Return intervals as they are sent to the plant, by start time."""
    return [
        {"start": format_time(one.start), "durationSeconds": one.duration_seconds, "powerKw": one.power_kw}
        for one in sorted(intervals, key=lambda one: one.start)
    ]


def changed_constraints(old: Constraints, changes: ConstraintChanges) -> Constraints:
    """Return the limits after a change.

    Raises:
        Rejection: A limit is out of range, or the limits contradict each other.
    """
    new = msgspec.structs.replace(old, **given(changes))
    for field in msgspec.structs.fields(new):
        value, name = getattr(new, field.name), field.encode_name
        if value is not None and (value < 0 or (name.startswith("soc") and value > 100)):
            raise Rejection(RejectionReason.PARAMS_INVALID, f"constraints.{name}: {compared(value)[0]} is out of range")
    if new.soc_min_pct is not None and new.soc_max_pct is not None and new.soc_min_pct > new.soc_max_pct:
        raise Rejection(RejectionReason.PARAMS_INVALID, "constraints: socMinPct is above socMaxPct")
    return new


def changed_fallback(old: Fallback, changes: FallbackChanges) -> Fallback:
    """Return the fallback after a change. Raises `Rejection` for an emergency stop or a time out of range."""
    new = msgspec.structs.replace(old, **given(changes))
    if new.mode is Mode.EMERGENCY_STOP:
        raise Rejection(RejectionReason.PARAMS_INVALID, "fallback.mode: must not be EMERGENCY_STOP")
    if new.after_seconds is not None and not 1 <= new.after_seconds <= _LONGEST_SILENCE:
        raise Rejection(RejectionReason.PARAMS_INVALID, f"fallback.afterSeconds: must be 1 to {_LONGEST_SILENCE}")
    return new
