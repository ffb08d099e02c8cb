"""Energy that a plant's METER sub-devices counted, in buckets of any width."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, pairwise
from math import inf
from sys import maxsize
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from gridfleet.domains.device_templates.models import DeviceType
from gridfleet.domains.plants.sub_devices.registry import external_ids
from gridfleet.domains.telemetry.computing import computed
from gridfleet.domains.telemetry.energy.arithmetic import CounterStep, is_misread, limited, steps
from gridfleet.domains.telemetry.energy.editions import Readings
from gridfleet.domains.telemetry.energy.quarters import LONGEST_GAP
from gridfleet.domains.telemetry.energy.today import read_in_kilo, without_misread
from gridfleet.domains.telemetry.energy.zeros import with_levels
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.models import LayoutSource
from gridfleet.domains.telemetry.history.series import plant_sources
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import measurable, round_down, round_up
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["MeteredEnergy", "energy_between", "metered_energy", "metered_rows"]

Row = TypeVar("Row")

_SIGNS: Final = {"energy_imported": 1, "energy_exported": -1}
_PART: Final = timedelta(days=1)
_BEFORE_RANGE: Final = timedelta(hours=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_SLACK: Final = 1.25
"""The largest gap between readings, in bucket widths: readings once a minute never come exactly every minute."""
_MARGIN: Final = 3
"""The time before and after a range whose readings are read, in bucket widths: more than two gaps.

The first and the last boundary may each lie in a gap. The reading beyond it shows whether the one at its end was misread.
"""

_WORK: Final = 5
"""How many buckets are computed at most for each reading that a response may have.

Buckets are also computed where the readings are too far apart, and left out: those of five minutes of a meter that is read each
quarter of an hour, beside meters that are read each minute. Thousands of meters that send a reading a day would take minutes.
"""


class MeteredEnergy(NamedTuple):
    """The energy that one meter counted in the bucket that begins at `start`, in kWh: imported minus exported."""

    start: datetime
    external_id: str
    energy: float


class _Last(NamedTuple):
    """The last step of a counter in a part of a range, and its reading.

    With the times of the last positive reading, if there was one, and of the last one at the level.
    """

    step: CounterStep
    reading: Readings
    positive_at: int | None
    reached_at: int


async def metered_energy(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    start: datetime,
    end: datetime,
    width: timedelta,
    *,
    meter: str | None = None,
    most: int = maxsize,
    advice: str = "from: ask for a shorter range",
) -> AsyncIterator[MeteredEnergy]:
    """Yield every meter's whole buckets between `start` and `end`, aligned to the epoch, by meter.

    Buckets that are narrower than the distance of the readings around them are left out. The readings of an earlier sub-device
    with the same external id belong to the meter; where both have a bucket, that of the newer one is used.

    Args:
        meter: The external id of the only meter to read; None reads all.
        most: The most readings.
        advice: What to do if there are more.

    Raises:
        PlantNotFound: There is no such plant.
        ValidationFailed: There are more than `most`, or more than five times as many buckets would be computed.
    """
    too_many = ValidationFailed(
        f"The response would have more than {most:,} readings, or need too many buckets for them.", [advice]
    )
    start, end = measurable(start, end)
    start, end = round_up(start, width), round_down(end, width)
    sources = await _sources(db, org, plant_id, start, meter)
    if sum(map(len, sources.values())) * ((end - start) // width) > _WORK * most:
        raise too_many
    count = 0
    for external_id in sorted(sources):
        known: set[datetime] = set()
        for source in sources[external_id]:
            async for moment, energy in _energy_of(db, org, plant_id, source, start, end, width):
                if moment in known:
                    continue
                known.add(moment)
                count += 1
                if count > most:
                    raise too_many
                yield MeteredEnergy(moment, external_id, energy)


async def metered_rows(readings: AsyncIterator[MeteredEnergy], row_of: Callable[[MeteredEnergy], Row]) -> list[Row]:
    """Return a row for each reading of `metered_energy`, by time, then meter.

    They are grouped by time while they are read. All other requests would wait while all of them are sorted.
    """
    rows = defaultdict[datetime, list[Row]](list)
    async for one in readings:
        rows[one.start].append(row_of(one))
    return [row for time in sorted(rows) for row in rows[time]]


async def _sources(
    db: Connection, org: OrgScope, plant_id: UUID, start: datetime, meter: str | None
) -> dict[str, list[LayoutSource]]:
    """Return the sources of meters with a value of a counter from `start` on, by external id. Others have no bucket then."""
    wanted = await external_ids(db, org, plant_id, DeviceType.METER)
    named = None if meter is None else [meter]
    found = await plant_sources(db, org, plant_id, external_ids=named, keys=list(_SIGNS))
    reporting = await store.reporting_since(db, org, [source.id for source in found], list(_SIGNS), start)
    sources: dict[str, list[LayoutSource]] = {}
    for source in found:
        if source.external_id in wanted and source.id in reporting:
            sources.setdefault(source.external_id, []).append(source)
    return sources


async def _energy_of(
    db: Connection, org: OrgScope, plant_id: UUID, source: LayoutSource, start: datetime, end: datetime, width: timedelta
) -> AsyncIterator[tuple[datetime, float]]:
    """Yield the start and the energy of each bucket of one source, read in parts. The range is one of whole buckets."""
    # A template may declare a counter that the meter does not have.
    counters = await store.reported(db, org, source.id, list(_SIGNS))
    last_steps: dict[str, _Last] = {}
    while start < end:
        part_end = min(end, start + max(width, _PART // width * width))
        for bucket in await _read(db, plant_id, source, counters, start, part_end, width, last_steps):
            yield bucket
        start = part_end


async def _read(
    db: Connection,
    plant_id: UUID,
    source: LayoutSource,
    counters: Sequence[store.ReportedRow],
    start: datetime,
    end: datetime,
    width: timedelta,
    last_steps: dict[str, _Last],
) -> Iterator[tuple[datetime, float]]:
    """Return the whole buckets of one part of the range.

    Args:
        counters: The counters to add up.
        last_steps: The last step of each counter in the previous parts; updated for the next part. So a dip that lasts
            from one part to the next adds nothing.
    """
    margin = _MARGIN * width
    boundaries = [start + number * width for number in range((end - start) // width + 1)]
    parts: list[list[float | None]] = []
    for counter, _, _ in counters:
        last = last_steps.get(counter)
        # Without a level, the counter may be in a dip at the start of the range.
        before = max(margin, _BEFORE_RANGE) if last is None else margin
        readings = await read_in_kilo(db, source, counter, start - before, end + margin)
        if last is None:
            # If the first reading was misread as up to twice too high, the counter would not reach that level for a long time.
            # If it was misread as too low and the second one is in the range, the range would have all energy of the meter.
            times, values = readings.times, readings.values
            if len(values) > 1 and (values[0] > values[1] or times[1] >= microseconds(start)):
                since = start - before + _BEFORE_RANGE
                readings = await without_misread(db, plant_id, source, counter, readings, since)
            [readings] = await with_levels(db, [(source, counter, readings)])
        count = partial(_count, readings, last, boundaries, width, end - margin)
        energies, last = await computed(count, len(readings.times))
        if last is not None:
            last_steps[counter] = last
        parts.append([None if energy is None else _SIGNS[counter] * energy for energy in energies])
    return _sums(boundaries, width, counters, parts)


def _count(
    readings: Readings, last: _Last | None, boundaries: Sequence[datetime], width: timedelta, until: datetime
) -> tuple[list[float | None], _Last | None]:
    """Return the energy between boundaries, and the counter's last step before `until`.

    It is None without a reading before it, and while the readings are zeros: these set no level, because the meter may be off.
    """
    positive = [time for time, reading in zip(readings.times, readings.values, strict=True) if reading > 0]
    if last is not None and last.positive_at is not None:
        positive.insert(0, last.positive_at)
    edits = readings.edits() | _after_days(readings, positive)
    count, reached_at = partial(steps, readings.values), 0
    if last is not None:
        count, reached_at = partial(count, last.step.level, was_zero=last.step.was_zero), last.reached_at
        if readings.part(slice(1)).after(last.reading).edits():
            edits |= {0}
    counted = list(count(edits=edits))
    while (place := _after_lasting_fall(readings, counted, reached_at, edits)) is not None:
        edits |= {place}
        counted = list(count(edits=edits))
    known = bisect_left(readings.times, microseconds(until))
    energies = energy_between(readings.times, counted, [microseconds(moment) for moment in boundaries], width // _MICROSECOND)
    if not known or -inf < counted[known - 1].level <= 0:
        return energies, None
    reading = readings.part(slice(known - 1, known))
    earlier = positive[: bisect_left(positive, microseconds(until))]
    at_level = (time for time, value, step in zip(*readings[:2], counted[:known], strict=False) if value == step.level)
    reached_at = max(at_level, default=reached_at)
    return energies, _Last(counted[known - 1], reading, earlier[-1] if earlier else None, reached_at)


def _after_days(readings: Readings, positive: Sequence[int]) -> frozenset[int]:
    """Return the indices of positive readings more than a day after the one before, in between zeros: they only set the level.

    The answer would depend on the range otherwise: one that begins during the zeros does not read the level before them.
    """
    return frozenset(bisect_left(readings.times, time) for before, time in pairwise(positive) if time - before > LONGEST_GAP)


def _after_lasting_fall(
    readings: Readings, counted: Sequence[CounterStep], reached_at: int, edits: Collection[int]
) -> int | None:
    """Return the index of the first reading below the level more than a day after the last one at it; None if there is none.

    A meter may be exchanged, or its counter restored. An answer for a range that begins after the fall does not read the level.
    """
    for place, (time, reading, (_, level, _)) in enumerate(zip(*readings[:2], counted, strict=True)):
        if reading == level:
            reached_at = time
        elif 0 < reading < level and time - reached_at > LONGEST_GAP and not is_misread(level, readings.values, place, edits):
            return place
    return None


def _sums(
    boundaries: Sequence[datetime],
    width: timedelta,
    counters: Sequence[store.ReportedRow],
    parts: Sequence[Sequence[float | None]],
) -> Iterator[tuple[datetime, float]]:
    """Yield the buckets for which every counter has a value that the meter had then."""
    for moment, *energies in zip(boundaries, *parts, strict=False):
        # Otherwise an edit of its template that adds or removes a counter would hide all buckets before or after it.
        had = [
            energy
            for energy, one in zip(energies, counters, strict=True)
            if one.began_at < moment + width and (one.ended_at is None or moment <= one.ended_at)
        ]
        known = [energy for energy in had if energy is not None]
        if known and len(known) == len(had):
            yield moment, round(sum(known), 6)


def energy_between(
    times: Sequence[int], counted: Iterable[CounterStep], boundaries: Sequence[int], width: int
) -> list[float | None]:
    """Return how far a counter rose between consecutive boundaries; None where its readings are too far apart.

    The counter is assumed to rise evenly between two readings, so that the buckets of a range add up to the total.

    Args:
        times: Times of the steps, in microseconds.
        counted: The counter's steps.
        boundaries: Bucket boundaries, in microseconds.
        width: Width of a bucket, in microseconds.
    """
    totals = list(accumulate((step.rise for step in counted), lambda total, rise: limited(total + rise)))
    counts = [_count_at(times, totals, boundary, width) for boundary in boundaries]
    return [None if before is None or after is None else after - before for before, after in pairwise(counts)]


def _count_at(times: Sequence[int], totals: Sequence[float], moment: int, width: int) -> float | None:
    after = bisect_right(times, moment)
    if after == 0:
        return None
    if times[after - 1] == moment:
        return totals[after - 1]
    if after == len(times) or times[after] - times[after - 1] > _SLACK * width:
        return None
    share = (moment - times[after - 1]) / (times[after] - times[after - 1])
    return totals[after - 1] + share * (totals[after] - totals[after - 1])
