"""Editions of counters: how their readings were decoded, and whether a counter continues from one edition to the next.

After an edit of the scale, the offset, the field or the unit of a counter, its new readings may not be comparable with the
earlier ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Final, NamedTuple

from gridfleet.domains.device_templates.decoder import Metric, scaling_of
from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.device_templates.roles import ENERGY_KEYS, units_of
from gridfleet.domains.telemetry.history.models import LayoutIndex, LayoutSource
from gridfleet.domains.telemetry.units import size_of

__all__ = ["Edition", "Readings", "is_continued", "may_have_counted", "read_layouts"]

_UNITS: Final = (*units_of(SignalRole.ENERGY_PRODUCED), "")


class Edition(NamedTuple):
    """The size of a counter's unit in Wh, and its scaling as in `Metric`; None if it is not known."""

    size: int
    scaling: str | None

    @classmethod
    def of(cls, metric: Metric) -> "Edition":
        """Return the edition of a layout's metric."""
        if metric.scaling is None and not metric.unit:  # a device without a template, which sends the counter by its key
            return cls(size_of(metric.unit), scaling_of(metric.key))
        return cls(size_of(metric.unit), metric.scaling)


def may_have_counted(metric: Metric) -> bool:
    """Return whether a layout's metric, which has the role of a counter now, can have been one.

    If its unit was none of energy, an edit of its scale between two of its values would not be known.
    """
    return metric.scaling is not None or metric.counter or metric.key in ENERGY_KEYS or metric.unit in _UNITS


def read_layouts(source: LayoutSource, key: str, *, is_counter: bool) -> list[LayoutIndex]:
    """Return the layouts whose values of a metric are read, the newest last: of a counter, those in which it may have counted.

    What is read together has to come from here: the readings of several editions are only comparable as such.
    """
    found = [one for one in source.layouts if key in one.positions and (not is_counter or may_have_counted(one.of(key)))]
    return sorted(found, key=lambda one: one.id)


def is_continued(earlier: Edition, reading: float, later: Edition, following: float) -> bool:
    """Return whether a counter with `reading` in one edition continues with `following` in a later one, both in kWh.

    If only the unit was edited, either its name was wrong or the device counts in another unit since then. Of the two, the one
    with the smaller change of the counter is assumed. Zeros and negative readings show neither.
    """
    is_known = earlier.scaling is not None and later.scaling is not None
    if earlier == later or (earlier.size == later.size and not is_known):
        return True
    if is_known and earlier.scaling != later.scaling:
        return _in_watt_hours(earlier) == _in_watt_hours(later)
    if reading <= 0 or following <= 0:
        return False
    middle = reading * sqrt(later.size / earlier.size)
    return following < middle if later.size > earlier.size else following > middle


@lru_cache(maxsize=1_000)
def _in_watt_hours(edition: Edition) -> tuple[str, Fraction, Fraction]:
    """Return the field of an edition, and its scale and offset for a result in Wh."""
    assert edition.scaling is not None
    field, scale, offset = edition.scaling.rsplit(" ", 2)
    return field, Fraction(scale) * edition.size, Fraction(offset) * edition.size


class Readings(NamedTuple):
    """Times (microseconds since 2000-01-01 UTC, ascending, distinct) and readings of one counter, in kWh.

    `editions` has the edition of each reading by its time; it is empty if the counter has one edition.
    """

    times: Sequence[int]
    values: Sequence[float]
    editions: Mapping[int, Edition] = {}

    @classmethod
    def of(cls, readings: Mapping[int, tuple[float, Edition]], *, is_edited: bool) -> "Readings":
        """Return readings by their times, with their editions if there are several."""
        editions = {time: edition for time, (_, edition) in readings.items()} if is_edited else {}
        return cls(list(readings), [value for value, _ in readings.values()], editions)

    def part(self, places: slice) -> "Readings":
        """Return the readings at these indices."""
        return Readings(self.times[places], self.values[places], self.editions)

    def after(self, earlier: "Readings") -> "Readings":
        """Return all readings after earlier ones."""
        return Readings([*earlier.times, *self.times], [*earlier.values, *self.values], {**earlier.editions, **self.editions})

    def edits(self) -> frozenset[int]:
        """Return the indices of the readings at which the counter does not continue from the one before."""
        return frozenset(self._edits()) if self.editions else frozenset()

    def _edits(self) -> Iterator[int]:
        for place, ((time, reading), (next_time, following)) in enumerate(pairwise(zip(self.times, self.values, strict=True))):
            if not is_continued(self.editions[time], reading, self.editions[next_time], following):
                yield place + 1
