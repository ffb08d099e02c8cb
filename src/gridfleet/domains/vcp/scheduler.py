"""Commands that the service itself sends at set times: schedule steps, ends of overrides, fallbacks.

Each is found by a state in the database. The transaction that issues the plant command changes that state, so each happens
once, even if a process is restarted at any moment.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.plants.commands.models import LONGEST_WAIT, NewPlantCommand
from gridfleet.domains.plants.commands.relaying import relay_all
from gridfleet.domains.telemetry.clocks import is_clock_behind
from gridfleet.domains.vcp.confirmation import store as confirmation
from gridfleet.domains.vcp.confirmation.dispatch import A_MOMENT, RETRY, issue_due, own_command
from gridfleet.domains.vcp.confirmation.models import Kind, Unconfirmed
from gridfleet.domains.vcp.rules import power_fits
from gridfleet.domains.vcp.shards import SHARDS
from gridfleet.domains.vcp.sites.due import store
from gridfleet.domains.vcp.sites.due.store import DueInterval, Selection
from gridfleet.kernel.db import Connection
from gridfleet.protocol.envelope import CommandType

__all__ = ["Selection", "correct_silence", "issue_due_commands", "list_sites", "reopen_early_steps"]

_BATCH: Final = 200
_STEPS: Final = 1_000
"""Steps that are claimed at once. Before each claim, all schedules are searched for other work: 20,000 sites may have a step at
the same time.
"""
_ALL: Final = Selection()
_NEXT_SETPOINT: Final = timedelta(seconds=2)
"""Time after a setpoint in which its partner may send the next one, before the schedule continues."""


async def issue_due_commands(
    db: Connection,
    now: datetime,
    selection: Selection = _ALL,
    fallback_shards: Collection[int] = range(SHARDS),
    *,
    ahead: timedelta = timedelta(0),
) -> int:
    """Process what is due at the selected sites: up to 1,000 schedule steps, and of each other kind up to 200 sites.

    The other kinds are ended overrides, schedules and setpoints, fallbacks, and commands that are issued again.

    Args:
        db: The connection.
        now: The current time.
        selection: The sites.
        fallback_shards: Shards of the organisations whose sites start their fallback if their partner is silent.
        ahead: How far the commands are placed before those that others issue at `now`.

    Returns:
        The number of schedules ended, commands issued and schedule steps claimed; 0 means that nothing else is due. The end
        of an override and the start of a fallback count when their mode is issued.
    """
    # First, because a step may follow the mode, and the mode must not undo the step.
    await _expect_modes(db, await store.end_overrides(db, now, _BATCH, selection), now - ahead - A_MOMENT, now)
    ended = await store.end_schedules(db, now, _BATCH, selection)
    if fallback_shards:
        await _expect_modes(db, await store.start_fallbacks(db, now, _BATCH, selection, fallback_shards), now, now)
    issued = await issue_due(db, now, _BATCH, selection)
    return ended + issued + await _step_schedules(db, now, selection, now - ahead)


async def correct_silence(db: Connection) -> int:
    """Set the start of partners' silence, and of sites, to now where a clock that was ahead has set it to the future.

    If the clock is behind now, nothing changes: otherwise the partners would seem silent for years once it is corrected.
    Returns the number of corrected times.
    """
    return 0 if await is_clock_behind(db) else await store.correct_silence(db) + await store.correct_openings(db)


async def reopen_early_steps(db: Connection) -> int:
    """Let schedule steps be issued at their time that a clock that was ahead has issued before. Returns their number.

    If the clock is behind now, nothing changes: all steps would seem to have been issued too early.
    """
    return 0 if await is_clock_behind(db) else await store.reopen_early_intervals(db)


async def list_sites(db: Connection, without: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    """Return the plants of all sites other than those in `without`, by organisation."""
    return await store.list_ids(db, without)


async def _expect_modes(db: Connection, plants: Sequence[UUID], issued_at: datetime, now: datetime) -> None:
    rows = [Unconfirmed(plant_id=one, kind=Kind.MODE, command_id=None, issued_at=issued_at, due_at=now) for one in plants]
    if rows:
        await confirmation.expect_all(db, rows)


async def _step_schedules(db: Connection, now: datetime, selection: Selection, issued_at: datetime) -> int:
    """Claim the due steps and issue them. Steps that were missed or exceed the site's limits are skipped.

    A step that a setpoint has replaced for a time is due again after it. `issued_at` is the steps' place among the commands of
    their plants.
    """
    if replaced := await store.lock_after_setpoints(db, now, now - _NEXT_SETPOINT, _BATCH, selection):
        await store.reopen_after_setpoints(db, replaced, now)
    claimed = await store.claim_due_intervals(db, now, _STEPS, selection)
    steps = [step for step in claimed if step.end_at > now and power_fits(step.constraints, step.power_kw)]
    if steps:
        # Many sites have a step at the same time. One statement for each would delay the others by seconds.
        commands = [_command(step, now, issued_at) for step in steps]
        issued = await relay_all(db, commands)
        await confirmation.expect_all(db, [_expected(command, issued, now) for command in commands])
    return len(claimed)


def _command(step: DueInterval, now: datetime, issued_at: datetime) -> NewPlantCommand:
    content: dict[str, Any] = {
        "powerKw": step.power_kw,
        "params": {"durationSeconds": max(1, round((step.end_at - now).total_seconds()))},
        "schedule": {"scheduleId": step.schedule_id, "revision": step.schedule_revision},
    }
    return own_command(step.plant_id, CommandType.SITE_SETPOINT, content, issued_at, min(step.end_at, now + LONGEST_WAIT), now)


def _expected(command: NewPlantCommand, issued: Collection[UUID], now: datetime) -> Unconfirmed:
    if command.id in issued:
        return Unconfirmed(plant_id=command.plant_id, kind=Kind.STEP, command_id=command.id, issued_at=command.issued_at)
    return Unconfirmed(
        plant_id=command.plant_id, kind=Kind.STEP, command_id=None, issued_at=command.issued_at, due_at=now + RETRY
    )
