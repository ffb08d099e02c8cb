"""The bytes of responses that are stored for `Idempotency-Key` in an hour."""

import pytest

from gridfleet.api.access.idempotency import KeptBytes
from gridfleet.kernel.errors import TooManyRequests

MIB = 1024 * 1024


def test_each_owner_has_room_again_in_the_next_hour() -> None:
    now = 7_000.0
    kept = KeptBytes(lambda: now)
    kept.add("a", 64 * MIB)
    with pytest.raises(TooManyRequests) as refused:
        kept.add("a", 1)
    assert refused.value.retry_after == 200
    kept.add("b", 1)
    now = 7_200.0
    kept.add("a", 64 * MIB)
