"""Read the newest value of every metric, each with its own time."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, TypeVar
from uuid import UUID

from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.plants.sub_devices.registry import get_sub_device
from gridfleet.domains.telemetry.computing import COMPUTING
from gridfleet.domains.telemetry.frames.models import MAX_LAYOUT_METRICS
from gridfleet.domains.telemetry.history.formats import points_json
from gridfleet.domains.telemetry.history.models import KeyedPosition, LatestSignal, LayoutIndex, Newest, TelemetryPoint
from gridfleet.domains.telemetry.history.series import layouts_of
from gridfleet.domains.telemetry.latest import store
from gridfleet.domains.telemetry.latest.store import LatestRow
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.turns import FairThread

__all__ = ["MOST_IN_LOOP", "latest_json", "latest_points", "latest_signals"]

_Made = TypeVar("_Made")
MOST_VALUES: Final = 250_000
"""The most newest values of a plant that are read: each takes 600 bytes until the response is sent."""
_FEW_ROWS: Final = MOST_VALUES // MAX_LAYOUT_METRICS
_RETRY_AFTER_SECONDS: Final = 30
MOST_IN_LOOP: Final = 2_000
"""Values of a plant above which the result is made in a thread. Each takes 4 µs."""


async def latest_json(db: Connection, org: OrgScope, plant_id: UUID) -> bytes:
    """Return the result of `latest_points` as a JSON array, in a fifth of the time.

    Raises:
        PlantNotFound: There is no such plant.
        TooManyRequests: The plant has more than `MOST_VALUES` values.
    """
    return await _of_plant(db, org, plant_id, lambda newest: points_json(plant_id, newest))


async def latest_points(
    db: Connection, org: OrgScope, plant_id: UUID, *, thread: FairThread = COMPUTING
) -> list[TelemetryPoint]:
    """Return the newest values of the plant and its existing sub-devices, by metric.

    A deleted sub-device has no newest values; its history remains.

    Args:
        db: The connection.
        org: The caller's organisation.
        plant_id: The plant.
        thread: Where many values are computed.

    Raises:
        PlantNotFound: There is no such plant.
        TooManyRequests: The plant has more than `MOST_VALUES` values.
    """
    return await _of_plant(db, org, plant_id, lambda newest: [_point(plant_id, one) for one in newest], thread)


async def latest_signals(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> list[LatestSignal]:
    """Return the newest values of one sub-device, by metric.

    Raises:
        SubDeviceNotFound: The sub-device or its plant does not exist.
    """
    device = await get_sub_device(db, org, plant_id, external_id)
    rows = await store.latest_of_device(db, org, device.id)
    layouts = await layouts_of(db, (row.source for row in rows))
    return [
        LatestSignal(newest.position.key, newest.time, newest.position.unit, newest.value) for newest in _newest(rows, layouts)
    ]


def _point(plant_id: UUID, newest: Newest) -> TelemetryPoint:
    return TelemetryPoint(
        newest.time,
        plant_id,
        newest.position.key if newest.sub_device is None else f"{newest.sub_device}.{newest.position.key}",
        newest.value,
        newest.position.unit,
        _metadata(newest),
    )


def _metadata(newest: Newest) -> dict[str, Any]:
    metadata: dict[str, Any] = {} if newest.sub_device is None else {"subDevice": newest.sub_device}
    if not newest.position.low <= newest.value <= newest.position.high:
        metadata["outOfRange"] = True
    return metadata


async def _of_plant(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    make: Callable[[Iterator[Newest]], _Made],
    thread: FairThread = COMPUTING,
) -> _Made:
    """Return what `make` returns for the newest values: the plant's own ones first, then by sub-device, then by key."""
    rows = await store.latest_of_plant(db, org, plant_id, _FEW_ROWS + 1)
    if rows is None:
        raise PlantNotFound
    if len(rows) > _FEW_ROWS:
        if await store.count_latest(db, org, plant_id) > MOST_VALUES:
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        rows = await store.latest_of_plant(db, org, plant_id, None) or []
    newest = _newest(rows, await layouts_of(db, (row.source for row in rows)))
    if sum(len(row.values) for row in rows) > MOST_IN_LOOP:
        return await thread.run(org.organization_id, partial(make, newest))
    return make(newest)


def _newest(rows: Iterable[LatestRow], layouts: dict[int, LayoutIndex]) -> Iterator[Newest]:
    """Yield the values of `rows`, which are ordered by sub-device. The values of a sub-device are ordered by key."""
    for sub_device, group in groupby(rows, key=attrgetter("source.external_id")):
        first, *others = ((row, layouts[row.source.layout_id]) for row in group)
        if not others:
            for position, time, value in _values(*first):
                yield Newest(sub_device, position, time, value)
            continue
        # A device whose template was edited has values in several layouts; the newest value of each key is used.
        found: dict[str, tuple[KeyedPosition, datetime, float]] = {}
        for row, layout in (first, *others):
            for position, time, value in _values(row, layout):
                earlier = found.get(position.key)
                if earlier is None or earlier[1] < time:
                    found[position.key] = (position, time, value)
        for key in sorted(found):
            yield Newest(sub_device, *found[key])


def _values(row: LatestRow, layout: LayoutIndex) -> Iterator[tuple[KeyedPosition, datetime, float]]:
    values, times = row.values, row.times
    for position in layout.by_key:
        value = values[position.number]
        time = row.time if times is None else times[position.number]
        if value is not None and time is not None:
            yield position, time, value
