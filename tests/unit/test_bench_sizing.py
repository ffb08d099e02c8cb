"""The simulation of an outage agrees with the formula for constant rates."""

import pytest
from bench.sizing import outage


@pytest.mark.parametrize(("arriving", "stored", "minutes"), [(1.0, 4.0, 60), (500.0, 1000.0, 60), (90.0, 100.0, 10)])
def test_a_queue_is_empty_when_the_surplus_has_stored_it(arriving: float, stored: float, minutes: int) -> None:
    left = outage(arriving, stored, minutes=minutes)
    assert left.waiting == pytest.approx(arriving * minutes * 60, rel=0.01)
    assert left.minutes == pytest.approx(minutes * arriving / (stored - arriving), rel=0.01)


def test_a_queue_that_grows_for_ever_is_refused() -> None:
    with pytest.raises(ValueError, match="never be empty"):
        outage(5, 5)
