"""The newest value of every metric, each with its own time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.plants.sub_devices.registry import get_sub_device
from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.models import LatestSignal, Place, TelemetryPoint
from gridfleet.domains.telemetry.history.series import known_layouts
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["latest_points", "latest_signals", "point_metadata"]


class _Newest(NamedTuple):
    time: datetime
    value: float
    place: Place


async def latest_points(db: Connection, org: OrgScope, plant_id: UUID) -> list[TelemetryPoint]:
    """The newest values of the plant and its present sub-devices, by metric. Raises `PlantNotFound`.

    A deleted sub-device has no newest values any more; its history is still there.
    """
    await get_plant(db, org, plant_id)
    return [
        TelemetryPoint(
            newest.time,
            plant_id,
            key if sub_device is None else f"{sub_device}.{key}",
            newest.value,
            newest.place.unit,
            point_metadata(sub_device, newest.place, newest.value),
        )
        for sub_device, key, newest in await _read(db, org, plant_id, None)
    ]


async def latest_signals(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> list[LatestSignal]:
    """The newest values of one sub-device, by metric. Raises `SubDeviceNotFound`, also when the plant is absent."""
    device = await get_sub_device(db, org, plant_id, external_id)
    return [
        LatestSignal(key, newest.time, newest.place.unit, newest.value)
        for _, key, newest in await _read(db, org, plant_id, device.id)
    ]


def point_metadata(sub_device: str | None, place: Place, value: float) -> dict[str, Any]:
    """What there is to say of a value beside itself."""
    metadata: dict[str, Any] = {}
    if sub_device is not None:
        metadata["subDevice"] = sub_device
    if not place.low <= value <= place.high:
        metadata["outOfRange"] = True
    return metadata


async def _read(
    db: Connection, org: OrgScope, plant_id: UUID, sub_device_id: UUID | None
) -> Iterator[tuple[str | None, str, _Newest]]:
    """(sub-device, key, newest value): the plant's own first, then by sub-device, then by key."""
    rows = await store.latest(db, org, plant_id, sub_device_id)
    layouts = await known_layouts(db, (row[0] for row in rows))
    found: dict[tuple[str, str], _Newest] = {}
    for source, time, values, times in rows:
        layout = layouts[source.layout_id]
        for position, value in enumerate(values):
            at = time if times is None else times[position]
            if value is None or at is None:
                continue
            which = (source.external_id or "", layout.metrics[position].key)
            earlier = found.get(which)
            if earlier is None or earlier.time < at:
                found[which] = _Newest(at, value, Place.of(source.id, layout, position))
    return ((sub_device or None, key, newest) for (sub_device, key), newest in sorted(found.items(), key=lambda item: item[0]))
