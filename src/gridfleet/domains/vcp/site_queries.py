"""Queries of a site by partners over REST. A site that does not exist or that the caller may not see is forbidden."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.telemetry.energy.metering import metered_energy
from gridfleet.domains.vcp import store
from gridfleet.domains.vcp.models import LogEntry, ModeOverride, Schedule, Site, SiteConfiguration
from gridfleet.domains.vcp.sites import store as sites
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.protocol.envelope import CommandType

__all__ = ["MeterReading", "list_log", "list_meter_readings", "list_recent_commands", "read_configuration"]

_HISTORY: Final = timedelta(hours=24)
_LONGEST_SPAN: Final = timedelta(hours=48)
_MOST_COMMANDS: Final = 1_000
_MINUTE: Final = timedelta(minutes=1)
_QUARTER: Final = 15 * _MINUTE


class MeterReading(msgspec.Struct, frozen=True):
    """The energy of a meter in the `interval` minutes from `time`, in kWh: import minus export."""

    time: datetime
    plant_id: UUID
    meter_id: str
    interval: int
    energy: float


async def read_configuration(db: Connection, org: OrgScope, plant_id: UUID, now: datetime) -> SiteConfiguration:
    """Return the site's configuration. Raises Forbidden."""
    site = await _site(db, org, plant_id)
    schedule = None
    if site.schedule_ends_at is not None and site.schedule_ends_at > now and site.schedule_id is not None:
        intervals = await sites.intervals(db, org, plant_id)
        schedule = Schedule(site.schedule_id, site.schedule_revision or 0, intervals)
    return SiteConfiguration(
        plant_id,
        site.mode(now),
        site.constraints,
        site.fallback,
        _holding(site.override, now),
        schedule,
        await store.pending(db, org, plant_id),
    )


def _holding(override: ModeOverride | None, now: datetime) -> ModeOverride | None:
    if override is None or (override.expires_at is not None and override.expires_at <= now):
        return None
    return override


async def list_recent_commands(db: Connection, org: OrgScope, plant_id: UUID, now: datetime) -> list[LogEntry]:
    """Return the commands of the last 24 hours and the open ones, newest first, at most 1,000. Raises Forbidden."""
    await _site(db, org, plant_id)
    return await store.recent(db, org, plant_id, now - _HISTORY, _MOST_COMMANDS)


async def list_log(
    db: Connection, org: OrgScope, plant_id: UUID, command_type: CommandType | None, paging: Paging
) -> Page[LogEntry]:
    """Return one page of all partner commands of a plant, refused ones too, newest first. Raises PlantNotFound."""
    await get_plant(db, org, plant_id)
    entries = await store.log_page(db, org, plant_id, command_type, paging)
    return Page.of(entries, await store.log_count(db, org, plant_id, command_type), paging)


async def list_meter_readings(
    db: Connection, org: OrgScope, plant_id: UUID, start: datetime, end: datetime
) -> list[MeterReading]:
    """Return the readings of whole quarter hours between `start` and `end`, sorted.

    Raises:
        Forbidden: the site does not exist or the caller may not see it.
        ValidationFailed: the span is empty or longer than 48 hours.
    """
    if start >= end:
        raise ValidationFailed(details=["from: must be before to"])
    if end - start > _LONGEST_SPAN:
        raise ValidationFailed(details=["from: must be at most 48 hours before to"])
    await _site(db, org, plant_id)
    quarters = [quarter async for quarter in metered_energy(db, org, plant_id, start, end, _QUARTER)]
    return [
        MeterReading(quarter.start, plant_id, quarter.external_id, _QUARTER // _MINUTE, quarter.energy)
        for quarter in sorted(quarters)
    ]


async def _site(db: Connection, org: OrgScope, plant_id: UUID) -> Site:
    site = await sites.find_site(db, org, plant_id)
    if site is None:
        raise Forbidden("There is no such site, or you have no access to it.")
    return site
