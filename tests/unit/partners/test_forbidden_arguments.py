"""Which arguments of a partner's own queue the service removes it for."""

import pytest

from gridfleet.domains.partners.topology import forbidden_argument


@pytest.mark.parametrize("value", [11, "many", None, 2.5, b"x"])
def test_a_priority_that_is_no_small_number_is_forbidden(value: object) -> None:
    """A broker without the plugin returns the last of two arguments with one name, and checks the first."""
    assert forbidden_argument({"x-max-priority": value}) == "x-max-priority"
