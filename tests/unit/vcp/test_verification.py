"""A message counts as an order only if it is provably the partner's own, whole, and allowed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.partners.scopes import Scope
from gridfleet.domains.vcp.models import PartnerMessage, Rejection, Verified
from gridfleet.domains.vcp.verification import prove, read
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.partner_messages import read_heading
from gridfleet.protocol.partner_routes import CommandKind, parse_inbound
from support.builders.partner_commands import SLUG, order, sending_key, signed, soon

SITE = new_id()
KEY = bytes(range(32))


def verify(message: PartnerMessage, now: datetime | None = None, **sender: Any) -> Verified | str:
    """The order, or the reason against it."""
    try:
        content = read_heading(message.body)
        moment = now or datetime.now(UTC)
        return read(message, prove(message, sending_key(**sender), content.get("messageId"), moment, 600))
    except Rejection as rejection:
        return rejection.reason.value


def test_the_published_vector_is_accepted_at_its_time() -> None:
    body = (
        b'{"messageId":"5f0c7f52-0d57-4a5c-9a3e-0d8b5f0a1c11","siteId":"018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d",'
        b'"issuedAt":"2026-11-20T10:00:00Z","mode":"STANDBY","expiresAt":"2026-11-20T10:15:00Z"}'
    )
    signature = "19e1dc47fbbc31983e03b7bb1c5c8042823b34f8c160e5856d5cd6cc70590670"
    for stamp in (1795168800123, 1795168800123.0, "1795168800123", b"1795168800123"):
        message = PartnerMessage("acme-energy.command.mode", body, {"x-vcp-signature": signature, "x-vcp-timestamp": stamp})
        found = verify(message, datetime.fromtimestamp(1795168800, UTC))
        assert isinstance(found, Verified)
        assert found.type == "MODE_CHANGE"


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        ("command.site-setpoint", {"powerKw": -5}, "SITE_SETPOINT"),
        ("command.device", {"deviceId": "BAT1", "action": "stop"}, "DEVICE_COMMAND"),
        ("command.device.BAT1", {"action": "stop"}, "DEVICE_COMMAND"),
        ("command.device.BAT1", {"deviceId": "BAT1", "action": "stop"}, "DEVICE_COMMAND"),
        ("command.mode", {"mode": "AUTO"}, "MODE_CHANGE"),
        ("command.mode", {"mode": "EMERGENCY_STOP"}, "EMERGENCY"),
        ("command.mode", {"mode": "STANDBY", "expiresAt": soon()}, "MODE_CHANGE"),
        ("schedule.set", {"scheduleId": "s", "revision": 1, "intervals": []}, "SCHEDULE"),
        ("schedule.cancel", {"scheduleId": "s"}, "SCHEDULE"),
        ("config.constraints", {"constraints": {}}, "CONFIG"),
        ("config.fallback", {"fallback": {"mode": None}}, "CONFIG"),
    ],
)
def test_every_family_becomes_its_command(kind: str, members: dict[str, Any], expected: str) -> None:
    found = verify(order(kind, SITE, unknown="ignored", **members))
    assert isinstance(found, Verified)
    assert found.type == expected
    assert found.device == ("BAT1" if "device" in kind else None)


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("command.site-setpoint", {}),
        ("command.site-setpoint", {"powerKw": "5"}),
        ("command.site-setpoint", {"powerKw": True}),
        ("command.site-setpoint", {"powerKw": 1, "durationSeconds": 0}),
        ("command.site-setpoint", {"powerKw": 1, "issuedAt": None}),
        ("command.site-setpoint", {"powerKw": 1, "issuedAt": "2026-11-20T10:00:00"}),
        ("command.site-setpoint", {"powerKw": 1, "expiresAt": "9999-12-31T23:59:59-14:00"}),
        ("command.site-setpoint", {"powerKw": 1, "siteId": None}),
        ("command.site-setpoint", {"powerKw": 1, "messageId": "7"}),
        ("command.site-setpoint", {"powerKw": 1, "correlationId": "a\0b"}),
        ("command.device", {"action": "stop"}),
        ("command.device.BAT1", {"deviceId": "BAT2", "action": "stop"}),
        ("command.device.BAT1", {}),
        ("command.mode", {"mode": "STANDBY"}),
        ("command.mode", {"mode": "FAST"}),
        ("schedule.set", {"scheduleId": "s", "revision": 1}),
        ("schedule.drop", {"scheduleId": "s"}),
        ("config.constraints", {"fallback": {}}),
        ("config.limits", {}),
        ("command.site-setpoint.x", {"powerKw": 1}),
        ("command.mode.x", {"mode": "AUTO"}),
        ("event.telemetry", {}),
    ],
)
def test_what_is_missing_or_mistyped_refuses_the_message(kind: str, members: dict[str, Any]) -> None:
    assert verify(order(kind, SITE, **members)) == "MALFORMED"


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{", b"\xff", b"[" * 70_000, b'{"a":' * 2_000])
def test_a_body_that_is_no_order_is_refused(body: bytes) -> None:
    assert verify(PartnerMessage(f"{SLUG}.command.site-setpoint", body, {})) == "MALFORMED"


def test_a_body_that_is_too_large_is_refused() -> None:
    assert verify(order("command.site-setpoint", SITE, powerKw=1, note="x" * 70_000)) == "MALFORMED"


@pytest.mark.parametrize("name", ["CC", "BCC", "cc"])
def test_copies_are_refused(name: str) -> None:
    assert verify(order("command.site-setpoint", SITE, powerKw=1, headers={name: ["acme-energy.command.mode"]})) == "MALFORMED"


@pytest.mark.parametrize("slug", ["acme", "acme-energy-2", "other", "", "acme-energy.command"])
def test_another_ones_routing_key_is_refused(slug: str) -> None:
    assert verify(order("command.site-setpoint", SITE, powerKw=1, slug=slug)) == "MALFORMED"


@pytest.mark.parametrize("kind", list(CommandKind))
def test_every_family_needs_its_own_scope(kind: CommandKind) -> None:
    others = {scope for scope in Scope if scope != kind.scope}
    message = order(kind, SITE)
    with pytest.raises(Rejection, match="lacks the scope"):
        prove(message, sending_key(scopes=others), read_heading(message.body)["messageId"], datetime.now(UTC), 600)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "SIGNATURE_MISSING"),
        ({"x-vcp-signature": "00"}, "SIGNATURE_MISSING"),
        ({"x-vcp-timestamp": 1}, "SIGNATURE_MISSING"),
        ({"x-vcp-signature": "00", "x-vcp-timestamp": "soon"}, "SIGNATURE_INVALID"),
        ({"x-vcp-signature": "00", "x-vcp-timestamp": "٣"}, "SIGNATURE_INVALID"),
        ({"x-vcp-signature": "ü" * 64, "x-vcp-timestamp": 1}, "SIGNATURE_INVALID"),
        ({"x-vcp-signature": 7, "x-vcp-timestamp": [1]}, "SIGNATURE_MISSING"),
        ({"x-vcp-signature": "00", "x-vcp-timestamp": 1.5}, "SIGNATURE_MISSING"),
        ({"x-vcp-signature": "00", "x-vcp-timestamp": float("inf")}, "SIGNATURE_MISSING"),
    ],
)
def test_a_signature_must_be_there_and_right(headers: dict[str, Any], reason: str) -> None:
    assert verify(order("command.mode", SITE, mode="AUTO", headers=headers)) == reason


@pytest.mark.parametrize(("age", "expected"), [(-590, None), (590, None), (-610, "window"), (610, "window")])
def test_the_window_is_ten_minutes_either_way(age: float, expected: str | None) -> None:
    found = verify(order("command.mode", SITE, mode="AUTO", age=age))
    assert (found == "TIMESTAMP_OUT_OF_WINDOW") == (expected is not None)


def test_another_key_or_another_routing_key_does_not_sign() -> None:
    assert verify(order("command.mode", SITE, mode="AUTO", key=bytes(32))) == "SIGNATURE_INVALID"
    message = order("schedule.cancel", SITE, scheduleId="s", mode="AUTO")
    assert verify(message._replace(routing_key=f"{SLUG}.command.mode")) == "SIGNATURE_INVALID"


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_passes(place: int, change: int) -> None:
    message = signed(f"{SLUG}.command.mode", {"messageId": "5f0c7f52-0d57-4a5c-9a3e-0d8b5f0a1c11", "mode": "AUTO"})
    body = bytearray(message.body)
    body[place % len(body)] ^= change
    assert verify(message._replace(body=bytes(body))) in ("SIGNATURE_INVALID", "MALFORMED")


@given(
    st.text(max_size=80), st.binary(max_size=200), st.dictionaries(st.text(max_size=20), st.one_of(st.text(), st.integers()))
)
def test_nothing_but_a_rejection_comes_of_rubbish(kind: str, body: bytes, headers: dict[str, Any]) -> None:
    assert isinstance(verify(PartnerMessage(f"{SLUG}.{kind}", body, headers)), str)
    for known in CommandKind:
        assert isinstance(verify(PartnerMessage(f"{SLUG}.{known}", body, headers)), str)


def test_a_device_keeps_its_own_name() -> None:
    found = parse_inbound("a", "a.command.device.BAT-1_x")
    assert found is not None
    assert (found.kind, found.device) == (CommandKind.DEVICE, "BAT-1_x")
    assert parse_inbound("a", "a.command.device.b.c") is None
    assert parse_inbound("a", "a.command.device.") is None
