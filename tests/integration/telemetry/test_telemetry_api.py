"""Telemetry over HTTP: forms, codes, and what is answered to whom."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gridfleet.api.telemetry import written
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.history import raw
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.models import HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import format_time
from support.builders.telemetry_records import RecordedPlant, allowed, reading_from
from support.clients.plant_reader import PlantReader

NOW = utc_now().replace(microsecond=0)
MINUTE = timedelta(minutes=1)


class Reader(PlantReader):
    """A VIEWER and the plant they may read."""

    async def get(self, path: str, headers: dict[str, str] | None = None, **query: str) -> httpx.Response:
        """The answer to a GET below `/api/v1`."""
        return await self.service.client.get(f"/api/v1{path}", params=query, headers={**self.headers, **(headers or {})})

    async def history(self, accept: str = "", **query: str) -> httpx.Response:
        """The plant's telemetry of the last hour, unless the query says otherwise."""
        hour = {"plantId": str(self.plant.id), "from": format_time(NOW - timedelta(hours=1)), "to": format_time(NOW)}
        return await self.get("/telemetry", {"accept": accept} if accept else None, **{**hour, **query})


@pytest.fixture
async def reader(database_url: str, home: Path) -> AsyncIterator[Reader]:
    async with Reader.open(database_url, home) as opened:
        yield opened


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_history_in_three_forms(reader: Reader) -> None:
    await reader.plant.add_device("PV1")
    time = NOW - MINUTE
    await reader.plant.write("PV1", [Metric("active_power", "kW", False, 0.0, 5.0)], {time: [7.5]})
    answer = await reader.history()
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == [
        {
            "time": format_time(time),
            "plant_id": str(reader.plant.id),
            "metric": "PV1.active_power",
            "value": 7.5,
            "unit": "kW",
            "metadata": {"subDevice": "PV1", "outOfRange": True},
        }
    ]
    table = await reader.history("text/csv")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert table.text.splitlines()[1] == f"{format_time(time)},{reader.plant.id},PV1.active_power,7.5,kW"
    lines = await reader.history("application/x-ndjson")
    assert (lines.headers["content-type"], lines.text.count("\n")) == ("application/x-ndjson", 1)
    (bucket,) = (await reader.history(bucket="1 day", metric="PV1.active_power")).json()
    assert bucket["metadata"] == {"subDevice": "PV1", "min": 7.5, "max": 7.5, "count": 1}
    assert bucket["time"] == f"{time.date()}T00:00:00.000Z"
    assert (await reader.history(metric="PV2.active_power")).json() == []


async def test_a_long_answer_comes_in_pages_whole_and_in_order(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "PAGE_POINTS", 100)
    frames = {NOW - timedelta(seconds=n): [float(n), 0.5] for n in range(1, 1_001)}
    await reader.plant.write(None, ["a", "b"], frames)
    alone = (await reader.history(metric="a")).json()
    assert [point["value"] for point in alone] == [float(n) for n in range(1_000, 0, -1)]
    both = (await reader.history()).json()
    assert [point for point in both if point["metric"] == "a"] == alone
    assert [point["metric"] for point in both] == ["a", "b"] * 1_000


async def test_more_frames_of_one_time_than_fit_a_page_are_read(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page ended before its last time, which was its first one: the same page was read without end."""
    monkeypatch.setattr(raw, "PAGE_POINTS", 2)
    times = [NOW - timedelta(seconds=seconds) for seconds in (3, 2, 1)]
    for number in range(4):
        await reader.plant.write(None, ["a", f"b{number}"], {time: [float(number), 0.5] for time in times})
    async with asyncio.timeout(20):
        found = (await reader.history(metric="a")).json()
    assert [(point["time"], point["value"]) for point in found] == [(format_time(time), 3.0) for time in times]


@pytest.mark.parametrize(
    "query",
    [
        {"plantId": "x"},
        {"from": "yesterday"},
        {"from": "2026-11-20T10:00:00"},
        {"to": "2026-13-20T10:00:00Z"},
        {"bucket": "2 minutes"},
        {"metric": "m" * 201},
        {"metrics": "a"},
        {"from": format_time(NOW)},
        {"from": "0001-01-01T00:00:00+14:00"},
    ],
)
async def test_a_bad_query_is_a_validation_error(reader: Reader, query: dict[str, str]) -> None:
    answer = await reader.history(**query)
    assert refusal(answer) == (400, "VALIDATION_ERROR")
    (complaint,) = answer.json()["details"]
    assert complaint.startswith(next(iter(query)) + ":")


async def test_every_missing_parameter_is_named(reader: Reader) -> None:
    answer = await reader.get("/telemetry")
    assert refusal(answer) == (400, "VALIDATION_ERROR")
    assert [complaint.partition(":")[0] for complaint in answer.json()["details"]] == ["plantId", "from", "to"]


async def test_absent_plants_and_devices(reader: Reader) -> None:
    other = await RecordedPlant.create(reader.service.state.database)
    await other.add_device("PV1")
    for absent in (new_id(), other.id):
        assert refusal(await reader.history(plantId=str(absent))) == (404, "PLANT_NOT_FOUND")
        assert refusal(await reader.history("text/csv", plantId=str(absent))) == (404, "PLANT_NOT_FOUND")
        assert refusal(await reader.get(f"/telemetry/{absent}/latest")) == (404, "PLANT_NOT_FOUND")
        assert refusal(await reader.get(f"/plants/{absent}/energy/today")) == (404, "PLANT_NOT_FOUND")
        signals = await reader.get(f"/plants/{absent}/sub-devices/PV1/signals/latest")
        assert refusal(signals) == (404, "SUB_DEVICE_NOT_FOUND")
    for external_id in ("PV1", "%20", "%00", "a" * 300):
        signals = await reader.get(f"/plants/{reader.plant.id}/sub-devices/{external_id}/signals/latest")
        assert refusal(signals) == (404, "SUB_DEVICE_NOT_FOUND")


@pytest.mark.parametrize("path", ["/telemetry/x/latest", "/plants/x/energy/today", "/plants/x/sub-devices/PV1/signals/latest"])
async def test_a_malformed_plant_id(reader: Reader, path: str) -> None:
    assert refusal(await reader.get(path)) == (400, "INVALID_UUID")


async def test_latest_values_have_their_own_times(reader: Reader) -> None:
    plant, earlier, later = reader.plant, NOW - 2 * MINUTE, NOW - MINUTE
    for external_id in ("PV1", "PV2"):
        await plant.add_device(external_id)
    await plant.write(None, [Metric("frequency", "Hz", False, 49.0, 51.0), Metric("never", "")], {later: [51.5, None]})
    await plant.write("PV1", [Metric("p", "W"), Metric("soc", "%")], {earlier: [1.0, 50.0]})
    await plant.write("PV1", [Metric("p", "W"), Metric("soc", "%")], {later: [2.0, None], earlier - MINUTE: [9.0, 9.0]})
    await plant.write("PV1", [Metric("p", "kW")], {earlier: [7.0]})
    await plant.write("PV2", ["p"], {later: [3.0]})
    await plant.delete_device("PV2")
    points = (await reader.get(f"/telemetry/{plant.id}/latest")).json()
    common = {"plant_id": str(plant.id)}
    pv1 = {"metadata": {"subDevice": "PV1"}}
    assert points == [
        {
            "time": format_time(later),
            **common,
            "metric": "frequency",
            "value": 51.5,
            "unit": "Hz",
            "metadata": {"outOfRange": True},
        },
        {"time": format_time(later), **common, "metric": "PV1.p", "value": 2.0, "unit": "W", **pv1},
        {"time": format_time(earlier), **common, "metric": "PV1.soc", "value": 50.0, "unit": "%", **pv1},
    ]
    signals = await reader.get(f"/plants/{plant.id}/sub-devices/PV1/signals/latest")
    assert signals.json() == [
        {"metric": "p", "time": format_time(later), "unit": "W", "value": 2.0},
        {"metric": "soc", "time": format_time(earlier), "unit": "%", "value": 50.0},
    ]


async def test_nothing_measured_yet(reader: Reader) -> None:
    await reader.plant.add_device("PV1")
    assert (await reader.history()).json() == []
    assert (await reader.history(bucket="1 minute")).json() == []
    assert (await reader.get(f"/telemetry/{reader.plant.id}/latest")).json() == []
    assert (await reader.get(f"/plants/{reader.plant.id}/sub-devices/PV1/signals/latest")).json() == []
    energy: dict[str, Any] = (await reader.get(f"/plants/{reader.plant.id}/energy/today")).json()
    assert energy.pop("date") == f"{utc_now().date()}"
    assert energy == {"produced": 0.0, "imported": 0.0, "exported": 0.0, "selfConsumptionPct": 0.0}


async def test_a_client_that_reads_slowly_holds_no_connection(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "PAGE_POINTS", 100)
    await reader.plant.write(None, ["a"], {NOW - timedelta(seconds=n): [float(n)] for n in range(1, 301)})
    database = reader.service.state.database
    query = HistoryQuery(reader.plant.id, NOW - timedelta(hours=1), NOW, "a")
    history = await open_history(reading_from(database), reader.plant.org, query, capped=False)
    writer = PointWriter(reader.plant.id, TextFormat.NDJSON)
    lines = 0
    async for page in written(history.pages(allowed), writer):
        lines += page.count(b"\n")
        statistics = database.statistics()
        assert statistics["pool_available"] == statistics["pool_size"]
    assert lines == 300


class TestSubDeviceTelemetry:
    """`GET /plants/{plantId}/sub-devices/{externalId}/telemetry`."""

    async def ask(self, reader: Reader, external_id: str = "PV1", **query: str) -> httpx.Response:
        hour = {"from": format_time(NOW - timedelta(hours=1)), "to": format_time(NOW + MINUTE)}
        return await reader.get(f"/plants/{reader.plant.id}/sub-devices/{external_id}/telemetry", **{**hour, **query})

    async def test_an_edited_unit_has_its_own_rows(self, reader: Reader) -> None:
        await reader.plant.add_device("PV1")
        minute = NOW.replace(second=0) - 5 * MINUTE
        await reader.plant.write("PV1", [Metric("p", "W")], {minute: [900.0]})
        await reader.plant.write("PV1", [Metric("p", "kW")], {minute + timedelta(seconds=10): [0.9]})
        rows = (await self.ask(reader)).json()
        assert {(row["unit"], row["avgValue"], row["count"]) for row in rows} == {("W", 900.0, 1), ("kW", 0.9, 1)}

    async def test_rows_by_time_then_metric(self, reader: Reader) -> None:
        await reader.plant.add_device("PV1")
        minute = NOW.replace(second=0) - 5 * MINUTE
        frames = {minute: [1.0, 5.0], minute + timedelta(seconds=10): [3.0, None], minute + MINUTE: [7.0, None]}
        await reader.plant.write("PV1", ["b", "a"], frames)
        await reader.plant.write(None, ["a"], {minute: [99.0]})
        names = ("bucket", "metric", "avgValue", "minValue", "maxValue", "count", "unit")
        rows = [
            (format_time(minute), "a", 5.0, 5.0, 5.0, 1, "kW"),
            (format_time(minute), "b", 2.0, 1.0, 3.0, 2, "kW"),
            (format_time(minute + MINUTE), "b", 7.0, 7.0, 7.0, 1, "kW"),
        ]
        expected = [dict(zip(names, row, strict=True)) for row in rows]
        assert (await self.ask(reader)).json() == expected
        assert (await self.ask(reader, metric="b")).json() == expected[1:]
        assert (await self.ask(reader, metric="PV1.b")).json() == []

    async def test_the_range_decides_the_level(self, reader: Reader) -> None:
        await reader.plant.add_device("PV1")
        await reader.plant.write("PV1", ["a"], {NOW - number * MINUTE: [1.0] for number in range(300)})
        end = NOW + timedelta(seconds=1)
        for span, width in (
            (timedelta(hours=6), timedelta(minutes=1)),
            (timedelta(days=2), timedelta(minutes=5)),
            (timedelta(days=14), timedelta(minutes=15)),
            (timedelta(days=90), timedelta(hours=1)),
            (timedelta(days=91), timedelta(days=1)),
        ):
            rows = (await self.ask(reader, **{"from": format_time(end - span), "to": format_time(end)})).json()
            starts = {(NOW - number * MINUTE).timestamp() // width.total_seconds() for number in range(300)}
            assert (len(rows), sum(row["count"] for row in rows)) == (len(starts), 300)

    async def test_refusals(self, reader: Reader) -> None:
        await reader.plant.add_device("PV1")
        assert (await self.ask(reader)).json() == []
        assert refusal(await self.ask(reader, **{"from": format_time(NOW + MINUTE)})) == (400, "VALIDATION_ERROR")
        assert refusal(await self.ask(reader, bucket="1 day")) == (400, "VALIDATION_ERROR")
        assert refusal(await self.ask(reader, "PV2")) == (404, "SUB_DEVICE_NOT_FOUND")
        path = f"/plants/{new_id()}/sub-devices/PV1/telemetry"
        hour = {"from": format_time(NOW - MINUTE), "to": format_time(NOW)}
        assert refusal(await reader.get(path, **hour)) == (404, "SUB_DEVICE_NOT_FOUND")
        assert refusal(await reader.get("/plants/x/sub-devices/PV1/telemetry", **hour)) == (400, "VALIDATION_ERROR")
