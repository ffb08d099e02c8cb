"""What a partner command may request of a site, and the plant command that follows. Pure functions that return records.

Values beyond the site's limits are refused, not clipped. Positive power is taken from the grid and bound by the import limit;
negative power is fed in and bound by the export limit.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gridfleet.domains.device_templates.models import DeviceTemplate
from gridfleet.domains.device_templates.parameters import find_action, parameter_complaints
from gridfleet.domains.plants.commands.models import LONGEST_WAIT
from gridfleet.domains.vcp.models import Constraints, Device, Fallback, Instruction, Rejection, ScheduleInterval, Site, Verified
from gridfleet.protocol.envelope import format_time
from gridfleet.protocol.partner_messages import (
    MAX_INTERVALS,
    ConstraintChanges,
    ConstraintsOrder,
    DeviceOrder,
    FallbackChanges,
    FallbackOrder,
    Heading,
    Interval,
    Mode,
    ModeOrder,
    RejectionReason,
    ScheduleCancel,
    ScheduleSet,
    SetpointOrder,
)

__all__ = ["changed_constraints", "changed_fallback", "check_site", "instruct", "power_fits", "written_intervals"]

_SETPOINT_LIFE: Final = timedelta(minutes=5)
_EMERGENCY_LIFE: Final = timedelta(hours=24)
_LIFE: Final = timedelta(hours=1)
"""Time that a plant has for a command without an `expiresAt`."""

_LONGEST_SILENCE: Final = 7 * 86_400
_LONGEST_INTERVAL: Final = 7 * 86_400


def check_site(verified: Verified, site: Site, now: datetime) -> None:
    """Check that the site accepts this command now. Raises `Rejection`."""
    order = verified.order
    if order.expires_at is not None and order.expires_at <= now:
        raise Rejection(RejectionReason.EXPIRED, f"expired at {format_time(order.expires_at)}")
    if site.lifecycle_status != "ACTIVE":
        raise Rejection(RejectionReason.SITE_SUSPENDED, f"the plant is {site.lifecycle_status}")
    frees = isinstance(order, ModeOrder) and order.mode is Mode.AUTO
    if site.mode(now) is Mode.EMERGENCY_STOP and not frees:
        raise Rejection(RejectionReason.EMERGENCY_STOP_ACTIVE, "only the mode AUTO ends the emergency stop")


def instruct(
    verified: Verified, site: Site, now: datetime, device: Device | None = None, template: DeviceTemplate | None = None
) -> Instruction:
    """Return the content of the plant command.

    Args:
        device: the sub-device that the command names, None if it does not exist.
        template: the template of `device`, None if it has none.

    Raises:
        Rejection: the site's limits, schedule, devices or templates do not allow the command.
    """
    order = verified.order
    match order:
        case SetpointOrder():
            _check_power(site.constraints, order.power_kw, "powerKw")
            content: dict[str, Any] = {"powerKw": order.power_kw}
            if order.duration_seconds is not None:
                content["params"] = {"durationSeconds": order.duration_seconds}
            return Instruction(content, _end(order, now, _SETPOINT_LIFE))
        case ModeOrder():
            _check_mode(site.constraints, order)
            content = {"mode": order.mode.value}
            if order.power_kw is not None:
                content["powerKw"] = order.power_kw
            return Instruction(content, _end(order, now, _EMERGENCY_LIFE if order.mode is Mode.EMERGENCY_STOP else _LIFE))
        case DeviceOrder():
            return _device_instruction(order, now, device, template)
        case ScheduleSet():
            _check_schedule(order, site)
            content = {
                "scheduleId": order.schedule_id,
                "revision": order.revision,
                "intervals": written_intervals(order.intervals),
            }
            return Instruction({"schedule": content}, _end(order, now, _LIFE))
        case ScheduleCancel():
            if site.schedule_ends_at is None or site.schedule_id != order.schedule_id:
                raise Rejection(RejectionReason.SCHEDULE_INVALID, "scheduleId: is not the schedule that holds")
            content = {"scheduleId": order.schedule_id, "revision": site.schedule_revision, "intervals": []}
            return Instruction({"schedule": content}, _end(order, now, _LIFE))
        case ConstraintsOrder():
            constraints = msgspec.to_builtins(changed_constraints(site.constraints, order.constraints))
            return Instruction({"params": {"constraints": constraints}}, _end(order, now, _LIFE))
        case FallbackOrder():
            fallback = msgspec.to_builtins(changed_fallback(site.fallback, order.fallback))
            return Instruction({"params": {"fallback": fallback}}, _end(order, now, _LIFE))
    raise TypeError(f"no rule for {type(order).__name__}")


def _end(order: Heading, now: datetime, life: timedelta) -> datetime:
    """Return when the plant command expires. What the command sets at the site holds until the command's own `expiresAt`."""
    return min(order.expires_at or now + life, now + LONGEST_WAIT)


def power_fits(constraints: Constraints, power_kw: float) -> bool:
    """Return whether the site's limits allow this power: positive is import, negative export."""
    limit = constraints.import_limit_kw if power_kw > 0 else constraints.export_limit_kw
    return limit is None or abs(power_kw) <= limit


def _check_power(constraints: Constraints, power_kw: float, path: str) -> None:
    if not power_fits(constraints, power_kw):
        name, limit = (
            ("importLimitKw", constraints.import_limit_kw) if power_kw > 0 else ("exportLimitKw", constraints.export_limit_kw)
        )
        raise Rejection(RejectionReason.CONSTRAINT_VIOLATED, f"{path}: {power_kw:g} kW is beyond {name} of {limit:g} kW")


def _check_mode(constraints: Constraints, order: ModeOrder) -> None:
    limits = {
        Mode.CHARGE: ("chargeMaxKw", constraints.charge_max_kw),
        Mode.DISCHARGE: ("dischargeMaxKw", constraints.discharge_max_kw),
    }
    if order.mode not in limits:
        if order.power_kw is not None:
            raise Rejection(RejectionReason.PARAMS_INVALID, f"powerKw: {order.mode} has no power of its own")
        return
    name, limit = limits[order.mode]
    power_kw = 0.0 if order.power_kw is None else order.power_kw
    if power_kw and (power_kw > 0) != (order.mode is Mode.CHARGE):
        raise Rejection(RejectionReason.PARAMS_INVALID, "powerKw: charging is positive, discharging negative")
    if limit is not None and (limit == 0 or abs(power_kw) > limit):
        raise Rejection(RejectionReason.CONSTRAINT_VIOLATED, f"{order.mode}: is beyond {name} of {limit:g} kW")
    _check_power(constraints, power_kw, "powerKw")


def _device_instruction(
    order: DeviceOrder, now: datetime, device: Device | None, template: DeviceTemplate | None
) -> Instruction:
    if device is None:
        raise Rejection(RejectionReason.DEVICE_UNKNOWN, "the site has no such sub-device")
    action = None if template is None else find_action(template, order.action)
    if action is None:
        raise Rejection(RejectionReason.ACTION_NOT_IN_TEMPLATE, f"action: the template of {device.external_id} has no such")
    if complaints := list(parameter_complaints(action, order.params)):
        raise Rejection(RejectionReason.PARAMS_INVALID, "; ".join(complaints)[:500])
    content = {"action": order.action, "params": order.params}
    return Instruction(content, _end(order, now, timedelta(seconds=action.timeout_seconds)), device)


def _check_schedule(order: ScheduleSet, site: Site) -> None:
    if not 1 <= len(order.intervals) <= MAX_INTERVALS:
        raise Rejection(RejectionReason.SCHEDULE_INVALID, f"intervals: 1 to {MAX_INTERVALS} are allowed")
    if order.schedule_id == site.schedule_id and order.revision <= (site.schedule_revision or 0):
        raise Rejection(RejectionReason.SCHEDULE_INVALID, f"revision: must be above {site.schedule_revision}")
    before: Interval | None = None
    for interval in sorted(order.intervals, key=lambda one: one.start):
        if not 1 <= interval.duration_seconds <= _LONGEST_INTERVAL:
            raise Rejection(RejectionReason.SCHEDULE_INVALID, f"durationSeconds: must be 1 to {_LONGEST_INTERVAL}")
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
        Rejection: a limit is out of range, or the limits contradict each other.
    """
    new = msgspec.structs.replace(old, **_given(changes))
    for name, value in msgspec.structs.asdict(new).items():
        if value is not None and (value < 0 or (name.startswith("soc") and value > 100)):
            raise Rejection(RejectionReason.PARAMS_INVALID, f"constraints: {value:g} is out of range")
    if new.soc_min_pct is not None and new.soc_max_pct is not None and new.soc_min_pct > new.soc_max_pct:
        raise Rejection(RejectionReason.PARAMS_INVALID, "constraints: socMinPct is above socMaxPct")
    return new


def changed_fallback(old: Fallback, changes: FallbackChanges) -> Fallback:
    """Return the fallback after a change. Raises `Rejection` for an emergency stop or a time out of range."""
    new = msgspec.structs.replace(old, **_given(changes))
    if new.mode is Mode.EMERGENCY_STOP:
        raise Rejection(RejectionReason.PARAMS_INVALID, "fallback.mode: an emergency stop is no fallback")
    if new.after_seconds is not None and not 1 <= new.after_seconds <= _LONGEST_SILENCE:
        raise Rejection(RejectionReason.PARAMS_INVALID, f"fallback.afterSeconds: must be 1 to {_LONGEST_SILENCE}")
    return new


def _given(changes: ConstraintChanges | FallbackChanges) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
