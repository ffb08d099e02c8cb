"""Meter rows of a plant that no ESM knows: from the counters of its METER sub-devices."""

import json
import time
from datetime import UTC, datetime, timedelta
from math import isfinite
from uuid import UUID

import pytest

from gridfleet.api.http.json_out import to_json
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.trading.models import MeterRow
from support.builders.telemetry_records import RecordedPlant
from support.clients.plants_over_http import Fleet
from support.servers.running_task import watched_loop

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
IN_KWH = [Metric("energy_imported", "kWh", counter=True), Metric("energy_exported", "kWh", counter=True)]
IN_WH = [Metric("energy_imported", "Wh", counter=True)]
HOUR = "from=2026-11-20T10:00:00Z&to=2026-11-20T11:00:00Z"


async def metered(fleet: Fleet) -> RecordedPlant:
    """A plant with two meters that count and an inverter that does not matter."""
    plant = await fleet.plant()
    for external_id, kind in (("GRID", "METER"), ("HALL", "METER"), ("QUIET", "METER"), ("INV", "INVERTER")):
        body = {"externalId": external_id, "name": external_id, "type": kind}
        assert (await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", body))[0] == 201
    recorded = RecordedPlant(fleet.service.state.database, UUID(plant["organizationId"]), UUID(plant["id"]))
    times = [START + timedelta(minutes=number) for number in range(-5, 71)]
    await recorded.write("GRID", IN_KWH, {time: (100 + n * 0.5, 40 + n * 0.25) for n, time in enumerate(times)})
    await recorded.write("HALL", IN_WH, {time: (n * 1000.0,) for n, time in enumerate(times[::15])})
    await recorded.write("INV", IN_KWH, {time: (float(n), 0.0) for n, time in enumerate(times)})
    return recorded


async def test_imported_less_exported_in_buckets(fleet: Fleet) -> None:
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters"
    status, rows = await fleet.call("GET", f"{path}?{HOUR}", headers=fleet.viewer)
    assert status == 200
    assert rows == [
        {
            "time": f"2026-11-20T10:{minute:02d}:00.000Z",
            "plant_id": str(plant.id),
            "meter_id": "GRID",
            "interval": 5,
            "energy": 1.25,
        }
        for minute in range(0, 60, 5)
    ], "the hall's readings of a quarter of an hour are too coarse"
    _, rows = await fleet.call("GET", f"{path}?{HOUR}&bucketMinutes=30")
    assert [(row["time"][11:16], row["meter_id"], row["interval"], row["energy"]) for row in rows] == [
        ("10:00", "GRID", 30, 7.5), ("10:00", "HALL", 30, 2), ("10:30", "GRID", 30, 7.5), ("10:30", "HALL", 30, 2)
    ]  # fmt: skip
    _, rows = await fleet.call("GET", f"{path}?from=2026-11-20T10:07:30Z&to=2026-11-20T10:21:00Z&bucketMinutes=2.5")
    assert [row["time"][11:19] for row in rows] == ["10:07:30", "10:10:00", "10:12:30", "10:15:00", "10:17:30"]
    assert {(row["interval"], row["energy"]) for row in rows} == {(2.5, 0.625)}


async def test_a_meter_that_never_reported_a_direction_has_the_other(fleet: Fleet) -> None:
    plant = await metered(fleet)
    times = [START + timedelta(minutes=number) for number in range(-5, 71)]
    await plant.write("QUIET", IN_KWH, {time: (100 + n * 0.5, None) for n, time in enumerate(times)})
    path = f"/trading/plants/{plant.id}/meters?{HOUR}"
    _, rows = await fleet.call("GET", path)
    assert [row["energy"] for row in rows if row["meter_id"] == "QUIET"] == [2.5] * 12
    # From the first reading on, a bucket without the other direction would be wrong.
    await plant.write("QUIET", IN_KWH, {time: (None, 40 + n * 0.25) for n, time in enumerate(times[-30:])})
    _, rows = await fleet.call("GET", path)
    assert [(row["time"][14:16], row["energy"]) for row in rows if row["meter_id"] == "QUIET"] == [
        (f"{minute}", 1.25) for minute in (45, 50, 55)
    ]


@pytest.mark.parametrize(("end", "status"), [("2019-03-31T16:00:00Z", 200), ("2019-03-31T16:00:01Z", 400)])
async def test_a_month_in_which_clocks_are_set_back_fits_into_a_response(fleet: Fleet, end: str, status: int) -> None:
    """March of 2019 had 31 days and three hours at Casey Station."""
    plant = await fleet.plant()
    path = f"/trading/plants/{plant['id']}/meters?from=2019-02-28T13:00:00Z&to={end}"
    assert (await fleet.call("GET", path, headers=fleet.viewer))[0] == status


async def test_a_replaced_meter_keeps_its_readings(fleet: Fleet) -> None:
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters?from=2026-11-20T10:00:00Z&to=2026-11-20T13:00:00Z"
    before = [row for row in (await fleet.call("GET", path))[1] if row["meter_id"] == "GRID"]
    assert len(before) == 14
    assert (await fleet.call("DELETE", f"/plants/{plant.id}/sub-devices/GRID"))[0] == 200
    body = {"externalId": "GRID", "name": "GRID", "type": "METER"}
    assert (await fleet.call("POST", f"/plants/{plant.id}/sub-devices", body))[0] == 201
    assert [row for row in (await fleet.call("GET", path))[1] if row["meter_id"] == "GRID"] == before
    # The new meter counts from 0, and its readings begin before the last one of the old meter.
    times = [START + timedelta(minutes=number) for number in range(60, 131)]
    await plant.write("GRID", IN_KWH, {time: (float(n), 0.0) for n, time in enumerate(times)})
    after = [(row["time"][11:16], row["energy"]) for row in (await fleet.call("GET", path))[1] if row["meter_id"] == "GRID"]
    assert after == [(row["time"][11:16], row["energy"]) for row in before[:12]] + [
        (f"{11 + minute // 60}:{minute % 60:02d}", 5) for minute in range(0, 70, 5)
    ]


async def test_a_month_and_the_last_day(fleet: Fleet) -> None:
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters"
    _, rows = await fleet.call("GET", f"{path}?from=2026-11-01T00:00:00Z&to=2026-12-01T00:00:00Z&bucketMinutes=7")
    # What is between the first and the last whole bucket, however the range was read.
    assert sum(row["energy"] for row in rows if row["meter_id"] == "GRID") == 0.25 * 70
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    recent = {now - timedelta(minutes=30 - number): (float(number), 0.0) for number in range(31)}
    await plant.write("QUIET", IN_KWH, recent)
    _, rows = await fleet.call("GET", path)
    assert {row["meter_id"] for row in rows} >= {"QUIET"}
    assert {row["energy"] for row in rows if row["meter_id"] == "QUIET"} == {5}


async def test_a_plant_may_have_thousands_of_meters(fleet: Fleet) -> None:
    """The meter at the grid is often registered first: those of 1,000 flats hid it."""
    plant = await metered(fleet)
    async with plant.database.transaction() as db:
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT gen_random_uuid(), %s, %s, 'FLAT' || n, 'Flat', 'METER' FROM generate_series(1, 1000) AS n",
            (plant.organization_id, plant.id),
        )
    _, rows = await fleet.call("GET", f"/trading/plants/{plant.id}/meters?{HOUR}&bucketMinutes=30")
    assert [(row["meter_id"], row["energy"]) for row in rows] == [("GRID", 7.5), ("HALL", 2), ("GRID", 7.5), ("HALL", 2)]


async def test_an_edited_unit_and_values_of_any_size(fleet: Fleet) -> None:
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters?{HOUR}"
    minutes = {START + timedelta(minutes=n): n for n in range(-10, 71)}
    await plant.write("QUIET", IN_KWH[:1], {time: (5_000 + n / 10,) for time, n in minutes.items() if n > 30})
    await plant.write("QUIET", IN_WH, {time: (5_000_000 + n * 100.0,) for time, n in minutes.items() if n <= 30})
    extremes = [1.7e308, -1.7e308, 5e-324, 0.0]
    await plant.write("HALL", IN_KWH, {time: (extremes[n % 4], extremes[n // 2 % 4]) for time, n in minutes.items()})
    status, rows = await fleet.call("GET", path)
    assert status == 200
    assert {row["energy"] for row in rows if row["meter_id"] == "QUIET"} == {0.5}
    energies = [row["energy"] for row in rows if row["meter_id"] == "HALL"]
    assert len(energies) == 12
    assert all(isinstance(energy, float) and isfinite(energy) for energy in energies)


async def test_readings_outside_the_limits_of_a_counter_add_nothing(fleet: Fleet) -> None:
    plant = await metered(fleet)
    limited = [Metric("energy_imported", "kWh", counter=True, minimum=100.0, maximum=1e6)]
    for first in (-70, 20):  # at the beginning of what is read, and in the middle
        await plant.delete_device("QUIET")
        await plant.add_device("QUIET")
        async with plant.database.transaction() as db:
            await db.execute("UPDATE sub_device SET type = 'METER' WHERE external_id = 'QUIET'")
        counts = {n: 4_294_967.295 if first <= n < first + 21 else 5_000 + n / 10 for n in range(-70, 71)}
        await plant.write("QUIET", limited, {START + timedelta(minutes=n): (count,) for n, count in counts.items()})
        _, rows = await fleet.call("GET", f"/trading/plants/{plant.id}/meters?{HOUR}")
        energies = [row["energy"] for row in rows if row["meter_id"] == "QUIET"]
        assert (len(energies), sum(energies)) == (12, pytest.approx(6.0))


@pytest.mark.parametrize(
    ("bucket", "every", "misread", "reading", "most"),
    [(5, 6, 65.5, 90_000.0, 6), (60, 66, 115, 90_000.0, 66), (60, 66, -55, 400.0, 66), (15, 15, -60, 1_500.0, 0)],
)
async def test_a_misread_value_around_the_range_changes_no_bucket(
    fleet: Fleet, bucket: int, every: int, misread: float, reading: float, most: float
) -> None:
    """Readings slightly further apart than the buckets are long: the one that reverts it is more than two buckets away.

    An hour before the range, it is the first one that is read. Of a value less than twice too high, the next one is no reset.
    """
    plant = await metered(fleet)
    counts = {misread + every * n: 1_000.0 + every * n for n in range(-40, 40)}
    await plant.write("QUIET", IN_KWH[:1], {START + timedelta(minutes=n): (count,) for n, count in counts.items()})
    path = f"/trading/plants/{plant.id}/meters?{HOUR}&bucketMinutes={bucket}"
    before = [row for row in (await fleet.call("GET", path))[1] if row["meter_id"] == "QUIET"]
    assert (len(before), {row["energy"] for row in before}) == (60 // bucket, {bucket})
    await plant.write("QUIET", IN_KWH[:1], {START + timedelta(minutes=misread): (reading,)})
    after = [row for row in (await fleet.call("GET", path))[1] if row["meter_id"] == "QUIET"]
    assert [row["time"] for row in after] == [row["time"] for row in before]
    assert all(abs(row["energy"] - bucket) <= most for row in after), after


@pytest.mark.parametrize("reading", [3.0, 90_000.0])
async def test_a_value_that_was_misread_after_a_silence_adds_nothing(fleet: Fleet, reading: float) -> None:
    """The silence begins more than an hour before the range, and ends in it."""
    plant = await metered(fleet)
    counts = {n: 20_000.0 + n for n in range(-200, 80, 5) if n < -90 or n > 15} | {15: reading}
    await plant.write("QUIET", IN_KWH[:1], {START + timedelta(minutes=n): (count,) for n, count in counts.items()})
    _, rows = await fleet.call("GET", f"/trading/plants/{plant.id}/meters?{HOUR}")
    assert [row["energy"] for row in rows if row["meter_id"] == "QUIET"] == [5.0] * 8


@pytest.mark.parametrize("nothing", [0.0, -1.0])
async def test_a_range_that_begins_with_zeros_for_days_has_no_energy_of_years(fleet: Fleet, nothing: float) -> None:
    """Gateways report zero for a meter that they do not reach. The range is read day by day."""
    plant = await metered(fleet)
    counts = {n: 9_000 + n / 10 for n in range(-72, 80)} | dict.fromkeys(range(-30, 30), nothing)
    await plant.write("QUIET", IN_KWH[:1], {START + timedelta(hours=n): (count,) for n, count in counts.items()})
    for days in (1, 2, 3):
        end = f"{START + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"
        path = f"/trading/plants/{plant.id}/meters?from=2026-11-20T10:00:00Z&to={end}&bucketMinutes=60"
        energies = [row["energy"] for row in (await fleet.call("GET", path))[1] if row["meter_id"] == "QUIET"]
        assert len(energies) == 24 * days
        assert sum(energies) == pytest.approx(max(0, 24 * days - 30) / 10), days


@pytest.mark.parametrize(("hours", "most"), [(20, 20.25), (30, 0.25)])
async def test_what_was_counted_during_zeros_does_not_depend_on_the_range(fleet: Fleet, hours: int, most: float) -> None:
    """A gateway that does not reach the meter sends zeros. After more than a day, the next reading only sets the level."""
    plant = await metered(fleet)
    readings = {n: (0.0 if 1 <= n - 24 <= 4 * hours else 9_000.0 + n / 4) for n in range(4 * (hours + 12))}
    times = {START + n * timedelta(minutes=15): reading for n, reading in readings.items()}
    await plant.write("QUIET", [Metric("energy_imported", "kWh", counter=True)], {time: (one,) for time, one in times.items()})
    end = (START + timedelta(hours=hours + 10)).isoformat().replace("+00:00", "Z")
    found = []
    for begin in (0, 8):
        start = (START + timedelta(hours=begin)).isoformat().replace("+00:00", "Z")
        path = f"/trading/plants/{plant.id}/meters?from={start}&to={end}&bucketMinutes=15"
        _, rows = await fleet.call("GET", path)
        found.append({row["time"]: row["energy"] for row in rows if row["meter_id"] == "QUIET"})
    assert found[1].items() <= found[0].items()
    assert max(found[0].values()) == pytest.approx(most)


async def test_linking_a_plant_hands_its_metering_to_the_esm(fleet: Fleet) -> None:
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters?{HOUR}"
    await fleet.call("PATCH", f"/plants/{plant.id}", {"externalPlantId": "P1"})
    assert len((await fleet.call("GET", path))[1]) == 12, "linked to nothing: no ESM is configured"
    settings = {"esmApiUrl": "http://127.0.0.1:1025", "esmClientId": "us", "esmClientSecret": "s3cret"}
    await fleet.call("POST", "/trading/config", settings)
    assert (await fleet.call("GET", path))[0] == 500


async def test_a_dip_over_midnight_adds_nothing(fleet: Fleet) -> None:
    """A counter that rises by 1 a minute shows 50 less from 23:40 to 00:20."""
    plant = await metered(fleet)
    midnight = datetime(2026, 11, 19, tzinfo=UTC)
    counts = {number: 1_000.0 + number - (50 if 60 <= number < 100 else 0) for number in range(161)}
    times = {midnight + timedelta(minutes=number - 80): (count, 0.0) for number, count in counts.items()}
    await plant.write("QUIET", IN_KWH, times)
    path = f"/trading/plants/{plant.id}/meters"
    for first, expected in (("18T23:00", 135), ("18T00:00", 155), ("18T23:45", 96), ("19T00:00", 96)):
        _, rows = await fleet.call("GET", f"{path}?from=2026-11-{first}:00Z&to=2026-11-19T01:15:00Z")
        energies = [row["energy"] for row in rows if row["meter_id"] == "QUIET"]
        assert sum(energies) == expected, first


async def test_a_meter_that_was_exchanged_counts_again_after_a_day(fleet: Fleet) -> None:
    """The new meter has the id of the old one, and a counter that is a fifth lower. It rises by 1 an hour."""
    plant = await metered(fleet)
    counts = {hour: 1_000.0 + hour - (200 if hour >= 60 else 0) for hour in range(-4, 245)}
    await plant.write("QUIET", IN_KWH[:1], {START + timedelta(hours=n): (count,) for n, count in counts.items()})

    async def energies(first: int, last: int) -> dict[str, float]:
        start, end = (f"{START + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ}" for day in (first, last))
        _, rows = await fleet.call("GET", f"/trading/plants/{plant.id}/meters?from={start}&to={end}&bucketMinutes=60")
        return {row["time"]: row["energy"] for row in rows if row["meter_id"] == "QUIET"}

    long, daily = await energies(0, 10), [await energies(day, day + 1) for day in range(4, 10)]
    assert list(long.values()) == [1.0] * 59 + [0.0] * 25 + [1.0] * 156
    assert {time: long[time] for day in daily for time in day} == {time: one for day in daily for time, one in day.items()}


async def test_a_response_that_would_be_too_large_is_refused(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters?{HOUR}"
    monkeypatch.setattr("gridfleet.domains.trading.metering.MOST_ROWS", 12)
    assert len((await fleet.call("GET", path))[1]) == 12
    status, answer = await fleet.call("GET", f"{path}&bucketMinutes=4")
    assert (status, answer["code"]) == (400, "BAD_REQUEST")
    assert answer["message"] == "The response would have more than 12 readings, or need too many buckets for them."
    assert answer["details"] == ["from: ask for a shorter range, or for wider buckets"]


async def with_flats(plant: RecordedPlant, first: int, count: int, read_at: datetime) -> None:
    """Register meters that have sent a single reading."""
    async with plant.database.transaction() as db:
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT gen_random_uuid(), %s, %s, 'FLAT' || n, 'Flat', 'METER' FROM generate_series(%s::int, %s::int) AS n",
            (plant.organization_id, plant.id, first, first + count - 1),
        )
    for number in range(first, first + count):
        await plant.write(f"FLAT{number}", IN_KWH[:1], {read_at: (float(number),)})


async def test_a_response_for_which_too_many_buckets_would_be_computed_is_refused(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buckets that are left out do not count as readings. Those of thousands of meters took minutes in one transaction."""
    plant = await metered(fleet)
    path = f"/trading/plants/{plant.id}/meters?{HOUR}"
    monkeypatch.setattr("gridfleet.domains.trading.metering.MOST_ROWS", 12)
    await with_flats(plant, 1, 3, START + timedelta(minutes=7))
    status, rows = await fleet.call("GET", path)
    assert (status, len(rows)) == (200, 12), "five meters of twelve buckets each"
    await with_flats(plant, 4, 1, START + timedelta(minutes=7))
    status, answer = await fleet.call("GET", path)
    assert (status, answer["code"]) == (400, "BAD_REQUEST")
    assert answer["details"] == ["from: ask for a shorter range, or for wider buckets"]


async def test_meters_without_a_reading_in_the_range_are_not_read(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = await metered(fleet)
    monkeypatch.setattr("gridfleet.domains.trading.metering.MOST_ROWS", 12)
    await with_flats(plant, 1, 10, START - timedelta(minutes=1))
    status, rows = await fleet.call("GET", f"/trading/plants/{plant.id}/meters?{HOUR}")
    assert (status, [row["meter_id"] for row in rows]) == (200, ["GRID"] * 12)


async def test_other_requests_continue_while_readings_of_each_second_are_counted(fleet: Fleet) -> None:
    plant = await metered(fleet)
    day = START - timedelta(days=1)
    await plant.write("GRID", IN_KWH, {day: (0.0, 0.0)})
    async with plant.database.transaction() as db:
        await db.execute(
            "INSERT INTO telemetry_frame (source_id, layout_id, time, vals)"
            " SELECT %s, %s, t, ARRAY[n / 100.0, 0.0]::float8[] FROM generate_series(%s::timestamptz, %s, '1 second')"
            " WITH ORDINALITY AS s (t, n)",
            (await plant.source("GRID"), await plant.layout(IN_KWH), day + timedelta(seconds=1), START - timedelta(minutes=6)),
        )
    path = f"/trading/plants/{plant.id}/meters?from={day:%Y-%m-%dT%H:%M:%SZ}&to={START:%Y-%m-%dT%H:%M:%SZ}&bucketMinutes=60"

    async with watched_loop() as loop:
        status, rows = await fleet.call("GET", path)

    assert (status, [row["energy"] for row in rows if row["meter_id"] == "GRID"][:22]) == (200, [36.0] * 22)
    assert loop.longest < 0.1 * loop.total


async def test_other_requests_continue_while_many_readings_are_written(fleet: Fleet) -> None:
    plant = await metered(fleet)
    first = START - timedelta(days=30)
    times = [first + timedelta(minutes=number) for number in range(30 * 1_440 - 5)]
    await plant.write("GRID", IN_KWH, {moment: (n / 100, 0.0) for n, moment in enumerate(times)})
    path = f"/trading/plants/{plant.id}/meters?from={first:%Y-%m-%dT%H:%M:%SZ}&to={START:%Y-%m-%dT%H:%M:%SZ}&bucketMinutes=1"
    headers = {**fleet.viewer, "accept-encoding": "identity"}

    turns = []
    for _ in range(3):  # finding memory for megabytes takes long on some machines, once
        # As a stream, which the search for secrets in responses does not read.
        async with watched_loop() as loop, fleet.service.client.stream("GET", f"/api/v1{path}", headers=headers) as answer:
            text = await answer.aread()
        turns.append(loop.longest)

    rows = json.loads(text)
    assert (len(rows), rows[-1]["time"]) == (43_200, "2026-11-20T09:59:00.000Z")
    readings = [MeterRow(datetime.fromisoformat(row["time"]), plant.id, "GRID", 1, row["energy"]) for row in rows]
    begun = time.thread_time()
    assert to_json(readings) == text
    assert min(turns) < 0.7 * (time.thread_time() - begun)
