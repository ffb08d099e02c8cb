"""Deliberate faults and their schedule, which is the same for a plant in every run."""

from enum import StrEnum
from typing import Final

__all__ = ["GAP_STEPS", "Fault", "due", "in_gap"]

GAP_STEPS: Final = 4
"""Snapshots that a gap holds back before they are sent together."""

_STAGGER: Final = 3


class Fault(StrEnum):
    """The kinds of deliberate faults."""

    BAD_SIGNATURE = "bad-signature"
    """A message signed with a wrong key: refused as SIGNATURE_INVALID."""
    CLOCK_SKEW = "clock-skew"
    """A message with a clock error of more than ten minutes: refused as TIMESTAMP_OUT_OF_WINDOW."""
    COUNTER_RESET = "counter-reset"
    """All counters restart at zero."""
    GAP = "gap"
    """Some snapshots are sent late, together, as an array."""


_FIRST_AND_PERIOD: Final = {
    Fault.BAD_SIGNATURE: (2, 60),
    Fault.CLOCK_SKEW: (3, 60),
    Fault.COUNTER_RESET: (4, 720),
    Fault.GAP: (6, 120),
}


def due(fault: Fault, plant_number: int, step_number: int) -> bool:
    """Return whether a fault occurs at this step of the plant. Plants and steps are numbered from 0."""
    first, period = _FIRST_AND_PERIOD[fault]
    elapsed = step_number - first - plant_number % _STAGGER
    return elapsed >= 0 and elapsed % period == 0


def in_gap(plant_number: int, step_number: int) -> bool:
    """Return whether the plant holds back its snapshot at this step."""
    return any(due(Fault.GAP, plant_number, step_number - past) for past in range(GAP_STEPS))
