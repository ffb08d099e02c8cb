"""The series of a plant, from its sources and every layout that they used."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from gridfleet.domains.telemetry.errors import MAX_METRICS, TooManyMetrics
from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.models import LayoutIndex, LayoutSource, Series, SeriesPosition
from gridfleet.domains.telemetry.history.store import SourceRow
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["by_unit", "device_series", "layouts_of", "named_series", "plant_series", "plant_sources"]

MOST_CACHED: Final = 200_000
"""Metrics of cached layouts above which the cache is emptied: each takes 400 bytes."""
_layout_cache: dict[tuple[int, bytes], LayoutIndex] = {}


async def layouts_of(db: Connection, rows: Iterable[SourceRow]) -> dict[int, LayoutIndex]:
    """Return the layouts of the rows by id.

    They are cached in the process, by a digest that identifies their content. Only scalings may be completed later.
    """
    wanted = {(row.layout_id, row.digest) for row in rows}
    # Copied before the query: a concurrent lookup may clear the cache.
    found = {key: _layout_cache[key] for key in wanted & _layout_cache.keys()}
    if missing := wanted - found.keys():
        read = await store.layouts(db, [layout_id for layout_id, _ in missing])
        found |= {(layout.id, digest): layout for digest, layout in read}
        _layout_cache.update(found)
        # Counted each time: a layout has at least one metric, so the sum is small beside the query above.
        if sum(len(layout.metrics) for layout in _layout_cache.values()) > MOST_CACHED:
            _layout_cache.clear()
    return {layout_id: layout for (layout_id, _), layout in found.items()}


async def plant_sources(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    *,
    external_ids: Sequence[str | None] | None = None,
    keys: Sequence[str] | None = None,
) -> list[LayoutSource]:
    """Return the plant's sources including those of deleted sub-devices, or only those with `external_ids`.

    The newest source comes first, and within a source the newest layout. If there are `keys`, only layouts with one of these
    metrics are returned, and sources that have any.

    Raises:
        TooManyMetrics: Without `keys`, they have more than `MAX_METRICS`.
    """
    limit = MAX_METRICS + 1 if keys is None else None
    rows = await store.sources(db, org, plant_id, external_ids=external_ids, keys=keys, limit=limit)
    if keys is None and sum(row.size for row in rows) > MAX_METRICS:
        raise TooManyMetrics
    layouts = await layouts_of(db, rows)
    by_source: dict[int, list[SourceRow]] = {}
    for row in rows:
        by_source.setdefault(row.id, []).append(row)
    return [
        LayoutSource(source_id, group[0].external_id, tuple(layouts[row.layout_id] for row in group))
        for source_id, group in by_source.items()
    ]


async def plant_series(db: Connection, org: OrgScope, plant_id: UUID, metric: str | None = None) -> list[Series]:
    """Return the plant's series by name: all, or the one named `metric`, if it exists.

    Raises:
        TooManyMetrics: There are more than `MAX_METRICS`.
    """
    if metric is None:
        sources = await plant_sources(db, org, plant_id)
        key = None
    else:
        external_id, key = _split(metric)
        sources = await plant_sources(db, org, plant_id, external_ids=[external_id], keys=[key])
    return _series(sources, None if key is None else [key], _plant_name)


async def named_series(db: Connection, org: OrgScope, plant_id: UUID, metrics: Sequence[str]) -> list[Series]:
    """Return the plant's series of these names, in their order. A metric that the plant does not have has no positions."""
    devices, keys = zip(*map(_split, metrics), strict=True)
    sources = await plant_sources(db, org, plant_id, external_ids=sorted(set(devices), key=str), keys=sorted(set(keys)))
    found = {one.metric: one for one in _series(sources, keys, _plant_name)}
    return [found.get(metric, Series(metric, device, ())) for metric, device in zip(metrics, devices, strict=True)]


async def device_series(
    db: Connection, org: OrgScope, plant_id: UUID, external_id: str, metric: str | None = None
) -> list[Series]:
    """Return a sub-device's series by the metrics' own names: all, or the one named `metric`, if it exists.

    The values of an earlier sub-device with the same external id belong to them.

    Raises:
        TooManyMetrics: There are more than `MAX_METRICS`.
    """
    keys = None if metric is None else [metric]
    sources = await plant_sources(db, org, plant_id, external_ids=[external_id], keys=keys)
    return _series(sources, keys, lambda _, name: name)


def by_unit(series: Iterable[Series]) -> list[Series]:
    """Split series whose unit was edited, so that no average mixes units; the newest layout's unit comes first."""
    split: list[Series] = []
    for one in series:
        units: dict[str | None, list[SeriesPosition]] = {}
        for position in one.positions:
            units.setdefault(position.unit, []).append(position)
        split.extend([replace(one, positions=tuple(positions)) for positions in units.values()] if len(units) > 1 else [one])
    return split


def _split(metric: str) -> tuple[str | None, str]:
    """Return the external id, None for the plant itself, and the key of a metric of a plant."""
    external_id, dot, key = metric.partition(".")
    return (external_id, key) if dot else (None, metric)


def _plant_name(source: LayoutSource, key: str) -> str:
    return key if source.external_id is None else f"{source.external_id}.{key}"


def _series(
    sources: Sequence[LayoutSource], keys: Sequence[str] | None, named: Callable[[LayoutSource, str], str]
) -> list[Series]:
    found: dict[str, tuple[str | None, list[SeriesPosition]]] = {}
    for source in sources:
        for layout in source.layouts:
            for name, number in _wanted(layout, keys):
                positions = found.setdefault(named(source, name), (source.external_id, []))[1]
                positions.append(SeriesPosition.of(source.id, layout, number))
    return [Series(name, sub_device, tuple(positions)) for name, (sub_device, positions) in sorted(found.items())]


def _wanted(layout: LayoutIndex, keys: Sequence[str] | None) -> Iterator[tuple[str, int]]:
    if keys is None:
        yield from layout.positions.items()
    else:
        yield from ((key, layout.positions[key]) for key in dict.fromkeys(keys) if key in layout.positions)
