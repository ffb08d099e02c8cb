"""The signature agrees with the published vectors and notices every change."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gridfleet.protocol import signature

KEY = bytes(range(32))
SENT_AT = 1795168800123

VECTORS = [
    pytest.param(
        "v1/plants/018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d/telemetry",
        "m-000001",
        b'{"time":"2026-11-20T10:00:00.000Z","fields":{"grid_frequency":50.01},"devices":'
        b'[{"id":"PV1","fields":{"p":4.2,"status":5}},{"id":"GRID","fields":{"p":-1.5}}]}',
        "300844fb202b54c3d7b6c56ccbc9eef65d1aa9d20e72468425b208a5c29e25d7",
        id="telemetry",
    ),
    pytest.param(
        "acme-energy.command.mode",
        "5f0c7f52-0d57-4a5c-9a3e-0d8b5f0a1c11",
        b'{"messageId":"5f0c7f52-0d57-4a5c-9a3e-0d8b5f0a1c11","siteId":"018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d",'
        b'"issuedAt":"2026-11-20T10:00:00Z","mode":"STANDBY","expiresAt":"2026-11-20T10:15:00Z"}',
        "19e1dc47fbbc31983e03b7bb1c5c8042823b34f8c160e5856d5cd6cc70590670",
        id="partner-mode-command",
    ),
]

addresses = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=60)
message_ids = addresses
times = st.integers(0, 2**53)


@pytest.mark.parametrize(("address", "message_id", "payload", "expected"), VECTORS)
def test_published_vectors(address: str, message_id: str, payload: bytes, expected: str) -> None:
    secret = "".join(f"{value:02x}" for value in range(32))

    assert signature.key_from_hex(secret) == KEY
    assert signature.sign(KEY, address, message_id, SENT_AT, payload) == expected
    assert signature.verify(KEY, expected, address, message_id, SENT_AT, payload)


def test_the_telemetry_vector_has_the_published_length() -> None:
    payload = VECTORS[0].values[2]
    assert isinstance(payload, bytes)
    assert len(payload) == 158


@given(st.binary(min_size=32, max_size=32), addresses, message_ids, times, st.binary(max_size=200))
def test_what_was_signed_verifies(key: bytes, address: str, message_id: str, sent_at: int, payload: bytes) -> None:
    assert signature.verify(
        key, signature.sign(key, address, message_id, sent_at, payload), address, message_id, sent_at, payload
    )


@given(addresses, message_ids, times, st.binary(max_size=80), addresses, message_ids, times, st.binary(max_size=80))
def test_any_changed_part_is_noticed(
    address: str, message_id: str, sent_at: int, payload: bytes, address2: str, message_id2: str, sent_at2: int, payload2: bytes
) -> None:
    assume((address, message_id, sent_at, payload) != (address2, message_id2, sent_at2, payload2))
    signed = signature.sign(KEY, address, message_id, sent_at, payload)

    assert not signature.verify(KEY, signed, address2, message_id2, sent_at2, payload2)


@given(st.text(max_size=80))
def test_a_wrong_signature_is_false_and_never_raises(text: str) -> None:
    right = signature.sign(KEY, "a", "m", 1, b"{}")
    assert signature.verify(KEY, text, "a", "m", 1, b"{}") is (text == right)


@pytest.mark.parametrize("text", ["\ud800", "é", "", "0" * 64, "A" * 64])
def test_odd_signatures_are_refused(text: str) -> None:
    assert not signature.verify(KEY, text, "a", "m", 1, b"{}")


def test_the_signature_is_lowercase() -> None:
    right = signature.sign(KEY, "a", "m", 1, b"{}")
    assert not signature.verify(KEY, right.upper(), "a", "m", 1, b"{}")


@pytest.mark.parametrize("secret", ["", "00", "zz" * 32, "00" * 31, "00" * 33])
def test_a_secret_that_is_no_64_hex_digits_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="hex"):
        signature.key_from_hex(secret)
