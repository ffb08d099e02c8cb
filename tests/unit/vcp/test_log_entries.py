"""What a log entry reads of its message."""

import time

import pytest

from gridfleet.domains.vcp.log_entries import LoggedMessage
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.protocol.partner_messages import MAX_BODY_BYTES
from support.builders.partner_commands import SLUG, sending_key

HEADING = b'{"messageId":"5F0C7F52-0d57-4a5c-9a3e-0d8b5f0a1c11","siteId":"S1","correlationId":"c","mode":"EMERGENCY_STOP","a":['


def logged(body: bytes) -> LoggedMessage:
    return LoggedMessage(PartnerMessage(f"{SLUG}.command.mode", body, {}), sending_key())


def seconds(body: bytes) -> float:
    found = []
    for _ in range(5):
        begun = time.process_time()
        logged(body)
        found.append(time.process_time() - begun)
    return min(found)


@pytest.mark.parametrize("unit", [b"[],", b'"",', b"[[],[]],", b"{},"])
def test_a_message_above_the_limit_takes_no_longer_than_one_at_the_limit(unit: bytes) -> None:
    """All partners of a gateway wait meanwhile. The values of a mebibyte took most of a second."""
    at_limit, above = (HEADING + unit * ((size - len(HEADING) - 3) // len(unit)) + b"0]}" for size in (MAX_BODY_BYTES, 1 << 20))
    assert seconds(above) < 4 * seconds(at_limit)


@pytest.mark.parametrize("rest", [b"0]}", b"[" * 50_000, b"[" * 50_000 + b"]" * 50_000 + b"]}", b"\xff"])
def test_a_message_above_the_limit_is_known_by_its_names(rest: bytes) -> None:
    found = logged(HEADING + b"[]," * 30_000 + rest)
    assert (found.message_id, found.site_id, found.correlation_id) == ("5f0c7f52-0d57-4a5c-9a3e-0d8b5f0a1c11", "S1", "c")
    assert not found.keeps_payload
