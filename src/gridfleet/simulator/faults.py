"""Faults made on purpose: which, and when. The same for the same plant in every run."""

from enum import StrEnum
from typing import Final

__all__ = ["GAP_STEPS", "Fault", "due", "in_gap"]

GAP_STEPS: Final = 4
"""Snapshots that a gap holds back before they are sent together."""

_STAGGER: Final = 3


class Fault(StrEnum):
    """What can be done wrong."""

    BAD_SIGNATURE = "bad-signature"
    """A message signed with another key: refused as SIGNATURE_INVALID."""
    CLOCK_SKEW = "clock-skew"
    """A message sent by a clock that is more than ten minutes wrong: refused as TIMESTAMP_OUT_OF_WINDOW."""
    COUNTER_RESET = "counter-reset"
    """All counters begin at zero again."""
    GAP = "gap"
    """Some snapshots come late, together, as an array."""


_FIRST_AND_PERIOD: Final = {
    Fault.BAD_SIGNATURE: (2, 60),
    Fault.CLOCK_SKEW: (3, 60),
    Fault.COUNTER_RESET: (4, 720),
    Fault.GAP: (6, 120),
}


def due(fault: Fault, plant_number: int, step_number: int) -> bool:
    """Whether a fault happens to the plant at its step, both counted from 0."""
    first, period = _FIRST_AND_PERIOD[fault]
    elapsed = step_number - first - plant_number % _STAGGER
    return elapsed >= 0 and elapsed % period == 0


def in_gap(plant_number: int, step_number: int) -> bool:
    """Whether the plant holds back its snapshot at this step."""
    return any(due(Fault.GAP, plant_number, step_number - past) for past in range(GAP_STEPS))
