"""`/api/v1/vcp/sites/{siteId}`: data of a site for trading partners. The id of a site is the id of its plant."""

from datetime import datetime
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Input, S, endpoint, org_member
from gridfleet.domains.vcp import site_queries
from gridfleet.domains.vcp.models import LogEntry, SiteConfiguration
from gridfleet.domains.vcp.site_queries import MeterReading
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection


class MeterQuery(Input):
    """Time range of at most 48 hours. `to` defaults to now."""

    start: datetime = Field(alias="from")
    end: datetime | None = Field(alias="to", default=None)


class SiteCommands(msgspec.Struct, frozen=True):
    """Partner commands, newest first."""

    commands: list[LogEntry]


class MeterReadings(msgspec.Struct, frozen=True):
    """Meter readings by time."""

    readings: list[MeterReading]


@endpoint(
    "GET",
    "/api/v1/vcp/sites/{siteId}/commands",
    caller=org_member(OrgRole.VIEWER, scope="vcp:read"),
    codes=("VALIDATION_ERROR", *S),
)
async def list_site_commands(org: OrgScope, db: Connection, site_id: UUID) -> SiteCommands:
    """List partner commands of the last 24 hours, and older ones that are still open."""
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
async def list_site_meter_readings(org: OrgScope, db: Connection, site_id: UUID, query: MeterQuery) -> MeterReadings:
    """Return what the site's meters counted, by quarters of an hour."""
    end = query.end or utc_now()
    return MeterReadings(await site_queries.list_meter_readings(db, org, site_id, query.start, end))
