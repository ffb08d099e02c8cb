"""Tokens: what is issued reads back, and nothing else does."""

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OctKey

from gridfleet.domains.identity.access_tokens import AccessClaims, AccessTokens
from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.security.tokens import InvalidToken
from support.builders.clock import set_clock
from support.builders.plant_tokens import forged_token

OLD = Keyring.parse("1:" + "11" * 32)
RING = Keyring.parse("1:" + "11" * 32 + ",2:" + "22" * 32)
ACCESS = AccessTokens(RING)
PLANT = PlantTokens(RING, timedelta(hours=24))
LATER = 4_000_000_000
"""A time of expiry, in epoch seconds."""

ISSUED = PLANT.issue(new_id()).token


def segment(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def header_of(token: str) -> Any:
    head = token.split(".")[0]
    return json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))


@given(st.uuids(), st.uuids(), st.integers(0, 2**31 - 1))
def test_access_tokens_read_back(user_id: UUID, session_id: UUID, version: int) -> None:
    claims = AccessClaims(user_id, session_id, version)
    assert ACCESS.read(ACCESS.issue(claims)) == claims


@given(st.uuids())
def test_plant_tokens_read_back(plant_id: UUID) -> None:
    rotated_at = datetime(2026, 11, 20, 10, 0, 0, 123_456, UTC)
    issued, later = PLANT.issue(plant_id), PLANT.issue(plant_id, rotated_at.astimezone(timezone(timedelta(hours=2))))
    assert PLANT.read(issued.token) == (plant_id, issued.expires_at, None)
    assert PLANT.read(later.token) == (plant_id, later.expires_at, rotated_at)
    assert header_of(issued.token) == {"typ": "JWT", "alg": "EdDSA", "kid": "2"}


@given(st.text(max_size=300))
def test_noise_is_no_token(noise: str) -> None:
    for reader in (ACCESS, PLANT):
        with pytest.raises(InvalidToken):
            reader.read(noise)


@pytest.mark.parametrize("crit", [5, None, True, [1], [["x"]], {}, "x", []])
def test_a_header_of_any_type_is_no_token(crit: object) -> None:
    for reader, algorithm in ((ACCESS, "HS256"), (PLANT, "EdDSA")):
        with pytest.raises(InvalidToken):
            reader.read(f"{segment({'alg': algorithm, 'kid': '2', 'crit': crit})}.e30.aaaa")


@given(st.data())
def test_no_altered_token_reads(data: st.DataObject) -> None:
    token = ISSUED  # the same for each example, because the letters that are drawn depend on it
    place = data.draw(st.integers(0, len(token) - 2))  # the last character of base64 carries unused bits
    letter = data.draw(st.sampled_from("ABCabc012-_.").filter(lambda letter: letter != token[place]))
    with pytest.raises(InvalidToken):
        PLANT.read(token[:place] + letter + token[place + 1 :])


def test_every_version_of_the_ring_verifies_and_no_other() -> None:
    claims = AccessClaims(new_id(), new_id(), 1)
    assert ACCESS.read(AccessTokens(OLD).issue(claims)) == claims
    with pytest.raises(InvalidToken):
        AccessTokens(OLD).read(ACCESS.issue(claims))
    stranger = Keyring.parse("2:" + "33" * 32)
    with pytest.raises(InvalidToken):
        ACCESS.read(AccessTokens(stranger).issue(claims))
    with pytest.raises(InvalidToken):
        PLANT.read(PlantTokens(stranger, timedelta(hours=1)).issue(new_id()).token)


def test_tokens_of_a_machine_whose_clock_is_ahead_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    start, claims = datetime.now(UTC), AccessClaims(new_id(), new_id(), 1)
    set_clock(monkeypatch, lambda: start + timedelta(seconds=2))
    access, plant = AccessTokens(RING).issue(claims), PLANT.issue(new_id())
    set_clock(monkeypatch, lambda: start)
    assert AccessTokens(RING).read(access) == claims
    assert PLANT.read(plant.token)[1] == plant.expires_at


def test_tokens_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    access, plant = ACCESS.issue(AccessClaims(new_id(), new_id(), 1)), PLANT.issue(new_id()).token
    start = datetime.now(UTC)
    set_clock(monkeypatch, lambda: start + timedelta(minutes=14, seconds=50))
    ACCESS.read(access)
    set_clock(monkeypatch, lambda: start + timedelta(minutes=15, seconds=1))
    with pytest.raises(InvalidToken):
        ACCESS.read(access)
    PLANT.read(plant)
    set_clock(monkeypatch, lambda: start + timedelta(hours=24, seconds=1))
    with pytest.raises(InvalidToken):
        PLANT.read(plant)


def test_one_kind_of_token_is_not_taken_for_the_other() -> None:
    with pytest.raises(InvalidToken):
        PLANT.read(ACCESS.issue(AccessClaims(new_id(), new_id(), 1)))
    with pytest.raises(InvalidToken):
        ACCESS.read(PLANT.issue(new_id()).token)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "RS256"])
@pytest.mark.parametrize("kid", ["1", "3", None, 1, ["1"], {"a": 1}])
def test_forged_headers_are_refused(algorithm: str, kid: object) -> None:
    claims = {"aud": "mqtt", "sub": str(new_id()), "exp": LATER}
    forged = f"{segment({'alg': algorithm, 'kid': kid})}.{segment(claims)}."
    for token in (forged, forged + "AAAA"):
        for reader in (ACCESS, PLANT):
            with pytest.raises(InvalidToken):
                reader.read(token)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": LATER},
        {"exp": LATER, "aud": "api"},
        {"exp": LATER, "aud": "mqtt", "sub": "x"},
        {"exp": LATER, "aud": "mqtt", "sub": 5},
        {"exp": "never", "aud": "mqtt", "sub": str(new_id())},
        {"exp": 10**30, "aud": "mqtt", "sub": str(new_id())},
        {"aud": "mqtt", "sub": str(new_id())},
    ],
)
def test_a_signature_alone_is_not_enough(claims: dict[str, object]) -> None:
    complete = {"exp": LATER, "aud": "mqtt", "sub": str(new_id())}
    assert str(PLANT.read(forged_token(RING, **complete))[0]) == complete["sub"]
    with pytest.raises(InvalidToken):
        PLANT.read(forged_token(RING, **claims))
    key = OctKey.import_key(RING.derive("access tokens"))
    with pytest.raises(InvalidToken):
        ACCESS.read(jwt.encode({"alg": "HS256", "kid": "2"}, {**claims, "aud": "api"}, key))
