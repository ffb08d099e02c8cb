"""What is refused, why, and that it never keeps anything else from being stored."""

import json
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.refused_messages.records import trim_unregistered_devices
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import MAX_MESSAGE_BYTES
from gridfleet.protocol.signature import sign
from support.builders.accounts import add_organization
from support.clients.ingest_bench import Bench, BenchPlant, moment

GOOD = {"time": moment(0).isoformat(), "fields": {"good": 1}}


async def refusal(bench: Bench, plant: BenchPlant, body: bytes, channel: str = "telemetry") -> tuple[str, str]:
    """Why a message is refused; the good one behind it must be stored."""
    before = len(await plant.refusals())
    good = plant.message({"time": moment(before).isoformat(), "fields": {"good": 1}})
    batch = await bench.take(plant.delivery(body, channel), good)
    assert batch.results["accepted"] == 1, batch.results
    assert moment(before) in (await plant.stored())["good"]
    reasons = await plant.refusals()
    assert len(reasons) == before + 1
    return reasons[-1]


def signed(plant: BenchPlant, payload: bytes, **changes: Any) -> bytes:
    """An envelope, correctly signed, with members changed afterwards."""
    envelope: dict[str, Any] = {"v": 1, "id": "m", "sentAt": int(time.time() * 1000)}
    envelope |= {name: value for name, value in changes.items() if name in envelope}
    topic = f"v1/plants/{plant.id}/telemetry"
    try:
        envelope["sig"] = sign(plant.key, topic, str(envelope["id"]), envelope["sentAt"], payload)
    except (TypeError, UnicodeEncodeError):
        envelope["sig"] = "0" * 64
    envelope |= changes
    head = json.dumps({name: value for name, value in envelope.items() if value is not ...})[:-1]
    return head.encode() + b',"payload":' + payload + b"}"


NO_ENVELOPES = (
    (b"", "is not JSON"),
    (b"\x00", "is not JSON"),
    (b"\xff\xfe\x00", "is not JSON"),
    (random.Random(1).randbytes(1_000), "is not JSON"),
    (b"{", "is not JSON"),
    (b'{"v":1', "is not JSON"),
    (b"[" * 100_000, "message"),
    (b'{"payload":' + b"[" * 100_000, "message"),
    (b'{"payload":' + b"[" * 50_000 + b"]" * 50_000 + b"}", "message"),
    (b"null", "Expected `object`"),
    (b"[]", "Expected `object`"),
    (b'"text"', "Expected `object`"),
    (b"NaN", "is not JSON"),
    (b"{}", "required field"),
    (b'{"v":1,"id":"m","sentAt":1,"sig":""}', "`payload`"),
    (b'{"v":"1","id":"m","sentAt":1,"sig":"","payload":{}}', "$.v"),
    (b'{"v":1,"id":"","sentAt":1,"sig":"","payload":{}}', "$.id"),
    (b'{"v":1,"id":"' + b"x" * 129 + b'","sentAt":1,"sig":"","payload":{}}', "$.id"),
    (b'{"v":1,"id":7,"sentAt":1,"sig":"","payload":{}}', "$.id"),
    (b'{"v":1,"id":"m","sentAt":1.5,"sig":"","payload":{}}', "$.sentAt"),
    (b'{"v":1,"id":"m","sentAt":null,"sig":"","payload":{}}', "$.sentAt"),
    (b'{"v":1,"id":"\\ud800","sentAt":1,"sig":"","payload":{}}', "surrogate pair"),
    (b'{"v":1,"id":"m","sentAt":1,"payload":{},"sig":"\\ud800"}', "a surrogate without the other one"),
    (b'{"v":2,"id":"m","sentAt":1,"sig":"x","payload":{}}', "v: must be 1"),
    (b'{"v":1,"id":"m","sentAt":1,"sig":"","payload":tru}', "is not JSON"),
    (b"\xef\xbb\xbf{}", "is not JSON"),
)


async def test_what_is_no_envelope_is_malformed(bench: Bench) -> None:
    plant = await bench.plant()
    for body, detail in NO_ENVELOPES:
        reason, found = await refusal(bench, plant, body)
        assert reason == "MALFORMED", body
        assert detail in found, body


async def test_the_size_of_a_message_is_limited(bench: Bench) -> None:
    plant = await bench.plant()
    room = MAX_MESSAGE_BYTES - len(plant.message(b'{"x":""}').body)
    fitting = plant.message(b'{"x":"%b"}' % (b"y" * room))
    assert len(fitting.body) == MAX_MESSAGE_BYTES
    reason, detail = await refusal(bench, plant, fitting.body + b" ")
    assert (reason, detail) == ("TOO_LARGE", f"the message has {MAX_MESSAGE_BYTES + 1} bytes; the limit is {MAX_MESSAGE_BYTES}")
    assert (await refusal(bench, plant, fitting.body))[0] == "MALFORMED"  # read, and found to have no time
    assert (await refusal(bench, plant, b"x" * (MAX_MESSAGE_BYTES + 1), "status"))[0] == "TOO_LARGE"


async def test_a_signature_must_be_there_and_fit_every_byte(bench: Bench) -> None:
    plant, other = await bench.plant(), await bench.plant()
    other.key = bytes(32)
    good = json.dumps(GOOD).encode()
    assert (await refusal(bench, plant, signed(plant, good, sig="")))[0] == "SIGNATURE_MISSING"
    assert (await refusal(bench, plant, signed(plant, good, sig=...)))[0] == "SIGNATURE_MISSING"
    for wrong in ("0" * 64, "x", "ü", "é" * 32, "0" * 100_000):
        assert (await refusal(bench, plant, signed(plant, good, sig=wrong)))[0] == "SIGNATURE_INVALID"
    assert (await refusal(bench, plant, signed(plant, good).replace(b'"good": 1', b'"good": 2')))[0] == "SIGNATURE_INVALID"
    assert (await refusal(bench, plant, signed(plant, good).upper()))[0] == "MALFORMED"
    assert (await refusal(bench, plant, plant.message(GOOD, channel="ack").body))[0] == "SIGNATURE_INVALID"
    assert (await refusal(bench, plant, other.message(GOOD).body))[0] == "SIGNATURE_INVALID"
    [(failures,)] = await plant.rows("SELECT auth_failure_count FROM plant WHERE id = %s")
    assert failures == 8


async def test_bad_signatures_are_counted_up_to_the_largest_number_of_the_column(bench: Bench) -> None:
    """A plant that sends a thousand a second reaches it within a month. Its next one failed with the batch it was in."""
    plant = await bench.plant()
    await plant.rows("UPDATE plant SET auth_failure_count = 2147483646 WHERE id = %s RETURNING 1")
    for _ in range(2):
        assert (await refusal(bench, plant, signed(plant, b"{}", sig="0" * 64)))[0] == "SIGNATURE_INVALID"
    assert await plant.rows("SELECT auth_failure_count FROM plant WHERE id = %s") == [(2147483647,)]


async def test_a_message_with_a_wrong_clock_is_refused_with_that_reason(bench: Bench) -> None:
    plant = await bench.plant()
    for off in (-700_000, 700_000, -(10**12), 10**12, 10**15, 2**63 - 1, -(2**63), 10**30, -(10**30), 10**400):
        sent_at = int(time.time() * 1000) + off
        reason, detail = await refusal(bench, plant, plant.message(GOOD, sent_at=sent_at).body)
        assert reason == "TIMESTAMP_OUT_OF_WINDOW", off
        assert f"{'ahead of' if off > 0 else 'behind'} the service's clock" in detail, off


async def test_a_message_that_waited_while_the_clock_was_ahead_is_stored(bench: Bench) -> None:
    """The clock was set back between the delivery of the message and its batch."""
    plant = await bench.plant()
    message = plant.message(GOOD)
    message.arrived_after += 3_600_000
    assert (await bench.take(message)).refused == []


NO_SNAPSHOTS = (
    (b"null", "payload: Expected `object`"),
    (b'"x"', "payload: Expected `object`"),
    (b"7", "payload: Expected `object`"),
    (b"{}", "payload: Object missing required field `time`"),
    (b'{"time":null}', "$.time"),
    (b'{"time":true}', "$.time"),
    (b'{"time":""}', "$.time"),
    (b'{"time":"yesterday"}', "$.time"),
    (b'{"time":"2026-11-20T10:00:00"}', "zone"),
    (b'{"time":"2026-11-20"}', "$.time"),
    (b'{"time":"2026-13-01T00:00:00Z"}', "$.time"),
    (b'{"time":1e400}', "payload"),
    (b'{"time":1e308}', "payload.time: epoch milliseconds are out of range"),
    (b'{"time":-1e308}', "payload.time: epoch milliseconds are out of range"),
    (b'{"time":' + b"9" * 400 + b"}", "payload"),
    (b'{"time":"9999-12-31T23:59:59-14:00"}', "payload.time: "),
    (b'{"time":"0001-01-01T00:00:00+14:00"}', "payload.time: "),
    (b'{"time":NaN}', "is not JSON"),
    (b'{"time":1,"fields":{"a":NaN}}', "is not JSON"),
    (b'{"time":1,"fields":{"a":Infinity}}', "is not JSON"),
    (b'{"time":1,"fields":{"a":1e999}}', "payload"),
    (b'{"time":1,"fields":{"a":"1"}}', "$.fields.a"),
    (b'{"time":1,"fields":{"a":[]}}', "$.fields.a"),
    (b'{"time":1,"fields":{"a":{}}}', "$.fields.a"),
    (b'{"time":1,"fields":[]}', "$.fields"),
    (b'{"time":1,"fields":null}', "$.fields"),
    (b'{"time":1,"seq":1.5}', "$.seq"),
    (b'{"time":1,"devices":{}}', "$.devices"),
    (b'{"time":1,"devices":[null]}', "$.devices[0]"),
    (b'{"time":1,"devices":[{}]}', "$.devices[0]"),
    (b'{"time":1,"devices":[{"id":1,"fields":{}}]}', "$.devices[0].id"),
    (b'{"time":1,"devices":[{"id":"x"}]}', "`fields` - at `$.devices[0]`"),
    (b'{"time":1,"devices":[{"id":"x","fields":{},"status":"BROKEN"}]}', "$.devices[0].status"),
    (b'{"time":1,"devices":[{"id":"x","fields":{},"time":"never"}]}', "$.devices[0].time"),
    (b'{"time":1,"fields":{"\\ud800":1}}', "is not JSON"),
    (b'{"time":1,"fields":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001, "is not JSON"),
)


async def test_what_is_no_snapshot_is_malformed_and_says_where(bench: Bench) -> None:
    plant = await bench.plant()
    for payload, detail in NO_SNAPSHOTS:
        reason, found = await refusal(bench, plant, plant.message(payload).body)
        assert reason == "MALFORMED", payload
        assert detail in found, payload


def out_of_range() -> list[object]:
    now = datetime.now(UTC)
    early, late = now - timedelta(days=401), now + timedelta(minutes=6)
    times: list[object] = [early.isoformat(), late.isoformat(), int(early.timestamp() * 1000), int(late.timestamp() * 1000)]
    times += [0, -1, int(now.timestamp())]  # the last in seconds instead of milliseconds
    return [*times, "1970-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]


async def test_a_time_out_of_range_is_refused(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    for when in out_of_range():
        reason, detail = await refusal(bench, plant, plant.message({"time": when, "fields": {"a": 1}}).body)
        assert reason == "TIME_OUT_OF_RANGE", when
        assert detail.startswith("payload.time: ")
        entry = {"id": "D", "time": when, "fields": {"a": 1}}
        reason, detail = await refusal(bench, plant, plant.message({"time": moment(0).isoformat(), "devices": [entry]}).body)
        assert reason == "TIME_OUT_OF_RANGE", when
        assert detail.startswith("payload.devices.0.time: ")
    assert "a" not in await plant.stored()


async def test_times_of_every_spelling_mean_the_same(bench: Bench) -> None:
    plant = await bench.plant()
    at = moment(5)
    offset = (at + timedelta(hours=5, minutes=30)).replace(tzinfo=None).isoformat() + "+05:30"
    spellings: list[object] = [at.isoformat(), at.isoformat().replace("+00:00", "Z"), offset, int(at.timestamp() * 1000)]
    spellings += [at.timestamp() * 1000, at.isoformat(sep=" "), at.isoformat().replace("T", "t").replace("+00:00", "z")]
    for number, spelling in enumerate(spellings):
        await bench.take(plant.message({"time": spelling, "fields": {f"a{number}": number}}))
    assert await plant.refusals() == []
    assert await plant.stored() == {f"a{number}": {at: number} for number in range(len(spellings))}


async def test_the_edges_of_the_range_are_taken(bench: Bench) -> None:
    plant = await bench.plant()
    edges = [datetime.now(UTC) - timedelta(days=400) + timedelta(minutes=1), datetime.now(UTC) + timedelta(minutes=4)]
    for edge in edges:
        await bench.take(plant.message({"time": edge.isoformat(), "fields": {"a": 1}}))
    assert (await plant.stored())["a"].keys() == set(edges)


async def test_too_many_devices_and_fields(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    devices = [{"id": "D", "fields": {f"d{n}": n}} for n in range(1_001)]
    fields = {f"f{n}": n for n in range(2_001)}
    at = moment(7).isoformat()
    for snapshot, reason, path in [
        ({"time": at, "devices": devices}, "TOO_MANY_DEVICES", "payload.devices"),
        ({"time": at, "fields": fields}, "TOO_MANY_FIELDS", "payload.fields"),
        ({"time": at, "devices": [{"id": "D", "fields": fields}]}, "TOO_MANY_FIELDS", "payload.devices.0.fields"),
    ]:
        found, detail = await refusal(bench, plant, plant.message(snapshot).body)
        assert found == reason
        assert detail.startswith(f"{path}: has more than ")
    plant = await bench.plant(["D"])
    del fields["f2000"]
    await bench.take(plant.message({"time": at, "fields": fields, "devices": devices[:1_000]}))
    stored = await plant.stored()
    assert all(stored[name] == {moment(7): value} for name, value in fields.items())
    assert all(stored[f"D.d{n}"] == {moment(7): n} for n in range(1_000))


async def test_a_bad_snapshot_of_an_array_is_refused_alone_with_its_index(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    snapshots: list[Any] = [{"time": moment(n).isoformat(), "fields": {"a": n}} for n in range(9)]
    snapshots[1] = {"time": "never"}
    snapshots[3] = None
    snapshots[4] = {"time": "9999-12-31T23:59:59-14:00"}
    snapshots[6] = {"time": 0}
    snapshots[7] = {"time": moment(7).isoformat(), "fields": {f"f{n}": n for n in range(2_001)}}

    batch = await bench.take(plant.message(snapshots))

    assert batch.results["accepted"] == 1
    assert (await plant.stored()) == {"a": {moment(n): n for n in (0, 2, 5, 8)}}
    refusals = sorted((detail.partition(":")[0].partition(".time")[0], reason) for reason, detail in await plant.refusals())
    assert refusals == [
        ("payload.1", "MALFORMED"),
        ("payload.3", "MALFORMED"),
        ("payload.4", "MALFORMED"),
        ("payload.6", "TIME_OUT_OF_RANGE"),
        ("payload.7.fields", "TOO_MANY_FIELDS"),
    ]


@pytest.mark.parametrize(("payload", "refusals"), [([None, {"time": "never"}], 2), ({"time": "never"}, 1), ([], 0)])
async def test_a_message_of_which_nothing_is_accepted_is_not_a_sign_of_presence(
    bench: Bench, payload: Any, refusals: int
) -> None:
    plant = await bench.plant()
    batch = await bench.take(plant.message(payload))
    assert ("accepted" in batch.results) == (refusals == 0)
    assert len(await plant.refusals()) == refusals
    assert await plant.rows("SELECT status FROM plant WHERE id = %s") == [("UNKNOWN" if refusals else "ONLINE",)]


async def test_a_plant_that_floods_cannot_fill_the_database(bench: Bench) -> None:
    """Of what a plant invents, devices and bad snapshots alike, so much is kept and no more; its neighbours notice nothing."""
    plant, neighbour = await bench.plant(), await bench.plant()
    at = moment(0).isoformat()

    def inventing(start: int) -> bytes:
        entries = (f'{{"id":"x{number}","fields":{{}}}}' for number in range(start, start + 800))
        return f'{{"time":"{at}","devices":[{",".join(entries)}]}}'.encode()

    other = {"time": at, "devices": [{"id": "new", "fields": {}}]}
    for start in (0, 800, 1_600):
        await bench.take(
            plant.message(inventing(start)), plant.message([0] * 800), neighbour.message(other), neighbour.message([0])
        )
    await bench.take(plant.message(inventing(0)))

    assert await plant.rows("SELECT count(*), max(count) FROM unregistered_device WHERE plant_id = %s") == [(2_000, 2)]
    assert await plant.rows("SELECT count(*) FROM refused_message WHERE plant_id = %s") == [(1_000,)]
    assert await neighbour.rows("SELECT external_id, count FROM unregistered_device WHERE plant_id = %s") == [("new", 3)]
    assert await neighbour.rows("SELECT count(*) FROM refused_message WHERE plant_id = %s") == [(3,)]


async def test_devices_that_no_snapshot_names_any_more_make_room(bench: Bench) -> None:
    plant = await bench.plant()
    for name in ("gone", "here"):
        await bench.take(plant.message({"time": moment(0).isoformat(), "devices": [{"id": name, "fields": {}}]}))
    await plant.rows(
        "UPDATE unregistered_device SET last_seen_at = now() - interval '31 days'"
        " WHERE plant_id = %s AND external_id = 'gone' RETURNING 1"
    )
    await trim_unregistered_devices(bench.database)
    assert await plant.rows("SELECT external_id FROM unregistered_device WHERE plant_id = %s") == [("here",)]


async def test_the_fields_of_an_unregistered_device_are_those_that_a_template_can_declare(bench: Bench) -> None:
    plant = await bench.plant()

    async def fields_after(*entries: dict[str, Any]) -> Any:
        devices = [{"id": "NEW", "fields": fields} for fields in entries]
        await bench.take(plant.message({"time": moment(0).isoformat(), "devices": devices}))
        [(found,)] = await plant.rows("SELECT fields FROM unregistered_device WHERE plant_id = %s")
        return found

    unusable = ("", "1st", "a b", "soc\n", "nul\0", "ß", "x" * 65)
    assert await fields_after(dict.fromkeys((*unusable, "soc", "pack.1-power_W"), 1)) == ["soc", "pack.1-power_W"]
    # A status of the device alone says nothing new about its fields.
    assert await fields_after({}) == ["soc", "pack.1-power_W"]
    assert await fields_after({"old": 1}, {"power": None, "soc": 2}, {}) == ["power", "soc"]
    assert await fields_after({f"f{number}": number for number in range(2_100)}) == [f"f{number}" for number in range(50)]


async def test_an_unregistered_device_of_a_moved_plant_is_new_to_its_organisation(bench: Bench) -> None:
    plant, buyer = await bench.plant(), await add_organization(bench.database)

    async def send(fields: dict[str, Any]) -> None:
        await bench.take(plant.message({"time": moment(0).isoformat(), "devices": [{"id": "NEW", "fields": fields}]}))

    await send({"soc": 1})
    await plant.rows(f"UPDATE plant SET organization_id = '{buyer.id}' WHERE id = %s RETURNING 1")
    bench.pipeline.plant_cache.invalidate(str(plant.id))
    await send({})
    [(count, fields, is_new)] = await plant.rows(
        "SELECT count, fields, first_seen_at = last_seen_at FROM unregistered_device WHERE plant_id = %s"
    )
    assert (count, fields, is_new) == (1, [], True)


async def test_a_refused_snapshot_leaves_nothing_of_itself(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    bad = {"id": "D", "time": 0, "fields": {"a": 1}}
    at = moment(1).isoformat()
    snapshot = {"time": at, "fields": {"a": 1}, "devices": [{"id": "D", "fields": {"a": 1}}, {"id": "X", "fields": {}}, bad]}
    await bench.take(plant.message(snapshot), plant.message([snapshot]))
    assert await plant.stored() == {}
    assert await plant.rows("SELECT external_id FROM unregistered_device WHERE plant_id = %s") == []
    assert await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s") == [("UNKNOWN",)]


async def test_what_is_empty_is_fine(bench: Bench) -> None:
    plant = await bench.plant()
    for payload in (b"[]", b"[ ]", b'{"time":%d}' % (time.time() * 1000)):
        assert (await bench.take(plant.message(payload))).results == {"accepted": 1}
    assert await plant.refusals() == []


async def test_more_than_a_thousand_snapshots_are_refused_whole(bench: Bench) -> None:
    plant = await bench.plant()
    snapshots = [{"time": int(moment(0).timestamp() * 1000) + n, "fields": {"a": n}} for n in range(1_001)]
    reason, detail = await refusal(bench, plant, plant.message(snapshots).body)
    assert reason == "MALFORMED"
    assert "1000" in detail
    await bench.take(plant.message(snapshots[1:]))
    assert len((await plant.stored())["a"]) == 1_000


async def test_of_doubled_names_the_later_counts(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    devices = b'[{"id":"D","fields":{"b":1,"c":1}},{"id":"D","fields":{"b":2}}]'
    payload = b'{"time":0,"time":"%b","fields":{"a":1,"a":2},"devices":%b}' % (moment(0).isoformat().encode(), devices)
    await bench.take(plant.message(payload))
    assert await plant.stored() == {"a": {moment(0): 2}, "D.b": {moment(0): 2}, "D.c": {moment(0): 1}}


async def test_names_that_are_no_keys_and_numbers_beyond_a_double_are_dropped(bench: Bench) -> None:
    plant = await bench.plant()
    names = b'"0b":1,"c.d":1,"":1,"e f":1,"g\\u0000":1,"%b":1' % (b"x" * 65)
    numbers = b'"a":1,"h":%b,"i":-1e308,"j":true,"k":false,"l":null,"m":-0.0,"n":5e-324' % (b"9" * 400)
    payload = b'{"time":"%b","fields":{%b,%b}}' % (moment(0).isoformat().encode(), names, numbers)
    assert (await bench.take(plant.message(payload))).results == {"accepted": 1}
    expected = {"a": 1, "i": -1e308, "j": 1, "k": 0, "m": 0, "n": 5e-324}
    assert await plant.stored() == {name: {moment(0): value} for name, value in expected.items()}


async def test_an_identifier_that_no_text_can_hold_is_refused(bench: Bench) -> None:
    plant = await bench.plant()
    for external_id in ("\0", "x" * 65):
        snapshot = {"time": moment(0).isoformat(), "devices": [{"id": external_id, "fields": {}}]}
        reason, detail = await refusal(bench, plant, plant.message(snapshot).body)
        assert reason == "MALFORMED"
        assert detail.startswith("payload.devices.0.id: ")
    await refusal(bench, plant, plant.message(b"7", message_id="a\0b").body)
    [*_, (message_id,)] = await plant.rows("SELECT message_id FROM refused_message WHERE plant_id = %s ORDER BY id")
    assert message_id == "a�b"


async def test_a_bad_status_message_is_refused(bench: Bench) -> None:
    plant = await bench.plant()
    for body in (b"", b"nonsense", b"{}", b'{"status":"BUSY"}', b'{"status":1}', b'{"status":"ONLINE","time":{}}'):
        assert (await refusal(bench, plant, body, "status"))[0] == "MALFORMED", body


async def test_a_bad_acknowledgement_is_refused(bench: Bench) -> None:
    plant = await bench.plant()
    for payload in ({}, {"commandId": 1}, {"commandId": "c", "status": "DONE", "time": 1}, []):
        assert (await refusal(bench, plant, plant.message(payload, channel="ack").body, "ack"))[0] == "MALFORMED"
    good = {"commandId": str(new_id()), "status": "APPLIED", "time": moment(0).isoformat()}
    nobodys = {**good, "commandId": "c"}
    assert (await refusal(bench, plant, plant.message(nobodys, channel="ack").body, "ack"))[0] == "MALFORMED"
    assert (await bench.take(plant.message(good, channel="ack"))).results == {"accepted": 1}


async def test_a_plant_that_does_not_work_is_not_provisioned(bench: Bench) -> None:
    """The broker lets none of these in; their last messages may still wait in a queue."""
    good = await bench.plant()
    for state in ("PENDING", "DECOMMISSIONED"):
        plant = await bench.plant()
        async with bench.database.transaction() as db:
            await db.execute("UPDATE plant SET lifecycle_status = %s WHERE id = %s", (state, plant.id))
        batch = await bench.take(plant.message(GOOD), good.message(GOOD))
        assert batch.results == {"not_provisioned": 1, "accepted": 1}
        assert await plant.refusals() == [("NOT_PROVISIONED", f"the plant is {state}")]


@pytest.mark.parametrize("damage", ["key_version = 9", "hmac_secret = '\\x00'", "previous_hmac_secret = hmac_secret"])
async def test_a_plant_whose_secret_cannot_be_decrypted_delays_no_other(bench: Bench, damage: str) -> None:
    good, broken = await bench.plant(), await bench.plant()
    async with bench.database.transaction() as db:
        await db.execute(f"UPDATE plant_secret SET {damage} WHERE plant_id = %s".encode(), (broken.id,))
    batch = await bench.take(broken.message(GOOD), good.message(GOOD), broken.delivery(b'{"status":"ONLINE"}', "status"))
    assert batch.results == {"credential_unreadable": 1, "accepted": 2}
    assert await broken.refusals() == [("CREDENTIAL_UNREADABLE", "the service cannot read the plant's secret")]
    assert batch.bad_signatures == {}
    # Provisioned anew, it speaks again without a restart.
    async with bench.database.transaction() as db:
        encrypted = bench.keyring.encrypt(broken.key, table="plant_secret", column="hmac_secret", row_id=broken.id)
        await db.execute(
            "UPDATE plant_secret SET hmac_secret = %s, key_version = 1, previous_hmac_secret = NULL WHERE plant_id = %s",
            (encrypted, broken.id),
        )
    bench.pipeline.plant_cache.invalidate(str(broken.id))
    assert (await bench.take(broken.message(GOOD))).results == {"accepted": 1}


async def test_unknown_plants_and_topics_cost_nothing(bench: Bench) -> None:
    plant, ghost = await bench.plant(), await bench.plant()
    async with bench.database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (ghost.id,))
    strange = [
        Delivery(key, b"x", 0) for key in ("", "a", "v1.plants.x.telemetry", "v1.plants..telemetry", "v1.plants.\0.ack", "ü")
    ]
    batch = await bench.take(*strange, ghost.message(GOOD), plant.message(GOOD))
    assert batch.results == {"unknown_plant": len(strange) + 1, "accepted": 1}


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["time", "fields", "devices", "id", "status", "seq", "a", "b"]) | st.text(max_size=4),
                inner,
                max_size=5,
            )
        ),
        max_leaves=15,
    ),
    st.booleans(),
)
async def test_whatever_a_plant_signs_is_taken_or_refused_with_a_reason(bench: Bench, payload: Any, timed: bool) -> None:
    if timed and isinstance(payload, dict):
        payload["time"] = moment(0).isoformat()
    plant = await bench.plant(["a"])
    batch = await bench.take(plant.message(payload))
    refusals = await plant.refusals()
    assert sum(batch.results.values()) >= 1
    assert all("could not be" not in detail for _, detail in refusals), (payload, refusals)
