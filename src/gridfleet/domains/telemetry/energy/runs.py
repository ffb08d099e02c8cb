"""Divide the hours of plants into runs that are computed together."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.models import DirtyHour
from gridfleet.domains.telemetry.roles import EnergyMeter, RoleMetric, energy_meters
from gridfleet.kernel.db import Connection

__all__ = ["Run", "meters_of", "runs_of"]

_HOUR: Final = timedelta(hours=1)


class Run(NamedTuple):
    """Hours of a plant on one UTC day that are computed together, from frames since the hour before `since`.

    The same sub-devices measure in all of them.
    """

    plant_id: UUID
    start: datetime
    hours: int
    since: datetime

    @property
    def read_from(self) -> datetime:
        """The time from which readings are read, an hour before `since`."""
        return self.since - _HOUR

    @property
    def end(self) -> datetime:
        return self.start + self.hours * _HOUR

    def hour(self, index: int) -> DirtyHour:
        """Return an hour of the run by its index from 0."""
        return DirtyHour(self.plant_id, self.start + index * _HOUR)


async def runs_of(db: Connection, wanted: Sequence[DirtyHour], metrics: Mapping[UUID, Sequence[RoleMetric]]) -> list[Run]:
    """Return the runs of sorted hours, by plant and time. `metrics` are those of each plant that have a role."""
    begins = {plant_id: sorted(one.began_at for one in own if one.began_at is not None) for plant_id, own in metrics.items()}
    ends = {plant_id: sorted(one.ended_at for one in own if one.ended_at is not None) for plant_id, own in metrics.items()}

    def day_and_sources(one: DirtyHour) -> tuple[UUID, date, int, int]:
        begun, ended = bisect_right(begins.get(one.plant_id, ()), one.hour), bisect_left(ends.get(one.plant_id, ()), one.hour)
        return one.plant_id, one.hour.astimezone(UTC).date(), begun, ended

    parts = [list(group) for _, group in groupby(wanted, day_and_sources)]
    fell = await store.falls_before(db, [part[0] for part in parts])
    found: list[Run] = []
    last = None
    for part in parts:
        plant_id, start = part[0]
        midnight = start.replace(hour=0)
        # A counter that fell adds nothing until it is back at its level, which only the readings of the day show. Otherwise
        # those of the hour before suffice. Falls in an earlier part of these hours are not stored yet.
        may_have_fallen = last is not None and last.plant_id == plant_id and last.hour >= midnight - _HOUR
        since = midnight if part[0] in fell or may_have_fallen else start
        found.append(Run(plant_id, start, (part[-1].hour - start) // _HOUR + 1, since))
        last = part[-1]
    return found


def meters_of(run: Run, metrics: Mapping[UUID, Sequence[RoleMetric]]) -> list[EnergyMeter]:
    """Return what measures the energy of a run's plant in its hours."""
    return energy_meters(
        one
        for one in metrics.get(run.plant_id, ())
        if (one.began_at is None or one.began_at <= run.start) and (one.ended_at is None or one.ended_at >= run.start)
    )
