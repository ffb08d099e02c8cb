"""Commands that the service itself sends at set times: schedule steps, ends of overrides, fallbacks.

Each is found by a state in the database. The transaction that issues the plant command changes that state, so each happens
once, even if a process is restarted at any moment.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from gridfleet.domains.plants.commands.models import LONGEST_WAIT
from gridfleet.domains.vcp.confirmation import store as confirmation
from gridfleet.domains.vcp.confirmation.dispatch import A_MOMENT, RETRY, issue_due, issue_own
from gridfleet.domains.vcp.confirmation.models import Kind, Unconfirmed
from gridfleet.domains.vcp.rules import power_fits
from gridfleet.domains.vcp.sites import store
from gridfleet.domains.vcp.sites.store import Selection
from gridfleet.kernel.db import Connection
from gridfleet.protocol.envelope import CommandType

__all__ = ["Selection", "correct_silence", "list_sites", "steer"]

_BATCH: Final = 200
_ALL: Final = Selection()


async def steer(db: Connection, now: datetime, selection: Selection = _ALL, *, falls_back: bool = True) -> int:
    """Process what is due, at up to a few hundred of the selected sites.

    Args:
        falls_back: Whether the fallback of a site whose partner is silent starts.

    Returns:
        The number of schedules ended, commands issued and schedule steps claimed; 0 means that nothing else is due.
    """
    await _end_overrides(db, now, selection)
    ended = await store.end_schedules(db, now, _BATCH, selection)
    if falls_back:
        await _fall_back(db, now, selection)
    issued = await issue_due(db, now, _BATCH, selection)
    return ended + issued + await _step_schedules(db, now, selection)


async def correct_silence(db: Connection) -> int:
    """Count the silence of partners from now where a clock that was ahead has set its start to the future.

    Returns the number of sites.
    """
    return await store.correct_silence(db)


async def list_sites(db: Connection, without: Sequence[UUID]) -> list[UUID]:
    """Return the plants of all sites other than those in `without`."""
    return await store.list_ids(db, without)


async def _end_overrides(db: Connection, now: datetime, selection: Selection) -> None:
    for site in await store.claim_ended_overrides(db, now, _BATCH, selection):
        assert site.override is not None
        end = site.override.expires_at or now
        # The plant dropped its setpoint when it received the override. A step may follow the mode, which must not undo it.
        new = replace(
            site,
            override=None,
            override_power_kw=None,
            override_command_id=None,
            setpoint_ends_at=None,
            setpoint_command_id=None,
            silent_from=max(site.silent_from, end),
        )
        await _issue_mode_soon(db, site.plant_id, now - A_MOMENT, now)
        await store.save_site(db, new)


async def _fall_back(db: Connection, now: datetime, selection: Selection) -> None:
    for site in await store.claim_silent(db, now, _BATCH, selection):
        await _issue_mode_soon(db, site.plant_id, now, now)
        await store.save_site(db, replace(site, fallback_since=now))


async def _issue_mode_soon(db: Connection, plant_id: UUID, issued_at: datetime, now: datetime) -> None:
    row = Unconfirmed(plant_id=plant_id, kind=Kind.MODE, command_id=None, issued_at=issued_at, due_at=now)
    await confirmation.expect(db, row)


async def _step_schedules(db: Connection, now: datetime, selection: Selection) -> int:
    """Claim the due steps and issue them. Steps that were missed or exceed the site's limits are skipped."""
    steps = await store.claim_due_intervals(db, now, _BATCH, selection)
    for step in steps:
        if step.end_at <= now or not power_fits(step.constraints, step.power_kw):
            continue
        content: dict[str, Any] = {
            "powerKw": step.power_kw,
            "params": {"durationSeconds": max(1, round((step.end_at - now).total_seconds()))},
            "schedule": {"scheduleId": step.schedule_id, "revision": step.schedule_revision},
        }
        end = min(step.end_at, now + LONGEST_WAIT)
        command_id = await issue_own(db, step.plant_id, CommandType.SITE_SETPOINT, content, now, end)
        due_at = now + RETRY if command_id is None else None
        await confirmation.expect(
            db,
            Unconfirmed(plant_id=step.plant_id, kind=Kind.STEP, command_id=command_id, issued_at=now, due_at=due_at),
        )
    return len(steps)
