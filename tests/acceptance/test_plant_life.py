"""A plant's whole life over HTTP and MQTT, with each method: from its registration to the last trace of its telemetry."""

import asyncio
import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gridfleet.sdk.plant import DeviceEntry, Package, PlantClient, Snapshot
from support.clients import lean_mqtt
from support.clients.fleet_under_test import Fleet, Plant, tls_context, wait_for

METHODS = ("MTLS", "TOKEN", "PASSWORD")
GUIDE = Path(__file__).parents[2] / "docs" / "device.md"
NOTICED_SECONDS = 1
"""Within which the ingest has received a change and worked off what came before it."""


def example(name: str) -> str:
    """A program of the installers' guide, as it stands there."""
    found = re.search(rf"<!-- example: {name} -->\n```\w+\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def device(plant: Plant, folder: Path, **security: Any) -> PlantClient:
    """The plant's own software, which knows the package and nothing else; `security` replaces parts of it."""
    package = {**plant.package, "security": {**plant.package["security"], **security}}
    return PlantClient(Package.parse(json.dumps(package)), queue_path=folder / "queue")


class Measurements:
    """Snapshots a second apart whose value is their number."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.begin = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
        self.count = 0

    def next(self) -> Snapshot:
        """The next one."""
        self.count += 1
        at = self.begin + timedelta(seconds=self.count)
        return Snapshot(time=at, devices=[DeviceEntry("PV1", {"active_power": self.count})])

    def stored(self) -> list[int]:
        """The numbers that people can read."""
        start, end = (moment.isoformat().replace("+00:00", "Z") for moment in (self.begin, datetime.now(UTC)))
        return sorted(int(values["PV1.active_power"]) for values in self.plant.history(start, end).values())

    def arrived(self, number: int) -> None:
        """Waits until one can be read."""
        wait_for(lambda: number in self.stored())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
async def test_the_life_of_a_plant(fleet: Fleet, method: str, tmp_path: Path) -> None:
    plant, group = registered(fleet, method)
    measured = Measurements(plant)

    plant.package = fleet.call("GET", f"/plants/{plant.id}/provision/download")
    assert state(plant) == "ACTIVE"
    async with device(plant, tmp_path) as running:
        await running.send(measured.next())
        await running.drain(timeout_seconds=20)
        measured.arrived(1)
        wait_for(lambda: plant.status() == "ONLINE")
        [brief] = fleet.call("GET", f"/plant-groups/{group}/plants")
        assert (brief["id"], brief["status"]) == (plant.id, "ONLINE")

        await suspend_and_reactivate(running, plant, measured)
        new_secret = await rotate(running, plant, measured)
    if method != "MTLS":
        await asyncio.to_thread(run_the_guides_program, plant, tmp_path)
    async with device(plant, tmp_path, hmacSecret=new_secret) as running:
        await running.send(measured.next())
        await running.drain(timeout_seconds=20)
        measured.arrived(measured.count)
    plant.package["security"]["hmacSecret"] = new_secret
    if method == "MTLS":
        await renew(plant)

    await revoke(plant)
    await delete(plant, group)


def registered(fleet: Fleet, method: str) -> tuple[Plant, str]:
    """A PENDING plant with a device, and the group it is in."""
    plant = fleet.register(method)
    plant.add_device("PV1", "INVERTER", fleet.templates["Gridfleet inverter"])
    group: str = fleet.call("POST", "/plant-groups", {"name": f"All {method}"})["id"]
    fleet.call("POST", f"/plant-groups/{group}/plants", {"plantIds": [plant.id]})
    assert [one["id"] for one in fleet.call("GET", f"/plants/{plant.id}")["plantGroups"]] == [group]
    assert state(plant) == "PENDING"
    return plant, group


def state(plant: Plant) -> str:
    return str(plant.fleet.call("GET", f"/plants/{plant.id}")["lifecycleStatus"])


async def suspend_and_reactivate(running: PlantClient, plant: Plant, measured: Measurements) -> None:
    """What is sent meanwhile is gone without a word; the connection stays, and the same credentials go on."""
    plant.fleet.call("POST", f"/plants/{plant.id}/suspend")
    await asyncio.sleep(NOTICED_SECONDS)
    await running.send(measured.next())
    await running.drain(timeout_seconds=20)
    discarded = measured.count
    await asyncio.sleep(NOTICED_SECONDS)
    plant.fleet.call("POST", f"/plants/{plant.id}/reactivate")
    await asyncio.sleep(NOTICED_SECONDS)
    await running.send(measured.next())
    await running.drain(timeout_seconds=20)

    measured.arrived(measured.count)
    assert discarded not in measured.stored()
    assert plant.refused() == []
    assert running.connected


async def rotate(running: PlantClient, plant: Plant, measured: Measurements) -> str:
    """The new secret; the running software keeps the old one and is understood for another hour."""
    rotated = plant.fleet.call("POST", f"/plants/{plant.id}/rotate-secret")
    await asyncio.sleep(NOTICED_SECONDS)
    await running.send(measured.next())
    await running.drain(timeout_seconds=20)
    measured.arrived(measured.count)
    assert rotated["hmacSecret"] != plant.package["security"]["hmacSecret"]
    return str(rotated["hmacSecret"])


def run_the_guides_program(plant: Plant, folder: Path) -> None:
    """The program that the guide shows for any MQTT client, in a folder that holds the package."""
    (folder / "plant.json").write_text(json.dumps(plant.package))
    (folder / "send.py").write_text(example("paho"))
    before = plant.latest()["PV1.active_power"]
    environment = {"MQTT_TOKEN": plant.password or ""} if plant.method == "TOKEN" else {}
    subprocess.run([sys.executable, "send.py"], cwd=folder, env=environment, check=True, timeout=30)
    wait_for(lambda: plant.latest()["PV1.active_power"] != before)


async def renew(plant: Plant) -> None:
    """Both certificates let the plant in for an hour, then the new one alone."""
    security = plant.package["security"]
    renewed = plant.fleet.call("POST", f"/plants/{plant.id}/renew-certificate")
    old = tls_context(security["caCert"], security["clientCert"] + security["clientKey"])
    new = tls_context(security["caCert"], renewed["clientCert"] + renewed["clientKey"])
    port = plant.fleet.stack.ports["mqtts_port"]
    for context in (old, new):
        await (await lean_mqtt.connect(port, plant.login, context)).close()
    plant.update(previous_certificate_valid_until=datetime.now(UTC))
    with pytest.raises(lean_mqtt.Refused):
        await lean_mqtt.connect(port, plant.login, old)
    await (await lean_mqtt.connect(port, plant.login, new)).close()
    security |= renewed


async def revoke(plant: Plant) -> None:
    """The connection ends within a second, and the plant does not log in again."""
    login = await asyncio.to_thread(lambda: plant.login)
    async with await plant.connect(login) as connection:
        plant.fleet.call("POST", f"/plants/{plant.id}/revoke")
        await connection.wait_lost(1)
        assert connection.lost
    with pytest.raises(lean_mqtt.Refused):
        await plant.connect(login)
    assert state(plant) == "DECOMMISSIONED"
    assert plant.status() == "OFFLINE"
    assert plant.device_status("PV1") == "UNKNOWN"


async def delete(plant: Plant, group: str) -> None:
    """Nothing of it is left, in a moment not even its telemetry."""
    [(sources,)] = plant.fleet.sql("SELECT array_agg(id) FROM telemetry_source WHERE plant_id = %s", [plant.id])
    assert plant.fleet.sql("SELECT 1 FROM telemetry_frame WHERE source_id = ANY(%s)", [sources])
    plant.fleet.call("DELETE", f"/plants/{plant.id}")

    assert plant.fleet.call("GET", f"/plant-groups/{group}")["plants"] == []
    for table in ("telemetry_frame", "telemetry_latest", "telemetry_dirty"):
        wait_for(lambda table=table: not plant.fleet.sql(f"SELECT 1 FROM {table} WHERE source_id = ANY(%s)", [sources]))
    wait_for(lambda: not plant.fleet.sql("SELECT 1 FROM telemetry_source WHERE plant_id = %s", [plant.id]))
