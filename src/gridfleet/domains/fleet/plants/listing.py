"""List plants of a fleet, page after page."""

from datetime import datetime, timedelta

from gridfleet.domains.fleet.days import today_in, zone_of
from gridfleet.domains.fleet.plants import store
from gridfleet.domains.fleet.plants.models import (
    FleetFilter,
    FleetPaging,
    FleetPlantPage,
    FleetPlantPageMeta,
    FleetSort,
    Position,
)
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import decode_cursor, encode_cursor

__all__ = ["decode_position", "list_fleet"]


async def list_fleet(db: Connection, org: OrgScope, which: FleetFilter, paging: FleetPaging) -> FleetPlantPage:
    """Return a page of the plants that match.

    A plant whose value changes between two pages may be on both or on none of them.
    """
    total, rows = await store.page(db, org, which, paging, today_in(await zone_of(db, org)))
    shown = rows[: paging.limit]
    cursor = None
    if len(rows) > len(shown):
        cursor = encode_cursor(Position(paging.sort, paging.order, shown[-1][0], shown[-1][1].id))
    return FleetPlantPage([plant for _, plant in shown], FleetPlantPageMeta(paging.limit, total, cursor))


def decode_position(text: str) -> Position:
    """Return the position of a `nextCursor`.

    Raises:
        ValueError: No page has this cursor.
    """
    position: Position = decode_cursor(text, Position)
    if position.value is not None and not isinstance(position.value, store.TYPES[position.sort]):
        raise ValueError("the value has another type")
    if position.sort in (FleetSort.LAST_SEEN_AT, FleetSort.CREATED_AT) and isinstance(position.value, str):
        return position._replace(value=_moment(position.value))
    if isinstance(position.value, str) and "\0" in position.value:
        raise ValueError("PostgreSQL has no such text")
    return position


def _moment(text: str) -> str:
    """Return a time in the form that PostgreSQL reads: Python reads more, such as weeks and offsets of 20 hours."""
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() != timedelta(0):
        raise ValueError("not a time of a cursor")
    return moment.isoformat()
