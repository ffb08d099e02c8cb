"""Plants from a CSV file."""

import asyncio
import csv
import gc
import io
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from gridfleet.api.plants.importing import read_row
from support.clients.plants_over_http import Fleet
from support.servers.running_task import watched_loop

HEADER = "name,serialNumber,type,authMethod,externalPlantId,templateId,metadata"
PLANT_TEMPLATE = "00000000-0000-7000-8000-000000000001"
INVERTER_TEMPLATE = "00000000-0000-7000-8000-000000000004"


async def send(fleet: Fleet, content: str | bytes, query: str = "", **headers: str) -> tuple[int, Any]:
    answer = await fleet.service.client.post(
        f"/api/v1/plants/import{query}",
        content=content,
        headers={**fleet.operator, "content-type": "text/csv; charset=utf-8", **headers},
    )
    return answer.status_code, answer.json()


async def serials(fleet: Fleet) -> list[str]:
    return sorted(plant["serialNumber"] for plant in (await fleet.call("GET", "/plants?limit=100"))[1]["data"])


async def test_every_row_becomes_a_plant(fleet: Fleet) -> None:
    status, report = await send(
        fleet,
        f"{HEADER}\n"
        f'"Roof, east",SN-1,GATEWAY,TOKEN,esm-1,{PLANT_TEMPLATE},"{{""roof"": [""east"", 3]}}"\n'
        "\n"
        "  Barn ,SN-2,CONTROLLER,,,,\n",
    )

    assert status == 201
    assert (report["created"], report["refused"]) == (2, 0)
    assert [(row["row"], row["serialNumber"], row["complaints"]) for row in report["rows"]] == [
        (2, "SN-1", []),
        (4, "SN-2", []),
    ]
    _, first = await fleet.call("GET", f"/plants/{report['rows'][0]['plantId']}")
    expected = {
        "name": "Roof, east",
        "serialNumber": "SN-1",
        "type": "GATEWAY",
        "authMethod": "TOKEN",
        "externalPlantId": "esm-1",
        "templateId": PLANT_TEMPLATE,
        "metadata": {"roof": ["east", 3]},
        "lifecycleStatus": "PENDING",
    }
    assert {name: first[name] for name in expected} == expected
    _, second = await fleet.call("GET", f"/plants/{report['rows'][1]['plantId']}")
    assert (second["name"], second["authMethod"], second["externalPlantId"], second["metadata"]) == ("Barn", "MTLS", None, {})


@pytest.mark.parametrize(
    "content",
    [
        "serialNumber;name;type\r\nSN-1;Dach, Süd;SENSOR\r\n",
        "\N{BYTE ORDER MARK}name,serialNumber,type\nDach; Süd,SN-1,SENSOR",
        'name,serialNumber,type,\n"Dach\nSüd",SN-1,SENSOR,\n'.replace(",\n", "\n").replace("Dach\nSüd", "Dach Süd"),
    ],
    ids=["as a European spreadsheet writes it", "with a byte order mark", "quoted"],
)
async def test_files_of_several_makes_are_read(fleet: Fleet, content: str) -> None:
    status, report = await send(fleet, content)

    assert (status, report["created"]) == (201, 1), report


WRONG = (
    f"{HEADER}\n"
    "Good,SN-1,GATEWAY,,,,\n"
    ",SN-2,HOUSE,,,,\n"
    "Taken,OLD,GATEWAY,,,,\n"
    "Linked,SN-3,GATEWAY,,taken,,\n"
    "Twice,SN-4,GATEWAY,,,,\n"
    "Twice,SN-4,GATEWAY,,,,\n"
    f"Unknown,SN-5,GATEWAY,,,{uuid4()},\n"
    f"Level,SN-6,GATEWAY,,,{INVERTER_TEMPLATE},\n"
    'Metadata,SN-7,GATEWAY,,,,"[1"\n'
    "Metadata,SN-8,GATEWAY,,,,3\n"
    "Wide,SN-9,GATEWAY,,,,,more\n"
    "Short,SN-10,GATEWAY\n"
)
COMPLAINTS = [
    (3, "name"),
    (3, "type"),
    (4, "serialNumber"),
    (5, "externalPlantId"),
    (6, "serialNumber"),
    (7, "serialNumber"),
    (8, "templateId"),
    (9, "templateId"),
    (10, "metadata"),
    (11, "metadata"),
    (12, "more"),
]


async def test_nothing_is_written_when_a_row_is_wrong(fleet: Fleet) -> None:
    old = await fleet.plant(serialNumber="OLD")
    await fleet.call("PATCH", f"/plants/{old['id']}", {"externalPlantId": "taken"})

    status, error = await send(fleet, WRONG)

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert [line.split(":")[0] for line in error["details"]] == [f"row {row} {field}" for row, field in COMPLAINTS]
    assert await serials(fleet) == ["OLD"]


async def test_the_good_rows_are_written_when_asked_for(fleet: Fleet) -> None:
    old = await fleet.plant(serialNumber="OLD")
    await fleet.call("PATCH", f"/plants/{old['id']}", {"externalPlantId": "taken"})

    status, report = await send(fleet, WRONG, "?skipInvalid=true")

    assert status == 201
    assert (report["created"], report["refused"]) == (2, 10)
    assert [row["row"] for row in report["rows"]] == list(range(2, 14))
    assert [row["row"] for row in report["rows"] if row["plantId"]] == [2, 13]
    assert [(row["row"], line.split(":")[0]) for row in report["rows"] for line in row["complaints"]] == COMPLAINTS
    assert await serials(fleet) == ["OLD", "SN-1", "SN-10"]


@pytest.mark.parametrize(
    ("content", "complaints"),
    [
        ("", ["header.name: is required", "header.serialNumber: is required", "header.type: is required"]),
        (
            "name,serialNumber,type,colour,name\n",
            ["header.colour: is not a known column", "header.name: occurs twice"],
        ),
        ('name,serialNumber,type\n"a,b,c\n', ["body: must be CSV (unexpected end of data at line 2)"]),
        (b"name,serialNumber,type\n\xff,b,c\n", ["body: must be UTF-8"]),
    ],
)
async def test_what_is_no_such_file_is_refused(fleet: Fleet, content: str | bytes, complaints: list[str]) -> None:
    status, error = await send(fleet, content)

    assert (status, error["code"], error["details"]) == (400, "VALIDATION_ERROR", complaints)


async def test_limits(fleet: Fleet) -> None:
    rows = "".join(f"n,S{number},SENSOR\n" for number in range(10_001))
    assert (await send(fleet, "name,serialNumber,type\n" + rows))[1]["details"] == ["body: must have at most 10000 rows"]
    assert (await send(fleet, "x" * (5 * 1024 * 1024 + 1)))[1]["code"] == "PAYLOAD_TOO_LARGE"
    assert (await send(fleet, "name", **{"content-type": "application/json"}))[1]["code"] == "VALIDATION_ERROR"
    assert (await send(fleet, "name", "?skip=1"))[1]["code"] == "VALIDATION_ERROR"
    assert (await send(fleet, "name,serialNumber,type\n", **fleet.viewer))[1]["code"] == "FORBIDDEN"


@pytest.mark.usefixtures("few_objects_to_collect")
async def test_ten_thousand_plants_at_once(fleet: Fleet) -> None:
    rows = "".join(f"Plant {number},S{number},SENSOR\n" for number in range(10_000))

    async with watched_loop() as loop:
        status, report = await send(fleet, "name,serialNumber,type\n" + rows)

    assert (status, report["created"]) == (201, 10_000)
    assert loop.longest < 0.25 * loop.total  # other requests continue
    assert (await fleet.call("GET", "/plants?limit=1"))[1]["meta"]["total"] == 10_000


async def test_the_same_file_again_gives_the_first_answer_with_its_key(fleet: Fleet) -> None:
    key = {"idempotency-key": "file-1"}

    first = await send(fleet, "name,serialNumber,type\na,S1,SENSOR\n", **key)
    again = await send(fleet, "name,serialNumber,type\na,S1,SENSOR\n", **key)

    assert first == again
    assert first[0] == 201
    assert (await send(fleet, "name,serialNumber,type\na,S1,SENSOR\n"))[0] == 400


async def test_metadata_of_a_row_are_bounded_too(fleet: Fleet) -> None:
    status, error = await send(fleet, f'name,serialNumber,type,metadata\na,b,SENSOR,"{{""a"": ""{"x" * 32_768}""}}"\n')

    assert (status, error["details"]) == (400, ["row 2 metadata: must have at most 32768 bytes as JSON"])


async def test_a_file_of_nothing_but_columns_gets_a_short_answer(fleet: Fleet) -> None:
    """The complaints of all its columns would be a hundred times what the caller sent, made while all other requests wait."""
    status, error = await send(fleet, "name,serialNumber,type" + "," * 5_000)

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert len(error["details"]) == 1_000
    _, error = await send(fleet, "name,serialNumber,type" + "," * 10_000)
    assert error["details"] == ["header: must have at most 10000 characters"]


async def test_the_complaints_of_a_report_are_bounded(fleet: Fleet) -> None:
    """Complaints about all values would be a hundred times what the caller sent, in the memory of all other requests."""
    wrong: Any = ["\x01"] * 100
    for _ in range(31):
        wrong = {"k" * 64: wrong}
    cell = json.dumps(wrong).replace('"', '""')
    rows = "".join(f'n,S{number},SENSOR,"{cell}"\n' for number in range(20))

    status, report = await send(fleet, f"name,serialNumber,type,metadata\n{rows}", "?skipInvalid=true")

    assert (status, report["created"], report["refused"]) == (201, 0, 20)
    assert [len(row["complaints"]) for row in report["rows"]] == [100] * 10 + [1] * 10


async def test_a_report_repeats_no_more_of_a_serial_number_than_a_valid_one_has(fleet: Fleet) -> None:
    """The reports of refused rows, six times what the caller sent, are stored for `Idempotency-Key`."""
    row = "a," + "\x01" * 131_000 + ",X\n"

    status, report = await send(fleet, "name,serialNumber,type\n" + row * 39, "?skipInvalid=true")

    assert (status, report["refused"]) == (201, 39)
    assert {row["serialNumber"] for row in report["rows"]} == {"\x01" * 50}


@pytest.fixture
def few_objects_to_collect() -> Iterator[None]:
    """Exclude the objects that exist from garbage collection, as the service does: a test process has those of many tests."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects_to_collect")
@pytest.mark.parametrize(
    ("header", "row", "count"),
    [
        (HEADER, "Roof,,GATEWAY,,,,", 10_000),
        ("name,serialNumber,type,metadata", f'Roof,,GATEWAY,"{{""a"":[0{",0" * 9_999}]}}"', 150),
    ],
    ids=["many rows", "much metadata"],
)
async def test_other_requests_continue_while_a_file_is_read(fleet: Fleet, header: str, row: str, count: int) -> None:
    async with watched_loop() as loop:
        status, _ = await send(fleet, header + f"\n{row}" * count)
    assert status == 400
    assert loop.longest < 0.2 * loop.total


async def test_several_files_are_read_by_one_thread(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads would leave the event loop a small share of the time: five imports delayed others by a second."""
    threads: list[str] = []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        time.sleep(0.001)  # others could begin
        return read_row(*arguments)

    monkeypatch.setattr("gridfleet.api.plants.importing.read_row", noted)
    content = HEADER + "\nRoof,,GATEWAY,,,," * 250
    answers = await asyncio.gather(*(send(fleet, content) for _ in range(4)))
    assert [status for status, _ in answers] == [400] * 4
    assert (len(threads), len(set(threads))) == (1_000, 1)


async def test_an_exported_file_can_be_imported_elsewhere(fleet: Fleet) -> None:
    places = [
        {"latitude": 0.00001, "longitude": -179.9999999999, "tag": "a;b", "timeZone": "Asia/Kathmandu"},
        {"latitude": -90.0, "longitude": 1.5},
        {},
    ]
    for number, place in enumerate(places):
        await fleet.plant(
            name=f'Süd "{number}", a;b',
            serialNumber=f"SN-{number}",
            authMethod="TOKEN",
            metadata={"n": [number, "\n", {"large": [1e20, -1.7e308, 1e16, 5e-324]}]},
            **place,
        )
    many = "".join(f"M,MANY-{number},GATEWAY\n" for number in range(450))
    assert (await send(fleet, f"name,serialNumber,type\n{many}"))[0] == 201
    await fleet.call("POST", "/plants", {"name": "T", "serialNumber": "THEIRS", "type": "GATEWAY"}, fleet.stranger)

    answer = await fleet.service.client.get("/api/v1/plants/export", headers=fleet.viewer)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert "THEIRS" not in answer.text
    status, report = await send(fleet, answer.content, **fleet.stranger)
    assert (status, report["created"], report["refused"]) == (201, 453, 0), report
    shown = {}
    for headers in (fleet.viewer, fleet.stranger):
        plants: list[dict[str, Any]] = []
        for page in range(1, 6):
            plants += (await fleet.call("GET", f"/plants?limit=100&page={page}", headers=headers))[1]["data"]
        names = ("name", "type", "authMethod", "metadata", "timeZone")
        shown[headers["x-org-id"]] = {plant["serialNumber"]: [plant[name] for name in names] for plant in plants}
    ours, theirs = shown.values()
    del theirs["THEIRS"]
    assert ours == theirs
    again = await fleet.service.client.get("/api/v1/plants/export", headers=fleet.stranger)
    assert sorted(set(again.text.splitlines()) - set(answer.text.splitlines())) == ["T,THEIRS,GATEWAY,MTLS,,,,,,,"]


@pytest.mark.usefixtures("few_objects_to_collect")
async def test_other_requests_continue_while_much_metadata_is_exported(fleet: Fleet) -> None:
    metadata = json.dumps({"a": [[]] * 10_000}, separators=(",", ":"))
    cell = metadata.replace('"', '""')
    for _ in range(2):
        rows = "".join(f'Roof,{uuid4()},GATEWAY,"{cell}"\n' for _ in range(100))
        assert (await send(fleet, f"name,serialNumber,type,metadata\n{rows}"))[0] == 201
    begun = time.thread_time()
    for _ in range(200):
        json.loads(metadata)
    decoding = time.thread_time() - begun

    headers = {**fleet.viewer, "accept-encoding": "identity"}
    async with watched_loop() as loop:
        answer = await fleet.service.client.get("/api/v1/plants/export", headers=headers)

    assert answer.text.count("[],[]") == 200 * 5_000
    assert loop.longest < 0.2 * decoding


async def test_an_export_leaves_the_threads_that_all_organisations_share_to_others(fleet: Fleet) -> None:
    """The pages of many exports waited there before the compressed responses of other organisations."""
    await fleet.plant(name="Roof")
    gate = threading.Event()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(asyncio.to_thread(gate.wait))
        try:
            headers = {**fleet.viewer, "accept-encoding": "identity"}
            async with asyncio.timeout(20):
                answer = await fleet.service.client.get("/api/v1/plants/export", headers=headers)
        finally:
            gate.set()
    assert len(answer.text.splitlines()) == 2


async def test_no_cell_of_an_export_is_a_formula_and_an_import_restores_the_text(fleet: Fleet) -> None:
    texts = {
        f"{mark}{first}{rest}"
        for mark in ("", "'", "''")
        for first in ("=", "+", "-", "@")
        for rest in ("HYPERLINK(A1)", "1", "'")
    }
    texts |= {"'", "''", "'plain", "plain=", "-", "a;=1", "a; '-1;@;b=;c", ";;+"}
    for number, text in enumerate(sorted(texts)):
        place = {"latitude": -90.0, "longitude": -0.5, "tag": text} if number % 2 else {}
        await fleet.plant(name=text, serialNumber=text, metadata={"note": f"a;{text}"}, **place)

    answer = await fleet.service.client.get("/api/v1/plants/export", headers=fleet.viewer)

    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert len(rows) == len(texts)
    cells = [row[name] for row in rows for name in ("name", "serialNumber", "tag", "metadata")]
    # A spreadsheet may separate at semicolons too.
    assert not any(part.strip().startswith(("=", "+", "-", "@")) for cell in cells for part in cell.split(";"))
    status, report = await send(fleet, answer.content, **fleet.stranger)
    assert (status, report["created"]) == (201, len(texts)), report
    listed = (await fleet.call("GET", "/plants?limit=100", headers=fleet.stranger))[1]["data"]
    found = {(plant["name"], plant["serialNumber"], plant["metadata"]["note"]) for plant in listed}
    assert found == {(text, text, f"a;{text}") for text in texts}
    again = await fleet.service.client.get("/api/v1/plants/export", headers=fleet.stranger)
    assert sorted(again.text.splitlines()) == sorted(answer.text.splitlines())
