"""Which arguments of a partner's own queue the service removes it for."""

import pytest

from gridfleet.domains.partners.topology import forbidden_argument


@pytest.mark.parametrize("value", [11, "many", None, 2.5, b"x"])
def test_a_priority_that_is_no_small_number_is_forbidden(value: object) -> None:
    """A broker without the plugin returns the last of two arguments with one name, and checks the first."""
    assert forbidden_argument({"x-max-priority": value}) == "x-max-priority"


@pytest.mark.parametrize("value", [1_800_001, 10**14, "never", None, 2.5])
def test_a_consumer_that_may_acknowledge_late_is_forbidden(value: object) -> None:
    assert forbidden_argument({"x-consumer-timeout": value}) == "x-consumer-timeout"


def test_a_consumer_that_must_acknowledge_early_is_allowed() -> None:
    assert forbidden_argument({"x-consumer-timeout": 60_000}) is None
