"""How many client ids a PASSWORD plant may invent."""

from uuid import UUID

import pytest

from gridfleet.domains.plants.mqtt_access.client_ids import MOST_BYTES, MOST_SUFFIXES, ClientIds

PLANT, OTHER = UUID(int=1), UUID(int=2)


def test_the_suffixes_of_an_hour_are_bounded() -> None:
    now = 3_600.0
    client_ids = ClientIds(lambda: now)
    assert all(client_ids.admit(PLANT, f"{PLANT}-{number}") for number in range(MOST_SUFFIXES))
    assert not client_ids.admit(PLANT, f"{PLANT}-new")
    assert client_ids.admit(PLANT, f"{PLANT}-0"), "known"
    assert client_ids.admit(PLANT, str(PLANT)), "its own id"
    assert client_ids.admit(OTHER, f"{OTHER}-new"), "another plant"
    now += 3_600
    assert client_ids.admit(PLANT, f"{PLANT}-new")


@pytest.mark.parametrize("suffix", ["x" * MOST_BYTES, "ü" * (MOST_BYTES // 2)])
def test_a_client_id_is_short(suffix: str) -> None:
    """The broker has no limit: 60,000 bytes are repeated in each list of all queues."""
    assert not ClientIds().admit(PLANT, f"{PLANT}-{suffix}")
    assert ClientIds().admit(PLANT, f"{PLANT}-ü")
