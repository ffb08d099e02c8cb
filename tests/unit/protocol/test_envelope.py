"""Envelopes keep the signed bytes as they are, and times mean one moment."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.protocol import signature
from gridfleet.protocol.envelope import (
    Command,
    CommandAck,
    DeviceEntry,
    Envelope,
    Snapshot,
    format_time,
    parse_time,
    sign_message,
)

KEY = bytes(range(32))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # slow only on a busy machine
@given(json_values, st.text(min_size=1, max_size=128), st.integers(0, 2**53))
def test_a_signed_message_opens_to_the_bytes_that_were_signed(value: object, message_id: str, sent_at: int) -> None:
    payload = msgspec.json.encode(value)

    envelope = msgspec.json.decode(sign_message(KEY, "topic", message_id, sent_at, payload), type=Envelope)

    assert (envelope.v, envelope.id, envelope.sent_at) == (1, message_id, sent_at)
    assert bytes(envelope.payload) == payload
    assert signature.verify(KEY, envelope.sig, "topic", envelope.id, envelope.sent_at, bytes(envelope.payload))


def test_white_space_inside_the_payload_is_signed_too() -> None:
    payload = b'{ "time" : 1795168800123 ,\n "fields": {} }'
    signed = sign_message(KEY, "topic", "m", 1, payload)

    assert bytes(msgspec.json.decode(signed, type=Envelope).payload) == payload


def test_an_envelope_without_a_signature_still_opens() -> None:
    envelope = msgspec.json.decode(b'{"v":1,"id":"m","sentAt":1,"payload":{},"more":true}', type=Envelope)
    assert envelope.sig == ""


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"v":1,"id":"","sentAt":1,"payload":{}}',
        b'{"v":1,"id":"m","sentAt":"1","payload":{}}',
        b'{"v":1,"id":"m","sentAt":1}',
        b'{"v":1,"id":"m","sentAt":1.5,"payload":{}}',
        b'{"v":1,"id":7,"sentAt":1,"payload":{}}',
    ],
)
def test_missing_or_mistyped_members_refuse_the_message(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text, type=Envelope)


def test_a_snapshot_leaves_out_what_it_has_not() -> None:
    snapshot = Snapshot(time=1795168800123, devices=[DeviceEntry("PV1", {"p": 4.2, "on": True, "t": None})])

    encoded = msgspec.json.encode(snapshot)

    assert encoded == b'{"time":1795168800123,"devices":[{"id":"PV1","fields":{"p":4.2,"on":true,"t":null}}]}'
    assert msgspec.json.decode(encoded, type=Snapshot) == snapshot


def test_commands_and_acks_are_camel_case_on_the_wire() -> None:
    text = (
        b'{"commandId":"c1","type":"DEVICE_COMMAND","target":"BAT1","action":"set_power","params":{"kw":-2.5},'
        b'"issuedAt":"2026-11-20T10:00:00Z","expiresAt":"2026-11-20T10:00:30Z","new":"ignored"}'
    )
    command = msgspec.json.decode(text, type=Command)

    assert (command.command_id, command.target, command.params) == ("c1", "BAT1", {"kw": -2.5})
    ack = msgspec.json.decode(
        b'{"commandId":"c1","status":"REJECTED","time":1,"reason":{"code":"X","message":"y"}}', type=CommandAck
    )
    assert ack.reason is not None
    assert msgspec.json.decode(msgspec.json.encode(ack), type=CommandAck) == ack


moments = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1))


@given(moments, st.integers(-12 * 60, 14 * 60))
def test_a_time_is_the_same_moment_in_every_form(moment: datetime, offset_minutes: int) -> None:
    utc = moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000)
    elsewhere = utc.astimezone(timezone(timedelta(minutes=offset_minutes)))
    milliseconds = (utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

    assert parse_time(elsewhere) == utc
    assert abs(parse_time(milliseconds) - utc) < timedelta(microseconds=2)
    assert datetime.fromisoformat(format_time(elsewhere)) == utc
    assert format_time(elsewhere).endswith("Z")


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), 10**30, float("inf"), float("nan")])
def test_a_time_without_zone_or_outside_the_calendar_is_refused(value: datetime | float) -> None:
    with pytest.raises(ValueError, match=r"zone|range"):
        parse_time(value)
