"""The main job by hand, with each method: register, provision, connect the plant's own client, measure, read it all back."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridfleet.sdk.plant import DeviceEntry, DeviceStatus, Package, PlantClient, Snapshot
from support.clients.fleet_under_test import Fleet, Plant, wait_for

METHODS = ("MTLS", "TOKEN", "PASSWORD")
COUNT = 240


def text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def measured_today() -> list[datetime]:
    """Moments of this UTC day up to now, ten seconds apart at most."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    spacing = min(timedelta(seconds=10), (now - midnight) / (COUNT + 1))
    moments = [now - spacing * (COUNT - number) for number in range(COUNT)]
    return [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in moments]


def snapshot(moment: datetime, number: int) -> Snapshot:
    """The sun rises by 0.1 kW a step, half of it is exported, the battery charges with 1 kW."""
    power = number / 10
    return Snapshot(
        time=moment,
        fields={"frequency": 50 + number / 1_000, "load_power": power / 2 - 1, "status": 5},
        devices=[
            DeviceEntry("PV1", {"active_power": power, "energy_produced": 1_000 + number * 0.25, "status": 1}),
            DeviceEntry("BAT1", {"active_power": 1, "soc": number / 3}, status=DeviceStatus.DEGRADED),
            DeviceEntry("GRID", {"active_power": -power / 2, "energy_exported": number * 0.125, "energy_imported": 7}),
        ],
    )


def expected(number: int) -> dict[str, float]:
    """What one snapshot is worth; the battery has no template, the plant and the others have the system's."""
    power = number / 10
    values = {"frequency": 50 + number / 1_000, "load_power": power / 2 - 1, "running": 1, "fault": 0, "grid_connected": 1}
    values |= {"PV1.active_power": power, "PV1.energy_produced": 1_000 + number * 0.25}
    values |= {
        "PV1.running": 1,
        "PV1.fault": 0,
        "PV1.warning": 0,
        "PV1.grid_connected": 0,
        "BAT1.active_power": 1,
        "BAT1.soc": number / 3,
    }
    return values | {"GRID.active_power": -power / 2, "GRID.energy_exported": number * 0.125, "GRID.energy_imported": 7}


def register(fleet: Fleet, method: str) -> Plant:
    plant = fleet.register(method)
    fleet.call("PATCH", f"/plants/{plant.id}", {"templateId": fleet.templates["Gridfleet plant"]})
    plant.add_device("PV1", "INVERTER", fleet.templates["Gridfleet inverter"])
    plant.add_device("BAT1", "BATTERY")
    plant.add_device("GRID", "METER", fleet.templates["Gridfleet meter"])
    plant.package = fleet.call("POST", f"/plants/{plant.id}/provision")
    return plant


@pytest.mark.parametrize("method", METHODS)
async def test_what_a_plant_measures_is_what_people_read(fleet: Fleet, method: str, tmp_path: Path) -> None:
    plant = register(fleet, method)
    (tmp_path / "plant.json").write_text(json.dumps(plant.package))
    package = Package.load(tmp_path / "plant.json")
    moments = measured_today()
    snapshots = [snapshot(moment, number) for number, moment in enumerate(moments)]

    async with PlantClient(package, queue_path=tmp_path / "queue") as client:
        await client.wait_connected(20)
        await client.send_all(snapshots[: COUNT // 2])  # a backlog, as arrays
        for one in snapshots[COUNT // 2 : -1]:
            await client.send(one)
        await client.drain(timeout_seconds=20)
        wait_for(lambda: plant.status() == "ONLINE")
        # The plant is ONLINE when its client connects, before its first snapshot is stored.
        wait_for(lambda: plant.device_status("BAT1") == "DEGRADED")
        assert client.dropped == 0
    wait_for(lambda: plant.status() == "OFFLINE")  # its client said goodbye
    async with PlantClient(package, queue_path=tmp_path / "queue") as client:
        await client.send(snapshots[-1])
        await client.drain(timeout_seconds=20)

    wait_for(lambda: plant.latest().get("frequency", ("", 0.0))[0] == text(moments[-1]))
    history = plant.history(text(moments[0]), text(moments[-1] + timedelta(seconds=1)))
    assert history.keys() == {text(moment) for moment in moments}
    for number, moment in enumerate(moments):
        assert history[text(moment)] == expected(number)
    assert plant.latest() == {metric: (text(moments[-1]), value) for metric, value in expected(COUNT - 1).items()}
    signals = fleet.call("GET", f"/plants/{plant.id}/sub-devices/PV1/signals/latest")
    assert {one["metric"]: one["value"] for one in signals} == {
        metric.removeprefix("PV1."): value for metric, value in expected(COUNT - 1).items() if metric.startswith("PV1.")
    }
    energy = fleet.call("GET", f"/plants/{plant.id}/energy/today")
    # The test may run over midnight. Just after it, several values are of the same second, of which the last one counts.
    if energy["date"] == moments[0].date().isoformat() and moments[1] - moments[0] >= timedelta(seconds=1):
        assert energy["produced"] == pytest.approx((COUNT - 1) * 0.25, rel=0.01)
        assert energy["exported"] == pytest.approx((COUNT - 1) * 0.125, rel=0.01)
        assert energy["imported"] == 0
        assert energy["selfConsumptionPct"] == pytest.approx(50, abs=0.5)
    assert plant.refused() == []
    assert plant.unregistered() == []


async def test_buckets_hold_the_average_of_what_was_sent(fleet: Fleet, tmp_path: Path) -> None:
    plant = register(fleet, "PASSWORD")
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=10)
    moments = [start + timedelta(seconds=2 * number) for number in range(120)]
    async with PlantClient(Package.parse(json.dumps(plant.package)), queue_path=tmp_path / "queue") as client:
        await client.send_all([snapshot(moment, number) for number, moment in enumerate(moments)])
        await client.drain(timeout_seconds=20)
    wait_for(lambda: plant.latest().get("frequency", ("", 0.0))[0] == text(moments[-1]))
    points = fleet.call(
        "GET",
        f"/telemetry?plantId={plant.id}&from={text(start)}&to={text(start + timedelta(minutes=4))}"
        "&metric=PV1.active_power&bucket=1%20minute",
    )
    assert [(point["time"], point["metadata"]["count"]) for point in points] == [
        (text(start + timedelta(minutes=minute)), 30) for minute in range(4)
    ]
    for minute, point in enumerate(points):
        powers = [number / 10 for number in range(minute * 30, minute * 30 + 30)]
        assert point["value"] == pytest.approx(sum(powers) / 30)
        assert (point["metadata"]["min"], point["metadata"]["max"]) == (powers[0], powers[-1])
