"""Refresh plants' newest power from their newest values."""

import asyncio
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from time import monotonic, process_time
from typing import Final
from uuid import UUID

import structlog
from psycopg.errors import ForeignKeyViolation

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.device_templates.roles import is_counter, signal_roles, units_of
from gridfleet.domains.telemetry.energy import store as energies
from gridfleet.domains.telemetry.energy.editions import Edition, may_have_counted
from gridfleet.domains.telemetry.energy.periods import start_of_day
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.power import store
from gridfleet.domains.telemetry.power.counting import count_energy, with_kept_hours
from gridfleet.domains.telemetry.power.models import EnergyState, RoleReading
from gridfleet.domains.telemetry.power.newest import newest_power
from gridfleet.domains.telemetry.power.store import CAPACITY_KEY, PowerRow, ReadingRow
from gridfleet.domains.telemetry.units import KILO, exactly_in_kilo, size_of
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database, limit_statements
from gridfleet.kernel.isolation import SECONDS_OF_SEVERAL, may_be_poison, took_too_long
from gridfleet.kernel.time_zones import UTC_NAME, time_zone

__all__ = ["PowerRefresher", "refresh_all", "refresh_late", "refresh_power"]

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 200
_SHORTEST_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 5.0
_LONG_SECONDS: Final = 0.5
"""Time of a refresh after which the next one has half as many plants: a part of it blocks the event loop."""
_REST: Final = 5
_REST_WHEN_BUSY: Final = 30
"""The pause after a refresh, in durations of the refresh. When the process is busy, ingest loses at most 3 % of its time."""
_BUSY: Final = 0.3
"""The share of a processor that a busy process uses: the broker, the database and the plants' programs may need the others."""
_CAPACITY_UNITS: Final = ("", *units_of(SignalRole.ENERGY_CHARGED))
"""A template may have a capacity in Ah or %, which is no energy."""


class PowerRefresher:
    """Refreshes the plants of which an ingest process has stored telemetry.

    A plant is refreshed within half a second of its telemetry, and later under load: the pauses grow with the time that
    refreshes take, and with the processor time that the process uses. Organisations take turns, so that the plants of a large
    fleet do not delay those of others. A process that is killed leaves plants with an older power until they send again, or
    until `refresh_all`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[UUID | None, dict[UUID, None]] = {}
        self._woken = asyncio.Event()

    def note(self, organization_id: UUID | None, plant_ids: Iterable[UUID]) -> None:
        """Refresh these plants of an organisation soon. Plants whose organisation is not known (None) share their turns."""
        if noted := dict.fromkeys(plant_ids):
            self._waiting.setdefault(organization_id, {}).update(noted)
            self._woken.set()

    async def run(self) -> None:
        """Refresh noted plants until cancelled. After an error the next run continues."""
        loop = asyncio.get_running_loop()
        most = _AT_ONCE
        ended, used = loop.time(), process_time()
        while True:
            await self._woken.wait()
            chosen = self._choose(most)
            began = loop.time()
            try:
                await _refresh_each(self._database, list(chosen))
            except BaseException:
                for plant_id, organization_id in chosen.items():
                    self.note(organization_id, [plant_id])
                raise
            if not self._waiting:
                self._woken.clear()
            seconds = loop.time() - began
            most = max(1, most // 2) if seconds > _LONG_SECONDS else min(2 * most, _AT_ONCE)
            share = (process_time() - used) / (loop.time() - ended)
            ended, used = loop.time(), process_time()
            await asyncio.sleep(_pause(seconds, share))

    def _choose(self, most: int) -> dict[UUID, UUID | None]:
        """Remove up to `most` plants and return them with their organisations: one of each organisation, then a second, etc."""
        chosen: dict[UUID, UUID | None] = {}
        while self._waiting and len(chosen) < most:
            organization_id = next(iter(self._waiting))
            plants = self._waiting.pop(organization_id)
            plant_id = next(iter(plants))
            del plants[plant_id]
            chosen[plant_id] = organization_id
            if plants:
                self._waiting[organization_id] = plants  # behind all others
        return chosen


def _pause(seconds: float, share: float) -> float:
    """Return the seconds until the next refresh after one of `seconds`, in a process that uses this share of a processor."""
    rest = _REST + (_REST_WHEN_BUSY - _REST) * min(share / _BUSY, 1.0)
    return min(max(_SHORTEST_SECONDS, rest * seconds), _LONGEST_SECONDS)


async def refresh_all(database: Database) -> None:
    """Refresh every plant, in small transactions, and replace the count of closed hours of the day by their kept energies."""
    after: UUID | None = None
    while True:
        async with database.transaction() as db:
            plant_ids = await store.plants_after(db, after, _AT_ONCE)
        if not plant_ids:
            return
        await _refresh_each(database, plant_ids, with_kept=True)
        after = plant_ids[-1]


async def refresh_late(database: Database, plant_ids: Collection[UUID], *, seconds: float) -> None:
    """Refresh plants whose energy of the day has changed, as `refresh_all` does, until `seconds` have passed."""
    until = monotonic() + seconds
    waiting = list(plant_ids)
    while waiting and monotonic() < until:
        some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        await _refresh_each(database, some, with_kept=True)


async def _refresh_each(database: Database, plant_ids: Sequence[UUID], *, with_kept: bool = False) -> None:
    """Refresh plants together or, if that fails by itself, in smaller parts, so that a single one cannot stop the others."""
    try:
        with limit_statements(SECONDS_OF_SEVERAL):
            async with database.transaction() as db:
                await refresh_power(db, plant_ids, with_kept=with_kept)
    except Exception as error:
        if not may_be_poison(error):
            raise
        if len(plant_ids) == 1:
            if not isinstance(error, ForeignKeyViolation):  # else it was deleted in the meantime
                log.error("power of a plant cannot be refreshed", plant_id=str(plant_ids[0]), exc_info=True)
            return
        # One by one after a statement that took too long: each larger part with the slow plant would take as long again.
        size = 1 if took_too_long(error) else len(plant_ids) // 2
        parts = [plant_ids[first : first + size] for first in range(0, len(plant_ids), size)]
    else:
        return
    for part in parts:
        await _refresh_each(database, part, with_kept=with_kept)


async def refresh_power(db: Connection, plant_ids: Sequence[UUID], *, with_kept: bool = False) -> None:
    """Write the newest power and energy of these plants. Their rows are locked until the transaction ends.

    Args:
        db: The connection.
        plant_ids: The plants.
        with_kept: Whether the energies of closed hours are read, too. They include values that arrived late.
    """
    states = await store.lock(db, plant_ids)
    readings: dict[UUID, list[RoleReading]] = {plant_id: [] for plant_id in plant_ids}
    zones: dict[UUID, str] = {}
    for row in await store.reading_rows(db, plant_ids):
        readings[row.plant_id].extend(_readings(row))
        zones[row.plant_id] = row.time_zone
    power = [
        _power_row(plant_id, states.get(plant_id), found, zones.get(plant_id, UTC_NAME)) for plant_id, found in readings.items()
    ]
    await store.save(db, await _with_kept_hours(db, power) if with_kept else power)


def _power_row(plant_id: UUID, state: EnergyState | None, readings: Sequence[RoleReading], zone: str) -> PowerRow:
    newest = list({(one.source_id, one.key): one for one in sorted(readings, key=lambda one: one.time)}.values())
    return PowerRow(plant_id, newest_power(newest), count_energy(state, newest, zone))


async def _with_kept_hours(db: Connection, rows: Sequence[PowerRow]) -> list[PowerRow]:
    """Return the rows; those of plants that count the current day have the kept energies of its closed hours."""
    now = utc_now()
    starts = {}
    for row in rows:
        if row.energy is not None and row.energy.day == now.astimezone(zone := time_zone(row.energy.time_zone)).date():
            starts[row.plant_id] = start_of_day(row.energy.day, zone)
    kept = await energies.kept_from(db, starts)
    return [
        row if row.energy is None else row._replace(energy=with_kept_hours(row.energy, kept.get(row.plant_id, ())))
        for row in rows
    ]


def _readings(row: ReadingRow) -> Iterator[RoleReading]:
    roles = signal_roles(None, row.external_id) if row.roles in (None, "{}") else _declared(row.roles)
    has_capacity = SignalRole.SOC in roles.values()
    metrics = [
        Metric(key, unit, counts, scaling=scaling)
        for key, unit, counts, scaling in zip(row.keys, row.units, row.counters, row.scalings, strict=True)
    ]
    for metric, value, is_outside, time in zip(metrics, row.values, row.are_outside, row.times, strict=True):
        key, unit, role = metric.key, metric.unit, roles.get(metric.key)
        counts = role is not None and is_counter(role)
        if counts and not may_have_counted(metric):
            continue
        if counts and is_outside:
            value = -1.0  # no value; without a reading, the state of its count would be lost
        if role is not None or (has_capacity and key == CAPACITY_KEY and unit in _CAPACITY_UNITS):
            size = KILO if role in (SignalRole.SOC, SignalRole.SOH) else size_of(unit)
            edition = Edition.of(metric) if counts else None
            reading = exactly_in_kilo(value, size)
            yield RoleReading(role, row.source_id, row.external_id, key, reading, microseconds(time), edition)


@lru_cache(maxsize=1_000)
def _declared(roles: str) -> dict[str, SignalRole]:
    """Return the roles of a template by key. They are cached: thousands of devices have the same template."""
    return signal_roles(json.loads(roles), None)
