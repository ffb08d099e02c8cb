"""`/api/v1/vcp/sites`: data of sites for trading partners. The id of a site is the id of its plant."""

from datetime import datetime
from typing import Annotated, cast
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Input, PageQuery, S, endpoint, org_member
from gridfleet.api.http.json_out import list_to_json
from gridfleet.domains.vcp import site_queries
from gridfleet.domains.vcp.models import LogEntry
from gridfleet.domains.vcp.site_queries import MeterReading
from gridfleet.domains.vcp.sites.models import Adherence, SiteConfiguration, SiteFilter, SiteOverview, SitePast
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class SiteMeterQuery(Input):
    """Time range of at most 48 hours. `to` defaults to now."""

    start: datetime = Field(alias="from")
    end: datetime | None = Field(alias="to", default=None)


class SiteQuery(PageQuery):
    """Filter of sites, which all given parameters must match. `q` is a part of the plant's name or serial number.

    `override`, `fallback` and `schedule` say whether an override or a schedule is in force, or the fallback active.
    """

    q: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    override: bool | None = None
    fallback: bool | None = None
    schedule: bool | None = None


class PastQuery(Input):
    """A time that is not in the future. Defaults to now."""

    at: datetime | None = None


class SiteCommands(msgspec.Struct, frozen=True):
    """Partner commands, newest first."""

    commands: list[LogEntry]


class MeterReadings(msgspec.Struct, frozen=True):
    """Meter readings by time."""

    readings: list[MeterReading]


@endpoint(
    "GET",
    "/api/v1/vcp/sites",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_sites(org: OrgScope, db: Connection, query: SiteQuery) -> Page[SiteOverview]:
    """List the sites with mode, override, fallback and the state of the schedule, newest plant first."""
    wanted = SiteFilter(query.q, query.override, query.fallback, query.schedule)
    return await site_queries.list_sites(db, org, wanted, query.paging, utc_now())


@endpoint(
    "GET",
    "/api/v1/vcp/sites/{siteId}/past",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def get_site_past(org: OrgScope, db: Connection, site_id: UUID, query: PastQuery) -> SitePast:
    """Return the schedule that was in force at a past time, and the newest plan that the ESM had accepted by then.

    A schedule that the plant refused was never in force. Both can be read for as long as commands are kept.
    """
    now = utc_now()
    return await site_queries.read_past(db, org, site_id, query.at or now, now)


@endpoint(
    "GET",
    "/api/v1/vcp/sites/{siteId}/adherence",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def get_site_adherence(org: OrgScope, db: Connection, site_id: UUID, query: SiteMeterQuery) -> Adherence:
    """Compare the power at the site's meter GRID with the ordered power, by quarters of an hour.

    A power is ordered by a setpoint, or for an interval of a schedule, from the plant's acknowledgement until its end or the
    next command. During a mode, no power is ordered.
    """
    now = utc_now()
    return await site_queries.read_adherence(db, org, site_id, query.start, query.end or now, now)


@endpoint(
    "GET",
    "/api/v1/vcp/sites/{siteId}/commands",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
)
async def list_site_commands(org: OrgScope, db: Connection, site_id: UUID) -> SiteCommands:
    """List partner commands of the last 24 hours, and older ones that are still open.

    They are the newest 1,000, or fewer if their payloads have more than 8 MiB together.
    """
    return SiteCommands(await site_queries.list_recent_commands(db, org, site_id, utc_now()))


@endpoint(
    "GET",
    "/api/v1/vcp/sites/{siteId}/config",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
)
async def get_site_configuration(org: OrgScope, db: Connection, site_id: UUID) -> SiteConfiguration:
    """Return limits, fallback, mode and schedule of the site, and commands that its plant has not finished."""
    return await site_queries.read_configuration(db, org, site_id, utc_now())


@endpoint(
    "GET",
    "/api/v1/vcp/sites/{siteId}/telemetry/meter",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
)
async def list_site_meter_readings(org: OrgScope, db: Connection, site_id: UUID, query: SiteMeterQuery) -> MeterReadings:
    """Return what the site's meters counted, by quarters of an hour.

    A response has at most 200,000 readings.
    """
    end = query.end or utc_now()
    text = await list_to_json(await site_queries.list_meter_readings(db, org, site_id, query.start, end))
    return MeterReadings(cast("list[MeterReading]", text))  # JSON, which is inserted into the response unchanged
