"""A backup that is made while plants send is a whole service again, in another home."""

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridfleet.sdk.plant import Package, PlantClient, Snapshot
from support.clients.command_line import gridfleet
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.servers.running_stack import RunningStack

COUNT = 100


@pytest.fixture
def other_home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-re-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def test_what_was_stored_when_the_backup_began_is_there_again(fleet: Fleet, other_home: Path, tmp_path: Path) -> None:
    plant = fleet.plant("MTLS")
    organizations = fleet.call("GET", "/organizations?limit=1")["meta"]["total"]
    start = (datetime.now(UTC) - timedelta(hours=1)).replace(microsecond=0)
    sent: dict[str, float] = {}
    file = tmp_path / "fleet.backup"

    async with PlantClient(Package.parse(json.dumps(plant.package)), queue_path=tmp_path / "queue") as client:

        async def send(number: int) -> None:
            moment = start + timedelta(seconds=number)
            sent[text(moment)] = float(number)
            await client.send(Snapshot(time=moment, fields={"number": number}))

        async def keep_sending() -> None:
            number = COUNT
            while True:
                await send(number)
                number += 1
                await asyncio.sleep(0.01)

        for number in range(COUNT):
            await send(number)
        await client.drain(timeout_seconds=20)
        wait_for(lambda: plant.latest().get("number", ("", -1))[1] == COUNT - 1)
        ledger = dict(sent)
        sending = asyncio.create_task(keep_sending())
        made = await asyncio.to_thread(gridfleet, "backup", str(file), environment=fleet.stack.environment)
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
    assert made.returncode == 0, made.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(sent) > len(ledger)

    restored = RunningStack(other_home)
    back = gridfleet("restore", str(file), environment=restored.environment)
    assert back.returncode == 0, back.stderr
    assert oct((other_home / "secrets").stat().st_mode) == "0o40700"
    assert {path.stat().st_mode & 0o777 for path in (other_home / "secrets").iterdir()} == {0o600}
    try:
        again = Fleet(restored.start())
        again.enter(fleet.organization_id)
        assert again.call("GET", "/organizations?limit=1")["meta"]["total"] == organizations + 1  # and its own
        same = Plant(again, plant.id, plant.method, plant.package)
        found = {moment: values["number"] for moment, values in same.history(text(start), text(datetime.now(UTC))).items()}
        # Whole messages, each as it was sent: all that were stored when it began, and some that came meanwhile.
        assert ledger.items() <= found.items() <= sent.items()
        [[signed, version]] = again.sql("SELECT hmac_secret, key_version FROM plant_secret WHERE plant_id = %s", [plant.id])
        place = {"table": "plant_secret", "column": "hmac_secret", "row_id": plant.id}
        assert again.keyring.decrypt(signed, version, **place) == plant.secret
        # The plant's certificate and its trust in the broker hold here too.
        async with await same.connect() as connection:
            await connection.publish(same.topic(), same.signed({"time": text(datetime.now(UTC)), "fields": {"number": -1}}))
        wait_for(lambda: same.latest()["number"][1] == -1)
        again.close()
        assert restored.stop() == 0
    finally:
        restored.destroy()
