"""`/api/v1/plants/export`: all plants as a CSV file, with the columns that an import takes."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final, cast

import msgspec
import orjson

from gridfleet.api.http import Call, S, Stream, endpoint, org_member
from gridfleet.api.http.complaints import SAFE_INTEGER
from gridfleet.api.plants.csv_cells import as_cell
from gridfleet.domains.plants.models import Plant
from gridfleet.domains.plants.registry import plants_before
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.turns import FairThread

_PLANTS_A_PAGE: Final = 40
"""Each has up to 32 KiB of metadata, whose quotes are doubled: a page and its text fit in the memory counted for a stream."""
_THREAD: Final = FairThread("exports")
COLUMNS: Final = (
    *("name", "serialNumber", "type", "authMethod", "externalPlantId", "templateId", "metadata"),
    *("latitude", "longitude", "tag", "timeZone"),
)


@endpoint(
    "GET",
    "/api/v1/plants/export",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=S,
    response=str,
    response_content_types=("text/csv",),
    addition=True,
)
async def export_plants_to_csv(call: Call, org: OrgScope, db: Connection) -> Stream:
    """Return the organisation's plants as a CSV file that can be imported again, newest first.

    Coordinates and tag are those that count, also if the ESM reported them. An empty `timeZone` is that of the organisation. A
    text that begins with `=`, `+`, `-` or `@` has an apostrophe before it, so that a spreadsheet does not execute it.
    """
    first = await plants_before(db, org, None, _PLANTS_A_PAGE)
    call.set_header("content-disposition", 'attachment; filename="plants.csv"')
    return Stream("text/csv; charset=utf-8", _pages(call, org, first))


async def _pages(call: Call, org: OrgScope, page: Sequence[Plant]) -> AsyncIterator[bytes]:
    # The first page was read with the request's connection, which returns to the pool before sending begins.
    header: Sequence[Sequence[str]] = [COLUMNS]
    while True:
        text = await _THREAD.run(org.organization_id, partial(_text, page, header))
        last = page[-1] if len(page) == _PLANTS_A_PAGE else None
        page, header = (), ()  # a slow client would hold the plants too
        yield text
        if last is None:
            return
        await call.confirm()
        async with call.state.shares.transaction(org) as db:
            page = await plants_before(db, org, last, _PLANTS_A_PAGE)


def _text(page: Sequence[Plant], header: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([*header, *map(_row, page)])
    return text.getvalue().encode()


def _row(plant: Plant) -> Sequence[str]:
    # Read as JSON, and decoded here, in a thread: a page may have three million values.
    metadata = orjson.loads(bytes(cast("msgspec.Raw", plant.metadata)))
    return (
        as_cell(plant.name),
        as_cell(plant.serial_number),
        plant.type,
        plant.auth_method,
        as_cell(plant.external_plant_id or ""),
        str(plant.template_id or ""),
        as_cell(_json(metadata)) if metadata else "",
        _degrees(plant.latitude),
        _degrees(plant.longitude),
        as_cell(plant.tag or ""),
        plant.time_zone or "",
    )


def _json(metadata: dict[str, Any]) -> str:
    """Return metadata as an import accepts them: as an integer, PostgreSQL returns the number 1e20."""
    try:
        return orjson.dumps(metadata, option=orjson.OPT_STRICT_INTEGER).decode()
    except orjson.JSONEncodeError:
        return orjson.dumps(_with_doubles(metadata)).decode()


def _with_doubles(value: Any) -> Any:
    """Return JSON with doubles instead of integers that an import refuses."""
    match value:
        case dict():
            return {name: _with_doubles(member) for name, member in value.items()}
        case list():
            return [_with_doubles(member) for member in value]
        case int():
            return value if abs(value) <= SAFE_INTEGER else float(value)
    return value


def _degrees(value: float | None) -> str:
    """Return a coordinate without an exponent, which an import would refuse."""
    return "" if value is None else f"{Decimal(repr(value)):f}"
