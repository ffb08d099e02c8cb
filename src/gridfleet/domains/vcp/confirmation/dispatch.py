"""Issue modes, schedules, schedule steps and limits to plants, for the first time or again."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import msgspec

from gridfleet.domains.plants.commands.models import LONGEST_WAIT, NewPlantCommand, Requester
from gridfleet.domains.plants.commands.relaying import relay, relay_all
from gridfleet.domains.vcp.confirmation import store
from gridfleet.domains.vcp.confirmation.models import Kind, LaterSetpoint, Unconfirmed
from gridfleet.domains.vcp.rules import written_intervals
from gridfleet.domains.vcp.sites import store as sites
from gridfleet.domains.vcp.sites.due.store import Selection
from gridfleet.domains.vcp.sites.models import Site
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Mode

__all__ = ["A_MOMENT", "RETRY", "complete_missed", "is_replaced", "issue_due", "issue_modes", "issue_starts", "own_command"]

A_MOMENT: Final = timedelta(milliseconds=1)
"""Offset that places one command before another: a plant gets its commands in the order of their issue times."""

RETRY: Final = timedelta(seconds=10)
"""Delay before the next attempt when a command is not queued because too many others wait for the plant."""


async def issue_due(db: Connection, now: datetime, limit: int, selection: Selection) -> int:
    """Issue what is due at up to `limit` of the selected sites.

    Returns:
        The number of commands issued. Schedule steps are not counted: their intervals are reopened.
    """
    locked = await store.lock_due(db, now, limit, selection)
    if not locked:
        return 0
    held = {site.plant_id: site for site in await sites.read_locked(db, locked)}
    rows = [row for row in await store.of_plants(db, locked) if row.due_at is not None and row.due_at <= now]
    issued = await issue_modes(db, [(held[row.plant_id], row) for row in rows if row.kind is Kind.MODE], now)
    for plant_id, due in groupby(rows, attrgetter("plant_id")):
        issued += await _issue_others(db, held[plant_id], {row.kind: row for row in due}, now)
    return issued


async def _issue_others(db: Connection, site: Site, due: Mapping[Kind, Unconfirmed], now: datetime) -> int:
    """Issue what is due at a site, except its mode. Returns the number of commands issued."""
    issued = 0
    if site.mode(now) is not Mode.EMERGENCY_STOP:
        if limits := [due[kind] for kind in (Kind.LIMITS, Kind.FALLBACK) if kind in due]:
            issued += await _issue_limits(db, site, limits, now)
        if Kind.SCHEDULE in due:
            issued += await _issue_schedule(db, site, due[Kind.SCHEDULE], now)
    if Kind.STEP in due:
        if not await is_replaced(db, site.plant_id, due[Kind.STEP].issued_at, now):
            await sites.reopen_intervals(db, [site.plant_id], now)
        await store.delete(db, site.plant_id, Kind.STEP)
    return issued


async def is_replaced(db: Connection, plant_id: UUID, since: datetime, now: datetime) -> bool:
    """Return whether a partner's setpoint is in force that was issued after `since`, when a step was issued or began."""
    held = await store.setpoint_in_force(db, plant_id)
    if held is None or held.schedule is not None or held.issued_at <= since:
        return False
    return held.ends_at is None or held.ends_at > now


async def complete_missed(db: Connection, now: datetime) -> int:
    """Complete what a command left open that ended without its site. Returns the number of modes, schedules and steps.

    The end of a command is applied to its site in the same transaction, except by a gateway of an older release, and where it
    failed and was set aside.
    """
    return await store.complete_missed(db, now)


async def issue_modes(db: Connection, due: Sequence[tuple[Site, Unconfirmed]], now: datetime) -> int:
    """Issue the current modes of sites, with the issue times of their rows. Returns how many do not have to wait.

    Many sites change their mode at the same time. Several statements for each would delay the others by seconds.
    """
    commands = [_mode_command(site, row, now) for site, row in due]
    if not commands:
        return 0
    await issue_starts(db, [row for site, row in due if site.mode(now) is not Mode.EMERGENCY_STOP], now)
    ids = await relay_all(db, commands)
    issued = [(row, command.id) for (_, row), command in zip(due, commands, strict=True) if command.id in ids]
    for (_, row), command in zip(due, commands, strict=True):
        if command.id not in ids:
            await store.set_due(db, row.plant_id, row.kind, now + RETRY)
    await store.record_issues(db, issued)
    # The plants drop their setpoints when they receive a mode.
    await sites.reopen_intervals(db, [row.plant_id for row, _ in issued], now)
    starting = {row.plant_id for site, row in due if site.mode(now) is not Mode.EMERGENCY_STOP}
    later = await store.later_setpoints(db, [row for row, _ in issued if row.plant_id in starting], now)
    await _keep_setpoints(db, later, now)
    return len(issued)


async def _keep_setpoints(db: Connection, later: Sequence[LaterSetpoint], now: datetime) -> None:
    """Keep partners' setpoints that follow modes which their plants get late.

    Those that the plants may have by now are issued again, for the rest of their time.
    """
    for one in later:
        await sites.mark_done(db, one.plant_id, one.issued_at)  # it has replaced the step that began before it
    commands = {one.plant_id: _setpoint_command(one, now) for one in later if one.is_sent}
    if not commands:
        return
    ids = await relay_all(db, list(commands.values()))
    for plant_id, command in commands.items():
        if command.id in ids:
            await sites.set_setpoint(db, plant_id, command.id)


def _setpoint_command(later: LaterSetpoint, now: datetime) -> NewPlantCommand:
    issued_at = max(now, later.issued_at + A_MOMENT)
    content: dict[str, Any] = {"powerKw": later.power_kw}
    if later.ends_at is not None:
        content["params"] = {"durationSeconds": max(1, round((later.ends_at - issued_at).total_seconds()))}
    end = min(later.expires_at or later.ends_at or now + LONGEST_WAIT, now + LONGEST_WAIT)
    return own_command(later.plant_id, CommandType.SITE_SETPOINT, content, issued_at, end, now)


async def issue_starts(db: Connection, rows: Sequence[Unconfirmed], now: datetime) -> None:
    """Issue the AUTO again that ended an emergency stop, for modes that replaced it before the plant confirmed it.

    A stopped plant refuses all other modes. The first AUTO may expire before them.
    """
    content = {"mode": Mode.AUTO.value}
    commands = [
        own_command(row.plant_id, CommandType.MODE_CHANGE, content, row.stop_ended_at, now + LONGEST_WAIT, now)
        for row in rows
        if row.stop_ended_at is not None and row.stop_ended_at != row.issued_at
    ]
    if commands:
        await relay_all(db, commands)


def _mode_command(site: Site, row: Unconfirmed, now: datetime) -> NewPlantCommand:
    mode = site.mode(now)
    override = site.override if site.override is not None and site.override.mode is mode else None
    content: dict[str, Any] = {"mode": mode.value}
    if override is not None and site.override_power_kw is not None:
        content["powerKw"] = site.override_power_kw
    end = now + LONGEST_WAIT
    if override is not None and override.expires_at is not None:
        end = min(end, override.expires_at)
    kind = CommandType.EMERGENCY if mode is Mode.EMERGENCY_STOP else CommandType.MODE_CHANGE
    return own_command(row.plant_id, kind, content, row.issued_at, end, now)


async def _issue_schedule(db: Connection, site: Site, row: Unconfirmed, now: datetime) -> bool:
    """Issue the current schedule, without intervals if it was cancelled. Returns False if it has to wait."""
    intervals = [] if site.schedule_ends_at is None else await sites.intervals_of(db, site.plant_id)
    content = {
        "scheduleId": site.schedule_id,
        "revision": site.schedule_revision,
        "intervals": written_intervals(intervals),
    }
    return await _issue_again(db, [row], CommandType.SCHEDULE, {"schedule": content}, now, now + LONGEST_WAIT)


async def _issue_limits(db: Connection, site: Site, rows: Sequence[Unconfirmed], now: datetime) -> bool:
    """Issue the current limits and fallback, of which one or both are due. Returns False if they have to wait."""
    content = {"params": {"constraints": msgspec.to_builtins(site.constraints), "fallback": msgspec.to_builtins(site.fallback)}}
    return await _issue_again(db, rows, CommandType.CONFIG, content, now, now + LONGEST_WAIT)


async def _issue_again(
    db: Connection,
    rows: Sequence[Unconfirmed],
    kind: CommandType,
    content: dict[str, Any],
    now: datetime,
    expires_at: datetime,
) -> bool:
    """Issue a command for due rows of one plant, at the place of the last of them. Returns False if it has to wait."""
    issued_at = max(row.issued_at for row in rows)
    command = own_command(rows[0].plant_id, kind, content, issued_at, expires_at, now)
    if not await relay(db, command):
        for row in rows:
            await store.set_due(db, row.plant_id, row.kind, now + RETRY)
        return False
    await store.record_issues(db, [(row, command.id) for row in rows])
    return True


def own_command(
    plant_id: UUID, kind: CommandType, content: dict[str, Any], issued_at: datetime, expires_at: datetime, now: datetime
) -> NewPlantCommand:
    """Return a command of the service itself, to be issued at `now`; `issued_at` is its place among the plant's commands."""
    return NewPlantCommand(
        id=new_id(),
        plant_id=plant_id,
        sub_device_id=None,
        type=kind,
        target=None,
        instruction=content,
        requester=Requester("SYSTEM", None),
        issued_at=issued_at,
        expires_at=expires_at,
        due_at=min(issued_at, now),
    )
