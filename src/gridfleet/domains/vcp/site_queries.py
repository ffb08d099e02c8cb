"""Queries of a site by partners over REST. A site that does not exist or that the caller may not see is forbidden."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec

from gridfleet.domains.device_templates.roles import GRID_DEVICE
from gridfleet.domains.plants.commands.listing.powers import applied_powers
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.telemetry.computing import computed
from gridfleet.domains.telemetry.energy.metering import MeteredEnergy, metered_energy, metered_rows
from gridfleet.domains.trading.plans import accepted_before
from gridfleet.domains.vcp import store
from gridfleet.domains.vcp.adherence import PowerOrder, compared, orders_of, quarters_between, rounded
from gridfleet.domains.vcp.models import LogEntry
from gridfleet.domains.vcp.sites import store as sites
from gridfleet.domains.vcp.sites.models import (
    Adherence,
    ModeOverride,
    Schedule,
    ScheduleState,
    SentPlan,
    Site,
    SiteConfiguration,
    SiteFilter,
    SiteOverview,
    SitePast,
)
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = [
    "MOST_READINGS",
    "MeterReading",
    "list_log",
    "list_meter_readings",
    "list_recent_commands",
    "list_sites",
    "read_adherence",
    "read_configuration",
    "read_past",
]

_HISTORY: Final = timedelta(hours=24)
_OLDEST_OPEN: Final = timedelta(days=2)
"""Age up to which open commands are found. They wait for a day at most, and are then ended. The log has those of years."""
_LONGEST_SPAN: Final = timedelta(hours=48)
_MOST_COMMANDS: Final = 1_000
_MOST_COMMAND_BYTES: Final = 8 * 1024 * 1024
"""Payloads of a response. A thousand as large as possible would have 256 MiB."""
MOST_READINGS: Final = 200_000
"""Readings of a response, which is built in memory: those of a thousand meters in 48 hours."""
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
        await store.pending(db, org, plant_id, now - _OLDEST_OPEN, _MOST_COMMANDS),
    )


def _holding(override: ModeOverride | None, now: datetime) -> ModeOverride | None:
    if override is None or (override.expires_at is not None and override.expires_at <= now):
        return None
    return override


async def list_recent_commands(db: Connection, org: OrgScope, plant_id: UUID, now: datetime) -> list[LogEntry]:
    """Return the commands of the last 24 hours and the open ones, newest first.

    At most 1,000. The list also ends after the command with which the payloads reach 8 MiB.

    Raises:
        Forbidden: The site does not exist or the caller may not see it.
    """
    await _site(db, org, plant_id)
    since, open_since = now - _HISTORY, now - _OLDEST_OPEN
    return await store.recent(db, org, plant_id, since, open_since, _MOST_COMMANDS, _MOST_COMMAND_BYTES)


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
        Forbidden: The site does not exist or the caller may not see it.
        ValidationFailed: The span is empty or longer than 48 hours, or there are more than `MOST_READINGS` readings, or more
            than five times as many buckets would be computed.
    """
    _check_span(start, end)
    await _site(db, org, plant_id)

    def reading_of(quarter: MeteredEnergy) -> MeterReading:
        return MeterReading(quarter.start, plant_id, quarter.external_id, _QUARTER // _MINUTE, quarter.energy)

    return await metered_rows(metered_energy(db, org, plant_id, start, end, _QUARTER, most=MOST_READINGS), reading_of)


async def list_sites(db: Connection, org: OrgScope, wanted: SiteFilter, paging: Paging, now: datetime) -> Page[SiteOverview]:
    """Return one page of the sites that the caller may see and that match, newest plant first."""
    found = await sites.list_sites(db, org, wanted, now, paging)
    return Page.of([_overview(site, row, now) for site, row in found], await sites.count_sites(db, org, wanted, now), paging)


def _overview(site: Site, row: Mapping[str, Any], now: datetime) -> SiteOverview:
    schedule = None
    if site.schedule_ends_at is not None and site.schedule_ends_at > now and site.schedule_id is not None:
        schedule = ScheduleState(
            site.schedule_id, site.schedule_revision or 0, row["power_kw"], row["changes_at"], site.schedule_ends_at
        )
    return SiteOverview(
        site_id=site.plant_id,
        name=row["name"],
        serial_number=row["serial_number"],
        lifecycle_status=Lifecycle(site.lifecycle_status),
        status=PlantStatus(row["status"]),
        operating_mode=site.mode(now),
        mode_override=_holding(site.override, now),
        fallback=site.fallback,
        fallback_since=site.fallback_since,
        schedule=schedule,
    )


async def read_past(db: Connection, org: OrgScope, plant_id: UUID, moment: datetime, now: datetime) -> SitePast:
    """Return the schedule and the plan that a site had at a past time.

    Raises:
        Forbidden: The site does not exist or the caller may not see it.
        ValidationFailed: The time is in the future.
    """
    if moment > now:
        raise ValidationFailed(details=["at: must not be in the future"])
    await _site(db, org, plant_id)
    found = await store.schedule_set_before(db, org, plant_id, moment)
    schedule = None
    if found is not None and found.intervals and found.intervals[-1].end > moment:
        schedule = Schedule(found.schedule_id, found.revision, found.intervals)
    change = await accepted_before(db, org, plant_id, moment)
    plan = None
    if change is not None:
        blocks = msgspec.convert(change.config_snapshot["timeConfigs"], list[TimeBlock])
        plan = SentPlan(change.request_code, change.sent_at, change.config_snapshot["version"], blocks)
    return SitePast(plant_id, moment, schedule, found.set_at if found is not None and schedule is not None else None, plan)


async def read_adherence(
    db: Connection, org: OrgScope, plant_id: UUID, start: datetime, end: datetime, now: datetime
) -> Adherence:
    """Return how the power at the grid's meter followed the ordered one, by whole quarters of an hour that have ended.

    Raises:
        Forbidden: The site does not exist or the caller may not see it.
        ValidationFailed: The span is empty or longer than 48 hours.
    """
    _check_span(start, end)
    await _site(db, org, plant_id)
    end = max(start, min(end, now))
    quarters = quarters_between(start, end)
    orders: list[PowerOrder] = []
    measured: dict[datetime, float] = {}
    if quarters:
        applied = await applied_powers(db, org, plant_id, start, end)
        orders = await computed(partial(orders_of, applied, end), len(applied))
        async for quarter in metered_energy(db, org, plant_id, start, end, _QUARTER, meter=GRID_DEVICE):
            measured[quarter.start] = quarter.energy
    found = await computed(partial(compared, quarters, orders, measured), len(orders))
    deviations = [one.deviation_kw for one in found if one.deviation_kw is not None]
    hours = _QUARTER / timedelta(hours=1)
    both = [(one.ordered_kw, one.measured_kw) for one in found if one.ordered_kw is not None and one.measured_kw is not None]
    return Adherence(
        site_id=plant_id,
        start=start,
        end=end,
        compared_quarters=len(deviations),
        mean_deviation_kw=rounded(sum(map(abs, deviations)) / len(deviations)) if deviations else None,
        ordered_kwh=rounded(sum(ordered for ordered, _ in both) * hours),
        delivered_kwh=rounded(sum(delivered for _, delivered in both) * hours),
        quarters=found,
    )


def _check_span(start: datetime, end: datetime) -> None:
    if start >= end:
        raise ValidationFailed(details=["from: must be before to"])
    if end - start > _LONGEST_SPAN:
        raise ValidationFailed(details=["from: must be at most 48 hours before to"])


async def _site(db: Connection, org: OrgScope, plant_id: UUID) -> Site:
    site = await sites.find_site(db, org, plant_id)
    if site is None:
        raise Forbidden("There is no such site, or you have no access to it.")
    return site
