"""What the service itself tells plants, in time: steps of schedules, the end of overrides, fallbacks.

Each is found by a state in the database and struck off in the transaction that issues the plant's command, so it happens
once, whoever restarts whenever.
"""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace

from gridfleet.domains.plants.commands.models import LONGEST_WAIT, NewCommand, Requester
from gridfleet.domains.plants.commands.relaying import relay
from gridfleet.domains.vcp.rules import power_fits
from gridfleet.domains.vcp.sites import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Mode

__all__ = ["A_MOMENT", "return_to_auto", "steer"]

_MODE_LIFE: Final = timedelta(hours=1)
_BATCH: Final = 200
A_MOMENT: Final = timedelta(milliseconds=1)
"""Commands to a plant leave in the order in which they were issued."""


async def steer(db: Connection, system: SystemScope, now: datetime) -> int:
    """Does what is due, up to a few hundred things; how many were done."""
    return (
        await _end_overrides(db, system, now)
        + await _step_schedules(db, system, now)
        + await _fall_back(db, system, now)
        + await store.end_schedules(db, system, now, _BATCH)
    )


async def return_to_auto(db: Connection, system: SystemScope, plant_id: UUID, now: datetime) -> None:
    """Tells the plant to run by itself."""
    await _set_mode(db, system, plant_id, Mode.AUTO, now)


async def _end_overrides(db: Connection, system: SystemScope, now: datetime) -> int:
    sites = await store.claim_ended_overrides(db, system, now, _BATCH)
    for site in sites:
        site = replace(site, override=None, override_command_id=None)
        await _set_mode(db, system, site.plant_id, site.mode(now), now - A_MOMENT)  # a step may follow, which it must not undo
        await store.save_site(db, system, site)
        await store.reopen_interval(db, system, site.plant_id, now)  # the plant forgot its setpoint over the mode
    return len(sites)


async def _step_schedules(db: Connection, system: SystemScope, now: datetime) -> int:
    """A step that was missed, or that the site's limits do not allow any more, is passed over."""
    steps = await store.claim_due_intervals(db, system, now, _BATCH)
    for step in steps:
        if step.end_at <= now or step.lifecycle_status != "ACTIVE" or not power_fits(step.constraints, step.power_kw):
            continue
        content = {
            "powerKw": step.power_kw,
            "params": {"durationSeconds": max(1, round((step.end_at - now).total_seconds()))},
            "schedule": {"scheduleId": step.schedule_id, "revision": step.schedule_revision},
        }
        await _issue(db, system, step.plant_id, CommandType.SITE_SETPOINT, content, now, min(step.end_at, now + LONGEST_WAIT))
    return len(steps)


async def _fall_back(db: Connection, system: SystemScope, now: datetime) -> int:
    sites = await store.claim_silent(db, system, now, _BATCH)
    for site in sites:
        site = replace(site, fallback_since=now)
        await _set_mode(db, system, site.plant_id, site.mode(now), now)
        await store.save_site(db, system, site)
    return len(sites)


async def _set_mode(db: Connection, system: SystemScope, plant_id: UUID, mode: Mode, now: datetime) -> None:
    await _issue(db, system, plant_id, CommandType.MODE_CHANGE, {"mode": mode.value}, now, now + _MODE_LIFE)


async def _issue(
    db: Connection,
    system: SystemScope,
    plant_id: UUID,
    kind: CommandType,
    content: dict[str, Any],
    now: datetime,
    expires_at: datetime,
) -> None:
    command = NewCommand(
        id=new_id(),
        plant_id=plant_id,
        sub_device_id=None,
        type=kind,
        target=None,
        instruction=content,
        requester=Requester("SYSTEM", None),
        issued_at=now,
        expires_at=expires_at,
    )
    await relay(db, system, command)
