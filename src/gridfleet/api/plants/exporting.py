"""`/api/v1/plants/export`: all plants as a CSV file, with the columns that an import takes."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Final

import orjson

from gridfleet.api.http import Call, S, Stream, endpoint, org_member
from gridfleet.domains.plants.models import Plant
from gridfleet.domains.plants.registry import plants_before
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection

_PLANTS_A_PAGE: Final = 200
"""Each has up to 32 KiB of metadata."""
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

    Coordinates and tag are those that count, also if the ESM reported them. An empty `timeZone` is that of the organisation.
    """
    first = await plants_before(db, org, None, _PLANTS_A_PAGE)
    call.set_header("content-disposition", 'attachment; filename="plants.csv"')
    return Stream("text/csv; charset=utf-8", _pages(call, org, first))


async def _pages(call: Call, org: OrgScope, page: Sequence[Plant]) -> AsyncIterator[bytes]:
    # The first page was read with the request's connection, which returns to the pool before sending begins.
    yield _text([COLUMNS, *map(_row, page)])
    while len(page) == _PLANTS_A_PAGE:
        await call.confirm()
        async with call.state.shares.transaction(org) as db:
            page = await plants_before(db, org, page[-1], _PLANTS_A_PAGE)
        yield _text([_row(plant) for plant in page])


def _text(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _row(plant: Plant) -> Sequence[str]:
    return (
        plant.name,
        plant.serial_number,
        plant.type,
        plant.auth_method,
        plant.external_plant_id or "",
        str(plant.template_id or ""),
        orjson.dumps(plant.metadata).decode() if plant.metadata else "",
        _degrees(plant.latitude),
        _degrees(plant.longitude),
        plant.tag or "",
        plant.time_zone or "",
    )


def _degrees(value: float | None) -> str:
    """Return a coordinate without an exponent, which an import would refuse."""
    return "" if value is None else f"{Decimal(repr(value)):f}"
