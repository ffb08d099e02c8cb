"""Apply the end of plant commands to their sites.

A partner command that the plant refuses has no effect: the previous state is restored. A command that the plant did not
acknowledge is issued again while it is in force.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import replace

from gridfleet.domains.plants.commands.models import OPEN, CommandStatus, Transition
from gridfleet.domains.vcp.confirmation import store
from gridfleet.domains.vcp.confirmation.dispatch import A_MOMENT
from gridfleet.domains.vcp.confirmation.models import HeldSetpoint, Kind, Predecessor, Unconfirmed
from gridfleet.domains.vcp.sites import store as sites
from gridfleet.domains.vcp.sites.models import ModeOverride, ScheduleInterval, Site
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Heading, Mode, ModeCommand, ScheduleSet, open_command
from gridfleet.protocol.partner_routes import CommandKind

__all__ = ["apply_ends"]

_MODES: Final = (CommandType.MODE_CHANGE, CommandType.EMERGENCY)
_REFUSALS: Final = (CommandStatus.REJECTED, CommandStatus.FAILED)

_PAUSE: Final = timedelta(seconds=30)
"""Least time from a refusal until the command is issued again: a plant may report ONLINE many times per minute."""
_LONGEST_PAUSE: Final = timedelta(minutes=10)
"""Longest time from a failure until the command is issued again."""


async def apply_ends(
    db: Connection,
    steps: Mapping[UUID, Transition],
    partner_commands: Collection[UUID],
    connected: Collection[UUID],
    applied_late: Mapping[UUID, UUID],
) -> None:
    """Apply the newest steps of commands to the sites of their plants.

    Args:
        steps: The newest step of each command, by command id. Steps to an open state are ignored.
        partner_commands: Ids of those commands that are partner commands.
        connected: Plants that have just connected. Commands that they refused or failed are issued again, after a pause.
        applied_late: Plants by the ids of the commands that they have applied, but acknowledged after the expiry.
    """
    ends = {command_id: step for command_id, step in steps.items() if step.status not in OPEN}
    refused = {one: end for one, end in ends.items() if end.status in _REFUSALS and one in partner_commands}
    plants = await store.concerned(db, {end.plant_id for end in ends.values()}, ends, refused, connected, applied_late)
    if not plants:
        return
    rows: dict[UUID, list[Unconfirmed]] = {}
    held = await sites.lock_many(db, plants)
    for row in await store.of_plants(db, plants):
        rows.setdefault(row.plant_id, []).append(row)
    for site in held:
        mode = next((row for row in rows.get(site.plant_id, ()) if row.kind is Kind.MODE), None)
        changed = await _without_lost_setpoint(db, site, ends, partner_commands, _comes_again(mode, ends))
        for row in await _answered(db, site, rows.get(site.plant_id, ()), refused):
            if row.command_id in ends:
                changed = await _apply(db, changed, row, ends[row.command_id], row.command_id in partner_commands)
        # After the rows: the mode that it expects must not be taken for one that has just been answered.
        changed = await _without_refused_setpoint(db, changed, refused)
        late = [command_id for command_id, plant_id in applied_late.items() if plant_id == site.plant_id]
        if late:
            changed = await _with_late_setpoint(db, changed, late)
        if changed != site:
            await sites.save_site(db, changed)
    if connected:
        await store.wake(db, [plant for plant in plants if plant in connected], utc_now(), _PAUSE)


async def _answered(
    db: Connection, site: Site, rows: Sequence[Unconfirmed], refused: Mapping[UUID, Transition]
) -> list[Unconfirmed]:
    """Return the rows of a site, modes first, with the partner's own command where the plant has refused that one.

    The service issues a received command again when the plant connects. The plant may answer the partner's own later, even
    after it has applied the second one. The partner reads the refusal, so its order does not stay in force.
    """
    found = {row.kind: row for row in rows}
    mine = {one: end for one, end in refused.items() if end.plant_id == site.plant_id}
    if not mine:
        return list(rows)
    orders = {Kind.MODE: site.override_command_id, Kind.SCHEDULE: site.schedule_command_id}
    if site.override is None:
        orders[Kind.MODE] = await store.repeated_auto(db, site.plant_id, mine)
    elif site.override.mode is Mode.EMERGENCY_STOP:
        del orders[Kind.MODE]
    for kind, order in orders.items():
        row = found.get(kind)
        if order not in mine or (row is not None and row.command_id in (order, None)):
            continue  # nothing was issued again, or it has to be yet: the plant is then asked about what holds
        if row is None:
            row = Unconfirmed(plant_id=site.plant_id, kind=kind, command_id=None, issued_at=mine[order].at)
        # The plant may have executed the second one, so its mode is unknown.
        found[kind] = replace(row, command_id=order, confirmed_mode=None)
    return sorted(found.values(), key=lambda row: (row.kind is not Kind.MODE, row.kind))


def _comes_again(mode: Unconfirmed | None, ends: Mapping[UUID, Transition]) -> bool:
    """Return whether the plant has not applied the mode that it must confirm, so that it is issued again."""
    if mode is None:
        return False
    end = None if mode.command_id is None else ends.get(mode.command_id)
    return mode.due_at is not None if end is None else end.status is not CommandStatus.APPLIED


async def _without_lost_setpoint(
    db: Connection,
    site: Site,
    ends: Mapping[UUID, Transition],
    partner_commands: Collection[UUID],
    is_without_mode: bool,
) -> Site:
    """Return the site with the setpoint that the plant still has if its newest one had no effect.

    Args:
        is_without_mode: Whether the plant has not applied a mode, which is issued again.
    """
    command_id = site.setpoint_command_id
    end = None if command_id is None else ends.get(command_id)
    if end is None:
        return site
    if end.status is CommandStatus.APPLIED:
        return await _with_duration_from_arrival(db, site) if command_id in partner_commands else site
    # The service issues a setpoint again behind a mode. The plant drops the one before with the mode, unless it refuses that.
    is_kept = command_id in partner_commands or is_without_mode
    held = await store.setpoint_in_force(db, site.plant_id) if is_kept else None
    if held is None or await _is_before_step(db, site.plant_id, held, end.at):
        # The plant has dropped the step too, or the setpoint has replaced one that the plant refused.
        await sites.reopen_intervals(db, [site.plant_id], end.at)
    return _with_setpoint(site, held)


async def _with_duration_from_arrival(db: Connection, site: Site) -> Site:
    """Return the site with the end of a partner's setpoint that the plant has just applied, and counts from its arrival."""
    held = await store.setpoint_in_force(db, site.plant_id) if site.setpoint_ends_at is not None else None
    return _with_setpoint(site, held) if held is not None and held.command_id == site.setpoint_command_id else site


async def _is_before_step(db: Connection, plant_id: UUID, held: HeldSetpoint, now: datetime) -> bool:
    """Return whether a setpoint is over, or the partner sent it before the interval at `now` began."""
    if held.ends_at is not None and held.ends_at <= now:
        return True
    began = await sites.start_of_interval(db, plant_id, now)
    return held.schedule is None and began is not None and held.issued_at < began


async def _without_refused_setpoint(db: Connection, site: Site, refused: Mapping[UUID, Transition]) -> Site:
    """Return the site without a setpoint that the service has issued again, if the plant has refused the partner's command.

    The partner reads the refusal. The plant may have got the second one, and drops it when it receives a mode.
    """
    own = {command_id: end.at for command_id, end in refused.items() if end.plant_id == site.plant_id}
    if site.setpoint_command_id is None or not own:
        return site
    repetition = await store.find_repetition(db, site.setpoint_command_id, own)
    if repetition is None:
        return site
    if repetition.is_newest:
        due_at = max(own.values())
        place = max(due_at, repetition.issued_at + A_MOMENT)
        mode = Unconfirmed(plant_id=site.plant_id, kind=Kind.MODE, command_id=None, issued_at=place, due_at=due_at)
        await store.expect(db, mode)
    return _with_setpoint(site, None)


async def _with_late_setpoint(db: Connection, site: Site, late: Collection[UUID]) -> Site:
    """Return the site with the setpoint that the plant has after all, if it is one of the commands `late`."""
    held = await store.setpoint_in_force(db, site.plant_id, late)
    if held is None or held.schedule is not None or held.command_id not in late:
        return site
    return replace(site, setpoint_ends_at=held.ends_at, setpoint_command_id=held.command_id)


async def _with_setpoint_in_force(db: Connection, site: Site) -> Site:
    return _with_setpoint(site, await store.setpoint_in_force(db, site.plant_id))


def _with_setpoint(site: Site, held: HeldSetpoint | None) -> Site:
    if held is None or held.schedule is not None:
        return replace(site, setpoint_ends_at=None, setpoint_command_id=None)
    return replace(site, setpoint_ends_at=held.ends_at, setpoint_command_id=held.command_id)


async def _apply(db: Connection, site: Site, row: Unconfirmed, end: Transition, is_partner_command: bool) -> Site:
    if end.status is CommandStatus.EXPIRED:
        await store.set_due(db, site.plant_id, row.kind, end.at)
    elif end.status is CommandStatus.APPLIED:
        await store.delete(db, site.plant_id, row.kind)
    elif row.kind is Kind.MODE:
        return await _restore_mode(db, site, row, end, is_partner_command)
    elif row.kind is Kind.SCHEDULE:
        return await _restore_schedule(db, site, row, end)
    else:
        await _issue_again(db, row, end)
    if row.kind is Kind.STEP and end.status is not CommandStatus.EXPIRED and site.setpoint_command_id is not None:
        return await _with_setpoint_in_force(db, site)  # a step that the plant applied ended the setpoint before it
    return site


async def _issue_again(db: Connection, row: Unconfirmed, end: Transition) -> None:
    """Issue a row again: after a pause if the plant failed, or when it connects if it has rejected the command.

    A failure passes, such as that of an inverter that starts. The pause is as long as the plant has failed so far. Each
    attempt of a step is a new row, so the time counts from the start of its interval.
    """
    due_at = None
    if end.status is CommandStatus.FAILED:
        began = row.issued_at
        if row.kind is Kind.STEP:
            began = await sites.start_of_interval(db, row.plant_id, end.at) or began
        due_at = end.at + min(_LONGEST_PAUSE, max(_PAUSE, end.at - began))
    await store.set_due(db, row.plant_id, row.kind, due_at)


async def _restore_mode(db: Connection, site: Site, row: Unconfirmed, end: Transition, is_partner_command: bool) -> Site:
    """Return the site with the override from before a refused mode.

    An emergency stop stays, and so does an override that the plant has applied before.
    """
    refused = site.override_command_id or (row.command_id if is_partner_command else None)
    if refused is None or site.mode(end.at) is Mode.EMERGENCY_STOP or await _is_repetition(db, row, refused, end):
        await _issue_again(db, row, end)
        return site
    restored = await _with_override_before(db, site, refused, end.at)
    if site.override is None:
        restored = await _with_setpoint_before(db, restored, end.at)
    held = await _setpoint_after(db, restored, end.at)
    if restored == site:
        await _issue_again(db, row, end)
    elif end.status is CommandStatus.REJECTED and row.confirmed_mode is restored.mode(end.at):
        await store.delete(db, site.plant_id, Kind.MODE)  # the plant still has this mode
        if held is not None:  # it has replaced the step that began before it, which the refused mode held back
            await sites.mark_done(db, site.plant_id, held.issued_at)
    else:
        # The plant ends its setpoint when it receives the mode. Behind the mode, the setpoint is issued again.
        place = row.issued_at if held is None else min(row.issued_at, held.issued_at - A_MOMENT)
        await store.expect(db, replace(row, command_id=None, issued_at=place, due_at=end.at, confirmed_mode=None))
        if held is None and restored.override is None and restored.setpoint_command_id is not None:
            newest = await store.setpoint_in_force(db, site.plant_id, [restored.setpoint_command_id])
            if newest is None or newest.command_id != restored.setpoint_command_id:
                return _with_setpoint(restored, None)  # the plant drops it when it receives the mode
    return restored


async def _with_setpoint_before(db: Connection, site: Site, now: datetime) -> Site:
    """Return the site with the partner's setpoint that a refused AUTO was to end, unless the site's override has ended it."""
    held = await store.setpoint_in_force(db, site.plant_id)
    if held is None or held.schedule is not None or (held.ends_at is not None and held.ends_at <= now):
        return site
    if site.override is not None and held.issued_at < site.override.set_at:
        return site
    return _with_setpoint(site, held)


async def _is_repetition(db: Connection, row: Unconfirmed, command_id: UUID, end: Transition) -> bool:
    """Return whether the row's command repeats what a partner set by the command `command_id`, which stays in force.

    It does if the plant has applied it: the plant refuses the repetition, not the order. It also does after a failure, which
    passes: the partner has read that its own command expired, and would not learn that the order has ended.
    """
    if row.command_id == command_id:
        return False
    return end.status is CommandStatus.FAILED or await store.was_applied(db, command_id)


async def _setpoint_after(db: Connection, site: Site, now: datetime) -> HeldSetpoint | None:
    """Return the partner's setpoint that is in force at a site whose mode is restored, if it was sent after that mode."""
    held = await store.setpoint_in_force(db, site.plant_id)
    if held is None or held.command_id != site.setpoint_command_id or (held.ends_at is not None and held.ends_at <= now):
        return None
    return None if site.override is not None and held.issued_at < site.override.set_at else held


async def _with_override_before(db: Connection, site: Site, refused: UUID, now: datetime) -> Site:
    without = replace(site, override=None, override_power_kw=None, override_command_id=None)
    before = await store.predecessor(db, site.plant_id, _MODES, refused)
    if before is None:
        return without
    command = _opened(CommandKind.MODE, before.payload)
    if not isinstance(command, ModeCommand):
        return without
    expires_at = None if command.mode is Mode.EMERGENCY_STOP else command.expires_at
    if command.mode is Mode.AUTO or (expires_at is not None and expires_at <= now):
        return without
    override = ModeOverride(command.mode, str(before.api_key_id), before.created_at, expires_at)
    return replace(site, override=override, override_power_kw=command.power_kw, override_command_id=before.id)


async def _restore_schedule(db: Connection, site: Site, row: Unconfirmed, end: Transition) -> Site:
    """Return the site with the schedule from before a refused schedule or a refused cancellation."""
    if site.schedule_command_id is not None and await _is_repetition(db, row, site.schedule_command_id, end):
        await _issue_again(db, row, end)
        return site
    last = None
    if site.schedule_command_id is not None:
        last = await store.predecessor(db, site.plant_id, [CommandType.SCHEDULE], site.schedule_command_id)
    intervals = _intervals(last.routing_key, last.payload) if last is not None else []
    await sites.delete_intervals(db, site.plant_id)
    before = last if any(interval.end > end.at for interval in intervals) else None
    restored = None if before is None else {name: before.payload[name] for name in ("scheduleId", "revision")}
    held = await store.setpoint_in_force(db, site.plant_id)
    if held is not None and held.schedule not in (None, restored) and held.ends_at is not None and held.ends_at > end.at:
        # A step of the refused schedule. The plant drops it when it receives a mode.
        mode = Unconfirmed(plant_id=site.plant_id, kind=Kind.MODE, command_id=None, issued_at=end.at, due_at=end.at)
        await store.expect(db, mode)
    if before is None:
        await store.delete(db, site.plant_id, Kind.SCHEDULE, Kind.STEP)
        schedule_id, revision = await _last_schedule(db, site, last)
        return replace(
            site, schedule_id=schedule_id, schedule_revision=revision, schedule_ends_at=None, schedule_command_id=None
        )
    await sites.insert_intervals(db, site.plant_id, intervals)
    if held is not None and held.schedule is None:  # a partner's setpoint has replaced the steps that began before it
        await sites.mark_done(db, site.plant_id, held.issued_at)
    await store.expect(db, replace(row, command_id=None, due_at=end.at))
    return replace(
        site,
        schedule_id=before.payload["scheduleId"],
        schedule_revision=before.payload["revision"],
        schedule_ends_at=max(interval.end for interval in intervals),
        schedule_command_id=before.id,
    )


async def _last_schedule(db: Connection, site: Site, last: Predecessor | None) -> tuple[str | None, int | None]:
    """Return the id and the revision of the schedule before a refused one, even if it is over or was cancelled.

    The partner may send a refused revision again.

    Args:
        last: The newest schedule or cancellation before the refused one.
    """
    if site.schedule_command_id is None:
        return site.schedule_id, site.schedule_revision
    if last is not None and not _sets(last.routing_key):
        last = await store.predecessor(db, site.plant_id, [CommandType.SCHEDULE], last.id)
    if last is None or not _sets(last.routing_key):
        return None, None
    return last.payload["scheduleId"], last.payload["revision"]


def _sets(routing_key: str) -> bool:
    """Return whether a schedule command sets a schedule; otherwise it cancels one."""
    return routing_key.endswith(".set")


def _intervals(routing_key: str, payload: Mapping[str, object]) -> Sequence[ScheduleInterval]:
    """Return the intervals of a partner command in the log. A cancellation has none."""
    if not _sets(routing_key):
        return []
    command = _opened(CommandKind.SCHEDULE_SET, payload)
    if not isinstance(command, ScheduleSet):
        return []
    return [ScheduleInterval(one.start, one.duration_seconds, one.power_kw) for one in command.intervals]


def _opened(kind: CommandKind, payload: Mapping[str, object]) -> Heading | None:
    """Return a partner command of the log; None if an earlier release has stored it without a member that it could not read."""
    try:
        return open_command(kind, msgspec.json.encode(payload))
    except msgspec.DecodeError:
        return None
