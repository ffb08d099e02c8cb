"""The ingest inside the running service: what an installer sees of refusals, and how soon changes take effect."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gridfleet.protocol.envelope import MAX_MESSAGE_BYTES
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.clients.lean_mqtt import Connection

SOON = 2.0
"""Seconds within which a change takes effect."""


def now(ahead_seconds: float = 0) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=ahead_seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture
def plant(fleet: Fleet) -> Plant:
    """A PASSWORD plant with one device that has no template."""
    return fleet.plant("PASSWORD", ["D"])


@pytest.fixture
async def connection(plant: Plant) -> AsyncIterator[Connection]:
    """Its connection."""
    async with await plant.connect() as opened:
        yield opened


async def send(connection: Connection, plant: Plant, payload: object, **changes: Any) -> None:
    await connection.publish(plant.topic(), plant.signed(payload, **changes))


async def test_every_reason_is_readable_and_stops_nothing(plant: Plant, connection: Connection) -> None:
    topic = plant.topic()
    fields = {f"f{n}": 1 for n in range(2_001)}
    bad = {
        "MALFORMED": plant.signed({"time": "never"}, message_id="malformed"),
        "TOO_LARGE": b"x" * (MAX_MESSAGE_BYTES + 1),
        "SIGNATURE_MISSING": json.dumps({"v": 1, "id": "unsigned", "sentAt": 1, "payload": {}}).encode(),
        "SIGNATURE_INVALID": plant.signed({}, message_id="forged", key=bytes(32)),
        "TIMESTAMP_OUT_OF_WINDOW": plant.signed({}, message_id="late", age_seconds=3_600),
        "TIME_OUT_OF_RANGE": plant.signed({"time": now(400)}, message_id="ahead"),
        "TOO_MANY_DEVICES": plant.signed({"time": now(), "devices": [{"id": "D", "fields": {}}] * 1_001}, message_id="devices"),
        "TOO_MANY_FIELDS": plant.signed({"time": now(), "fields": fields}, message_id="fields"),
    }
    good = []
    for number, body in enumerate(bad.values()):
        await connection.publish(topic, body)
        good.append(f"good{number}")
        await send(connection, plant, {"time": now(), "fields": {good[-1]: number}})
    wait_for(lambda: plant.latest().keys() >= set(good))

    refused = plant.refused()
    assert {one["reason"] for one in refused} == set(bad)
    assert len(refused) == len(bad)
    for one in refused:
        assert one.keys() == {"id", "receivedAt", "topic", "reason", "detail", "messageId", "bytes"}
        assert one["topic"] == topic
        assert one["bytes"] == len(bad[one["reason"]])
        assert one["detail"]
    by_reason = {one["reason"]: one for one in refused}
    assert by_reason["MALFORMED"]["messageId"] == "malformed"
    assert by_reason["TOO_LARGE"]["messageId"] is None
    assert "behind the service's clock" in by_reason["TIMESTAMP_OUT_OF_WINDOW"]["detail"]
    seen = plant.fleet.call("GET", f"/plants/{plant.id}")
    assert seen["authFailureCount"] == 1
    page = plant.fleet.call("GET", f"/plants/{plant.id}/refused-messages?limit=2&page=2")
    assert [one["id"] for one in page["data"]] == [one["id"] for one in refused[2:4]]


async def test_a_storm_of_bad_messages_keeps_no_good_one(plant: Plant, connection: Connection) -> None:
    expected = {}
    for number in range(400):
        if number % 4:
            await connection.start_publish(plant.topic(), bytes([number % 256]) * number)
        else:
            expected[f"a{number}"] = number
            await connection.start_publish(plant.topic(), plant.signed({"time": now(), "fields": {f"a{number}": number}}))
    await connection.ping()
    wait_for(lambda: len(plant.latest()) == len(expected))
    assert {name: value for name, (_, value) in plant.latest().items()} == expected
    assert plant.fleet.call("GET", f"/plants/{plant.id}/refused-messages")["meta"]["total"] == 300


async def test_during_the_hour_after_a_rotation_both_secrets_verify(plant: Plant, connection: Connection) -> None:
    await send(connection, plant, {"time": now(), "fields": {"before": 1}})
    wait_for(lambda: "before" in plant.latest())
    new = bytes(range(32))
    [[old_blob]] = plant.fleet.sql("SELECT hmac_secret FROM plant_secret WHERE plant_id = %s", [plant.id])
    old = plant.fleet.keyring.decrypt(old_blob, 1, table="plant_secret", column="hmac_secret", row_id=plant.id)
    assert old == plant.secret
    encrypted = {
        column: plant.fleet.keyring.encrypt(secret, table="plant_secret", column=column, row_id=plant.id)
        for column, secret in (("hmac_secret", new), ("previous_hmac_secret", old))
    }
    plant.update_secret(**encrypted, previous_valid_until=datetime.now(UTC) + timedelta(hours=1))
    await asyncio.sleep(SOON)

    await send(connection, plant, {"time": now(), "fields": {"with_old": 1}})
    await send(connection, plant, {"time": now(), "fields": {"with_new": 1}}, key=new)
    wait_for(lambda: plant.latest().keys() >= {"with_old", "with_new"})

    # The hour ends without a notification to the ingest.
    plant.update_secret(previous_valid_until=datetime.now(UTC) + timedelta(seconds=1))
    await asyncio.sleep(SOON)
    await send(connection, plant, {"time": now(), "fields": {"too_late": 1}}, message_id="too-late")
    await send(connection, plant, {"time": now(), "fields": {"still_new": 1}}, key=new)
    wait_for(lambda: "still_new" in plant.latest())
    assert plant.refusal_of("too-late")["reason"] == "SIGNATURE_INVALID"
    assert "too_late" not in plant.latest()


async def test_a_device_registered_meanwhile_counts_from_then_on(plant: Plant, connection: Connection) -> None:
    for number in range(3):
        await send(connection, plant, {"time": now(), "devices": [{"id": "NEW", "fields": {"a": number}}]})
    wait_for(lambda: [one["count"] for one in plant.unregistered()] == [3])
    [device] = plant.unregistered()
    assert (device["externalId"], device["fields"]) == ("NEW", ["a"])
    assert device["firstSeenAt"] <= device["lastSeenAt"] <= now()
    assert not [metric for metric in plant.latest() if "NEW" in metric]

    plant.add_device("NEW")
    registered_at = time.monotonic()
    while "NEW.a" not in plant.latest():
        assert time.monotonic() - registered_at < SOON
        await send(connection, plant, {"time": now(), "devices": [{"id": "NEW", "fields": {"a": 9}}]})
        await asyncio.sleep(0.1)
    assert plant.unregistered() == []
    assert plant.latest()["NEW.a"][1] == 9


async def test_an_edited_template_takes_effect_between_messages(fleet: Fleet, plant: Plant, connection: Connection) -> None:
    template_id = fleet.template([{"key": "power", "field": "p", "unit": "kW"}])
    plant.add_device("T", template_id=template_id)
    await asyncio.sleep(SOON)
    await send(connection, plant, {"time": now(), "devices": [{"id": "T", "fields": {"p": 2, "v": 3}}]})
    wait_for(lambda: plant.latest().get("T.power", ("", 0))[1] == 2)
    fleet.sql(
        "UPDATE device_template SET version = version + 1, signals = %s::jsonb WHERE id = %s",
        ['[{"key": "power", "field": "p", "scale": 1000, "unit": "W"}, {"key": "volts", "field": "v"}]', template_id],
    )
    await asyncio.sleep(SOON)
    await send(connection, plant, {"time": now(), "devices": [{"id": "T", "fields": {"p": 2, "v": 3}}]})
    wait_for(lambda: plant.latest().get("T.volts", ("", 0))[1] == 3)
    assert plant.latest()["T.power"][1] == 2000


async def test_statuses_follow_what_the_plant_says(plant: Plant, connection: Connection) -> None:
    def entry(status: str | None) -> dict[str, Any]:
        return {"id": "D", "fields": {"a": 1}} | ({"status": status} if status else {})

    assert (plant.status(), plant.device_status("D")) == ("UNKNOWN", "UNKNOWN")
    for status, expected in [(None, "ONLINE"), ("DEGRADED", "DEGRADED"), ("OFFLINE", "OFFLINE"), ("ONLINE", "ONLINE")]:
        await send(connection, plant, {"time": now(), "devices": [entry(status)]})
        wait_for(lambda expected=expected: plant.device_status("D") == expected)  # type: ignore[misc]
        assert plant.status() == "ONLINE"

    await connection.publish(plant.topic("status"), b'{"status":"OFFLINE","reason":"maintenance"}', retain=True)
    wait_for(lambda: plant.status() == "OFFLINE")
    assert plant.device_status("D") == "UNKNOWN"

    await connection.publish(plant.topic("status"), b'{"status":"ONLINE","firmware":"1.2"}', retain=True)
    wait_for(lambda: plant.status() == "ONLINE")
    await send(connection, plant, {"time": now(), "devices": [entry(None)]})
    wait_for(lambda: plant.device_status("D") == "ONLINE", 5)


async def test_any_message_brings_a_plant_online_again(plant: Plant, connection: Connection) -> None:
    await send(connection, plant, {"time": now(), "fields": {"a": 1}})
    wait_for(lambda: plant.status() == "ONLINE")
    await connection.publish(plant.topic("status"), b'{"status":"OFFLINE"}')
    wait_for(lambda: plant.status() == "OFFLINE")
    await send(connection, plant, {"time": now(), "fields": {"a": 2}})
    wait_for(lambda: plant.status() == "ONLINE", 5)
    assert plant.fleet.call("GET", f"/plants/{plant.id}")["lastSeenAt"] is not None


async def test_a_snapshot_that_is_acknowledged_can_be_queried_at_once(plant: Plant, connection: Connection) -> None:
    """Within a second on an idle service; the commit is what the wait is for."""
    delays = []
    for number in range(10):
        began = time.monotonic()
        await send(connection, plant, {"time": now(), "fields": {"a": number}})
        wait_for(lambda number=number: plant.latest().get("a", ("", -1))[1] == number)  # type: ignore[misc]
        delays.append(time.monotonic() - began)
    assert sorted(delays)[5] < 1, delays


async def test_numbers_survive_the_whole_way(plant: Plant, connection: Connection) -> None:
    """Doubles as they are: nothing is rounded between the plant and the answer."""
    values = [0.1, -0.0, 1e-300, 1.7976931348623157e308, 2**53 + 1, 123456789.123456789, 1 / 3, True, 5e-324]
    start = datetime.now(UTC) - timedelta(seconds=100)
    times = [
        (start + timedelta(seconds=n)).isoformat(timespec="milliseconds").replace("+00:00", "Z") for n in range(len(values))
    ]
    await send(connection, plant, [{"time": at, "fields": {"a": value}} for at, value in zip(times, values, strict=True)])
    wait_for(lambda: plant.latest().get("a", ("", 0))[0] == times[-1])
    history = plant.history(times[0], now())
    assert history == {at: {"a": float(value)} for at, value in zip(times, values, strict=True)}


async def test_a_plant_that_is_taken_out_of_service_while_connected_is_not_provisioned(
    plant: Plant, connection: Connection
) -> None:
    await send(connection, plant, {"time": now(), "fields": {"before": 1}})
    wait_for(lambda: "before" in plant.latest())
    plant.update(lifecycle_status="DECOMMISSIONED")
    await asyncio.sleep(SOON)
    await send(connection, plant, {"time": now(), "fields": {"after": 1}})
    [refused] = wait_for(lambda: plant.refused() or None)
    assert (refused["reason"], refused["detail"]) == ("NOT_PROVISIONED", "the plant is DECOMMISSIONED")
    assert "after" not in plant.latest()
