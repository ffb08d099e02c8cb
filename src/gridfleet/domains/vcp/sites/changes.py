"""Changes of a site by accepted partner commands."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from gridfleet.domains.plants.commands.models import NewPlantCommand
from gridfleet.domains.vcp.confirmation import store as confirmation
from gridfleet.domains.vcp.confirmation.dispatch import A_MOMENT, is_replaced, issue_modes, issue_starts
from gridfleet.domains.vcp.confirmation.models import Kind, Unconfirmed
from gridfleet.domains.vcp.rules import changed_constraints, changed_fallback, power_fits
from gridfleet.domains.vcp.sites import store
from gridfleet.domains.vcp.sites.models import Constraints, ModeOverride, ScheduleInterval, Site
from gridfleet.kernel.db import Connection
from gridfleet.protocol.partner_messages import (
    ConstraintsCommand,
    FallbackCommand,
    Heading,
    Mode,
    ModeCommand,
    ScheduleCancel,
    ScheduleSet,
    SetpointCommand,
)

__all__ = ["change_site"]

_CONFIRMED: Final = {
    ScheduleSet: Kind.SCHEDULE,
    ScheduleCancel: Kind.SCHEDULE,
    ConstraintsCommand: Kind.LIMITS,
    FallbackCommand: Kind.FALLBACK,
}
"""What the plant has to confirm after each of these commands. Modes are treated by themselves."""


async def change_site(
    db: Connection, command: Heading, site: Site, issued: NewPlantCommand, set_by: str, now: datetime
) -> None:
    """Save the site as it is after an accepted command.

    Args:
        command: The accepted command.
        site: The site before the command, locked by this transaction.
        issued: The plant command that follows.
        set_by: The API key's id.
        now: The time of acceptance.
    """
    after = await _after(db, command, site, issued.id, set_by, now)
    await store.save_site(db, after)
    await _expect_confirmation(db, command, site, after, issued, now)


async def _after(db: Connection, command: Heading, site: Site, command_id: UUID, set_by: str, now: datetime) -> Site:
    """Return the site after an accepted command. Schedule intervals are written here."""
    new = replace(site, silent_from=max(site.silent_from, now), fallback_since=None)
    match command:
        case ModeCommand(mode=Mode.AUTO):
            # The plant drops its setpoint when it receives a mode, even the mode that it has.
            await store.reopen_intervals(db, [site.plant_id], now)
            return replace(
                new,
                override=None,
                override_power_kw=None,
                override_command_id=None,
                setpoint_ends_at=None,
                setpoint_command_id=None,
            )
        case ModeCommand(mode=mode, power_kw=power_kw):
            end = None if mode is Mode.EMERGENCY_STOP else command.expires_at
            override = ModeOverride(mode, set_by, now, end)
            return replace(new, override=override, override_power_kw=power_kw, override_command_id=command_id)
        case SetpointCommand(duration_seconds=None):
            return replace(new, setpoint_ends_at=None, setpoint_command_id=command_id)
        case SetpointCommand(duration_seconds=int(seconds)):
            return replace(new, setpoint_ends_at=now + timedelta(seconds=seconds), setpoint_command_id=command_id)
        case ScheduleSet(schedule_id=schedule_id, revision=revision, intervals=asked):
            intervals = [ScheduleInterval(one.start, one.duration_seconds, one.power_kw) for one in asked]
            await store.delete_intervals(db, site.plant_id)
            await store.insert_intervals(db, site.plant_id, intervals)
            return replace(
                new,
                schedule_id=schedule_id,
                schedule_revision=revision,
                schedule_ends_at=max(one.end for one in intervals),
                schedule_command_id=command_id,
            )
        case ScheduleCancel():
            await store.delete_intervals(db, site.plant_id)
            return replace(new, schedule_ends_at=None, schedule_command_id=command_id)
        case ConstraintsCommand(constraints=changes):
            constraints = changed_constraints(site.constraints, changes)
            await _reopen_skipped(db, site, constraints, now)
            return replace(new, constraints=constraints)
        case FallbackCommand(fallback=changes):
            return replace(new, fallback=changed_fallback(site.fallback, changes))
    return new


async def _reopen_skipped(db: Connection, site: Site, constraints: Constraints, now: datetime) -> None:
    """Let the current step be issued if the limits before did not allow it, unless a partner's setpoint has replaced it."""
    for step in await store.intervals_of(db, site.plant_id):
        is_allowed = power_fits(constraints, step.power_kw) and not power_fits(site.constraints, step.power_kw)
        if step.start <= now < step.end and is_allowed and not await is_replaced(db, site.plant_id, step.start, now):
            await store.reopen_intervals(db, [site.plant_id], now)


async def _expect_confirmation(
    db: Connection, command: Heading, before: Site, after: Site, issued: NewPlantCommand, now: datetime
) -> None:
    """Insert the mode, schedule, limits or fallback that the plant has to confirm.

    Any other command ends an active fallback. The mode is then issued before the command itself.
    """
    # The plant has an override that has ended until the mode that ends it is issued.
    mode = before.mode(now) if before.override is None else before.override.mode
    plant_id, issued_at = issued.plant_id, issued.issued_at
    row = Unconfirmed(plant_id=plant_id, kind=Kind.MODE, command_id=issued.id, issued_at=issued_at, confirmed_mode=mode)
    if isinstance(command, ModeCommand):
        if mode is Mode.EMERGENCY_STOP:  # the plant refuses everything else until it has the AUTO that ends the stop
            row = replace(row, stop_ended_at=issued_at)
            await confirmation.follow_stop(db, plant_id, issued_at + A_MOMENT, now)
        stored = await confirmation.expect(db, row)
        if command.mode is not Mode.EMERGENCY_STOP:
            await issue_starts(db, [stored], now)
        return
    if before.fallback_since is not None:
        row = replace(row, command_id=None, issued_at=issued_at - A_MOMENT, due_at=now)
        await issue_modes(db, [(after, await confirmation.expect(db, row))], now)
    kind = _CONFIRMED.get(type(command))
    if kind is Kind.LIMITS:
        await confirmation.keep_fallback(db, plant_id)
    if kind is not None:
        await confirmation.expect(db, Unconfirmed(plant_id=plant_id, kind=kind, command_id=issued.id, issued_at=issued_at))
