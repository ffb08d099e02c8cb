"""The id under which a partner's order is logged is the partner's own, where that is a UUID."""

from typing import Any

import aiormq
import pytest

from gridfleet.amqp.partner_link import cause_of

FIRST, SECOND = "0c6f3a52-4d0e-4f3a-9a55-6a1c1f1f0a01", "7b0a4b0e-65ce-4c6d-8f5e-9f3a3e6f0b02"


@pytest.mark.parametrize(
    ("message_id", "correlation_id", "expected"),
    [
        (FIRST, SECOND, FIRST),
        (FIRST.upper(), None, FIRST),
        ("order 5", SECOND, SECOND),
        ("a\nb" * 5_000, None, None),
        (None, "", None),
        (None, None, None),
    ],
)
def test_the_id(message_id: str | None, correlation_id: str | None, expected: str | None) -> None:
    properties = aiormq.spec.Basic.Properties(message_id=message_id, correlation_id=correlation_id)
    assert cause_of(properties).get("request_id") == expected


@pytest.mark.parametrize("header", [None, 5, b"00-x", {"a": 1}])
def test_a_trace_that_is_no_text_is_passed_over(header: Any) -> None:
    assert cause_of(aiormq.spec.Basic.Properties(headers={"traceparent": header})) == {}
