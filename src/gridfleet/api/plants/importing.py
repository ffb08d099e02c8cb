"""`/api/v1/plants/import`: import of many plants from one CSV file."""

import csv
import io
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.api.http import Input, Metadata, S, endpoint, org_member
from gridfleet.api.http.bodies import decode_json
from gridfleet.api.http.inputs import read
from gridfleet.api.plants.csv_cells import text_of
from gridfleet.api.plants.registry import LONGEST_SERIAL_NUMBER, ExternalPlantId, Name, PlantPlace, SerialNumber
from gridfleet.domains.plants.importing import complaints_about, import_plants
from gridfleet.domains.plants.models import AuthMethod, PlantToImport, PlantType
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.turns import FairThread

MAX_BYTES: Final = 5 * 1024 * 1024
MAX_ROWS: Final = 10_000
MOST_COMPLAINTS: Final = 1_000
_MOST_HEADER_CHARACTERS: Final = 10_000
_ROWS_AT_A_TIME: Final = 100
_BYTES_AT_A_TIME: Final = 64 * 1024
"""Rows, and bytes (exceeded by up to one row), that the thread reads before the next organisation's turn."""
_THREAD: Final = FairThread("imports")


class ImportOptions(Input):
    """Options of an import. By default, nothing is written if a row is invalid."""

    skip_invalid: bool = False


class PlantRow(PlantPlace):
    """The columns of the file. `metadata` holds a JSON object. An empty cell counts as omitted."""

    name: Name
    serial_number: SerialNumber
    type: PlantType
    auth_method: AuthMethod = AuthMethod.MTLS
    external_plant_id: ExternalPlantId | None = None
    template_id: UUID | None = None
    metadata: Metadata = {}


class ImportedRow(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a row. The header is row 1, as in a spreadsheet. `plantId` is null for a refused row."""

    row: int
    serial_number: str | None
    plant_id: UUID | None
    complaints: list[str]


class ImportReport(msgspec.Struct, frozen=True, rename="camel"):
    """The results of all rows, in file order."""

    created: int
    refused: int
    rows: list[ImportedRow]


_COLUMNS: Final = {str(field.alias): field.is_required() for field in PlantRow.model_fields.values()}
"""Whether each column is required."""
_NUMBERS: Final = {"latitude", "longitude"}
_NUMBER: Final = re.compile(r"-?[0-9]{1,3}([.,][0-9]{1,20})?\Z")
"""A coordinate with a decimal point or, as some spreadsheets write it, a decimal comma."""


@endpoint(
    "POST",
    "/api/v1/plants/import",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("VALIDATION_ERROR", *S),
    success=201,
    addition=True,
    content_types=("text/csv",),
    max_body_bytes=MAX_BYTES,
)
async def import_plants_from_csv(org: OrgScope, db: Connection, query: ImportOptions, body: bytes) -> ImportReport:
    """Register the plants of a CSV file: UTF-8, separated by commas or semicolons, with a header row.

    If a row is invalid, nothing is written, and every error is listed with its row. With `skipInvalid`, the valid rows are
    registered, and the report lists the errors of the others: at most 1,000, and one for each further row. At most 10,000 rows
    and 5 MiB.
    """
    plants: list[PlantToImport] = []
    complaints: dict[int, list[str]] = {}
    serials: dict[int, str | None] = {}
    rows = read_rows(body)
    # In a thread, so that other requests continue: the metadata of a row takes up to 50 ms, that of a file several seconds. All
    # imports share one thread, see `FairThread`.
    room = MOST_COMPLAINTS
    while some := await _THREAD.run(org.organization_id, partial(_read_some, rows, room)):
        room -= sum(len(one.complaints) for one in some)
        for one in some:
            serials[one.number], complaints[one.number] = one.serial_number, one.complaints
            if one.plant is not None:
                plants.append(one.plant)
    for number, more in (await complaints_about(db, org, plants)).items():
        complaints[number] += more
    if not query.skip_invalid:
        _refuse(complaints)
    created = await import_plants(db, org, [plant for plant in plants if not complaints[plant.row]])
    for plant in plants:
        if plant.row not in created and not complaints[plant.row]:
            complaints[plant.row].append("serialNumber or externalPlantId: was taken by another plant meanwhile")
    if not query.skip_invalid:
        _refuse(complaints)
    results = [ImportedRow(number, serials[number], created.get(number), found) for number, found in complaints.items()]
    return ImportReport(len(created), len(results) - len(created), results)


def _refuse(complaints: dict[int, list[str]]) -> None:
    details = [f"row {number} {complaint}" for number, found in complaints.items() for complaint in found]
    if details:
        raise ValidationFailed("Nothing was imported: some rows are wrong.", details[:MOST_COMPLAINTS])


class _ReadRow(NamedTuple):
    number: int
    serial_number: str | None
    complaints: list[str]
    plant: PlantToImport | None


def _read_some(rows: Iterator[tuple[int, dict[str, Any]]], room: int) -> list[_ReadRow]:
    """Return the next rows; none at the end.

    Args:
        rows: The remaining rows of the file.
        room: How many complaints are kept, besides one of each further row: a file of 5 MiB may have 400,000 of 2 kB.
    """
    read: list[_ReadRow] = []
    size = 0
    for number, cells in islice(rows, _ROWS_AT_A_TIME):
        size += sum(map(len, cells.values()))
        complaints: list[str] = []
        plant = read_row(number, cells, complaints)
        del complaints[max(1, room) :]
        room -= len(complaints)
        read.append(_ReadRow(number, _shown(cells.get("serialNumber")), complaints, plant))
        if size > _BYTES_AT_A_TIME:
            break
    return read


def _shown(serial_number: str | None) -> str | None:
    # The report repeats no more than a valid one has.
    return None if serial_number is None else serial_number[:LONGEST_SERIAL_NUMBER]


def read_row(number: int, cells: dict[str, Any], complaints: list[str]) -> PlantToImport | None:
    """Return the plant of a row, or None if the row has errors, which are added to `complaints`."""
    record = dict(cells)
    if "" in record:
        complaints.append(f"{record.pop('')}: has no column")
    if "metadata" in record:
        try:
            record["metadata"] = decode_json(record["metadata"].encode())
        except ValidationFailed:
            complaints.append("metadata: must be a JSON object")
            del record["metadata"]
    for name in _NUMBERS & record.keys():
        if _NUMBER.match(text := record[name].strip()):
            record[name] = float(text.replace(",", "."))
    try:
        row = read(PlantRow, record)
    except ValidationFailed as error:
        complaints += error.details
    if complaints:
        return None
    values = {name: value for name, value in dict(row).items() if name not in PlantPlace.model_fields}
    return PlantToImport(number, **values, place=row.place)


def read_rows(body: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row number, cells by column) of every row that is not blank. A cell beyond the last column has the key "".

    Raises:
        ValidationFailed: The file is not CSV, or its header is wrong.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValidationFailed(details=["body: must be UTF-8"]) from None
    first_line = text.split("\n", 1)[0]
    if len(first_line) > _MOST_HEADER_CHARACTERS:
        raise ValidationFailed(details=[f"header: must have at most {_MOST_HEADER_CHARACTERS} characters"])
    separator = ";" if first_line.count(";") > first_line.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header)
        for number, cells in enumerate(reader, start=2):
            if number > MAX_ROWS + 1:
                raise ValidationFailed(details=[f"body: must have at most {MAX_ROWS} rows"])
            if any(cell.strip() for cell in cells):
                named = {name: text_of(cell) for name, cell in zip(header, cells, strict=False) if cell.strip()}
                beyond = [cell for cell in cells[len(header) :] if cell.strip()]
                yield number, named | ({"": beyond[0][:64]} if beyond else {})
    except csv.Error as error:
        raise ValidationFailed(details=[f"body: must be CSV ({error} at line {reader.line_num})"]) from None


def _check_header(header: list[str]) -> None:
    complaints = [f"header.{name}: is required" for name, required in _COLUMNS.items() if required and name not in header]
    unknown = (f"header.{name[:64]}: is not a known column" for name in header if name not in _COLUMNS)
    # A header of thousands of commas must not produce a response thirty times its size.
    complaints += islice(unknown, MOST_COMPLAINTS)
    complaints += [f"header.{name}: occurs twice" for name in _COLUMNS if header.count(name) > 1]
    if complaints:
        raise ValidationFailed(details=complaints)
