"""Encryption at rest: what comes back, and what must not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

ONE, TWO = "11" * 32, "22" * 32
PLACE = {"table": "plant_secret", "column": "hmac_secret", "row_id": "a"}


@given(st.binary(max_size=500), st.text(max_size=40))
def test_what_is_encrypted_comes_back_at_its_place(plaintext: bytes, row_id: str) -> None:
    keyring = Keyring.parse(f"1:{ONE}")
    blob = keyring.encrypt(plaintext, table="t", column="c", row_id=row_id)
    assert keyring.decrypt(blob, 1, table="t", column="c", row_id=row_id) == plaintext


@given(st.binary(max_size=50), st.data())
def test_no_altered_blob_decrypts(plaintext: bytes, data: st.DataObject) -> None:
    keyring = Keyring.parse(f"1:{ONE}")
    blob = bytearray(keyring.encrypt(plaintext, **PLACE))
    blob[data.draw(st.integers(0, len(blob) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DecryptionFailed):
        keyring.decrypt(bytes(blob), 1, **PLACE)


@given(st.binary(max_size=60))
def test_noise_does_not_decrypt(noise: bytes) -> None:
    with pytest.raises(DecryptionFailed):
        Keyring.parse(f"1:{ONE}").decrypt(noise, 1, **PLACE)


@pytest.mark.parametrize("moved", [{"table": "other"}, {"column": "other"}, {"row_id": "b"}])
def test_a_blob_moved_elsewhere_does_not_decrypt(moved: dict[str, str]) -> None:
    keyring = Keyring.parse(f"1:{ONE}")
    with pytest.raises(DecryptionFailed):
        keyring.decrypt(keyring.encrypt(b"secret", **PLACE), 1, **{**PLACE, **moved})


def test_the_highest_version_encrypts_and_older_ones_still_decrypt() -> None:
    old, ring = Keyring.parse(f"1:{ONE}"), Keyring.parse(f"2:{TWO}, 1:{ONE}")
    assert ring.current_version == 2
    assert ring.decrypt(old.encrypt(b"secret", **PLACE), 1, **PLACE) == b"secret"
    assert Keyring.parse(f"2:{TWO}").decrypt(ring.encrypt(b"secret", **PLACE), 2, **PLACE) == b"secret"
    with pytest.raises(UnknownKeyVersion):
        old.decrypt(ring.encrypt(b"secret", **PLACE), 2, **PLACE)


def test_a_version_marked_as_current_encrypts_although_another_is_higher() -> None:
    ring = Keyring.parse(f"1:{ONE}:current,2:{TWO}")
    assert (ring.current_version, ring.versions) == (1, (1, 2))
    assert Keyring.parse(f"1:{ONE}").decrypt(ring.encrypt(b"secret", **PLACE), 1, **PLACE) == b"secret"
    later = Keyring.parse(f"2:{TWO}").encrypt(b"secret", **PLACE)
    assert ring.decrypt(later, 2, **PLACE) == b"secret"
    assert ring.decrypt(ring.encrypt(b"secret", **PLACE, key_version=2), 2, **PLACE) == b"secret"
    with pytest.raises(UnknownKeyVersion):
        ring.encrypt(b"secret", **PLACE, key_version=3)


def test_derived_keys_differ_by_purpose_and_version_and_never_between_processes() -> None:
    ring = Keyring.parse(f"1:{ONE},2:{TWO}")
    keys = [ring.derive("a"), ring.derive("b"), ring.derive("a", 1)]
    assert len(set(keys)) == 3
    assert ring.derive("a") == ring.derive("a", 2) == Keyring.parse(f"2:{TWO}").derive("a")
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        f"1:{ONE}:",
        f"1:{ONE}:now",
        f"1:{ONE}:current,2:{TWO}:current",
        f"1:{ONE[:-1]}",
        f"1:{ONE}0",
        f"0:{ONE}",
        f"-1:{ONE}",
        f"1:{ONE},1:{TWO}",
        f"1:{ONE},",
        f"x:{ONE}",
    ],
)
def test_a_bad_ring_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="keyring") as refusal:
        Keyring.parse(text)
    assert ONE[:8] not in str(refusal.value)


def test_a_ring_does_not_show_its_keys() -> None:
    assert ONE[:8] not in repr(Keyring.parse(f"1:{ONE}"))
