"""The days of a fleet: those of its organisation's time zone, also for plants that have a zone of their own."""

from datetime import date
from zoneinfo import ZoneInfo

from gridfleet.domains.organizations.registry import get
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.time_zones import time_zone

__all__ = ["today_in", "zone_of"]


async def zone_of(db: Connection, org: OrgScope) -> ZoneInfo:
    """Return the organisation's time zone."""
    return time_zone((await get(db, org.organization_id)).time_zone)


def today_in(zone: ZoneInfo) -> date:
    """Return the current day in a zone."""
    return utc_now().astimezone(zone).date()
