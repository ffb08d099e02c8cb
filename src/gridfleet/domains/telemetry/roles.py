"""The metrics of plants by their role, and which of them count."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.device_templates.roles import GRID_DEVICE, GRID_ROLES, is_counter, signal_roles
from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.models import LayoutIndex, LayoutSource
from gridfleet.kernel.db import Connection

__all__ = ["Energy", "EnergyMeter", "RoleMetric", "energy_meters", "former_counters", "role_metrics"]


class RoleMetric(NamedTuple):
    """A metric with a role that has had a value. Its unit may differ from layout to layout of the source.

    `began_at` is the hour of the source's first value, or the first open hour if no closed one has a value; None if it does not
    matter. `ended_at` is the time of the metric's last value if its sub-device was deleted, or if it has the role from an
    earlier template.
    """

    role: SignalRole
    source: LayoutSource
    key: str
    began_at: datetime | None = None
    ended_at: datetime | None = None


class Energy(StrEnum):
    """A kind of energy of a plant."""

    PRODUCED = "produced"
    IMPORTED = "imported"
    EXPORTED = "exported"
    CHARGED = "charged"
    DISCHARGED = "discharged"


class EnergyMeter(NamedTuple):
    """A source that measures one kind of a plant's energy.

    Attributes:
        counters: Keys of its counters. Their increases add up.
        powers: Keys of its powers, to integrate where no counter has values.
        positive: Whether the energy is that of positive power, or of negative power.
    """

    energy: Energy
    source: LayoutSource
    counters: tuple[str, ...]
    powers: tuple[str, ...]
    positive: bool


_COUNTERS_AND_POWERS: Final = {
    Energy.PRODUCED: (SignalRole.ENERGY_PRODUCED, SignalRole.PV_POWER, True),
    Energy.IMPORTED: (SignalRole.ENERGY_IMPORTED, SignalRole.GRID_POWER, True),
    Energy.EXPORTED: (SignalRole.ENERGY_EXPORTED, SignalRole.GRID_POWER, False),
    Energy.CHARGED: (SignalRole.ENERGY_CHARGED, SignalRole.BATTERY_POWER, True),
    Energy.DISCHARGED: (SignalRole.ENERGY_DISCHARGED, SignalRole.BATTERY_POWER, False),
}


async def role_metrics(db: Connection, plant_ids: Sequence[UUID]) -> dict[UUID, list[RoleMetric]]:
    """Return the metrics with a role of those plants of any organisation that have one, newest sources first.

    The metrics of deleted sub-devices are included. A metric has the role that the current template of the sub-device with its
    external id gives to its key, also for values of earlier templates. A key that the current template does not declare has the
    role of the earlier templates.
    """
    layouts: dict[tuple[int, tuple[str, ...]], LayoutIndex] = {}
    by_source: dict[int, list[store.RoleSourceRow]] = {}
    for row in await store.role_sources(db, plant_ids):
        by_source.setdefault(row.source_id, []).append(row)
    found: dict[UUID, list[RoleMetric]] = {}
    for source_id, group in by_source.items():
        first = group[0]
        roles: dict[str, SignalRole] = {}
        ends: dict[str, datetime | None] = {}
        for row in group:
            known = signal_roles(row.roles, row.external_id)
            for key, end in zip(row.keys, row.ends, strict=True):
                if key in known:
                    roles[key] = known[key]
                    ends[key] = _later(end, ends.get(key, end))
        source = LayoutSource(source_id, first.external_id, tuple(_layout(row, layouts) for row in group))
        if metrics := [RoleMetric(role, source, key, first.began_at, ends[key]) for key, role in roles.items()]:
            found.setdefault(first.plant_id, []).extend(metrics)
    return found


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the later end; None is no end."""
    return None if one is None or other is None else max(one, other)


def _layout(row: store.RoleSourceRow, known: dict[tuple[int, tuple[str, ...]], LayoutIndex]) -> LayoutIndex:
    """Return the part of the row's layout that the row names. Sources with the same part share it."""
    part = (row.layout_id, tuple(row.keys))
    if (layout := known.get(part)) is None:
        columns = zip(row.keys, row.units, row.counters, row.minimums, row.maximums, row.scalings, strict=True)
        metrics = {number: Metric(*column) for number, column in zip(row.positions, columns, strict=True)}
        layout = known[part] = LayoutIndex(row.layout_id, metrics, dict(zip(row.keys, row.positions, strict=True)))
    return layout


def former_counters(metrics: Iterable[RoleMetric]) -> Mapping[tuple[int, str], Sequence[RoleMetric]]:
    """Return, by source and key, the other metrics of the source that had the role of this counter in earlier templates."""
    counters: dict[tuple[int, SignalRole], list[RoleMetric]] = defaultdict(list)
    for one in metrics:
        if is_counter(one.role):
            counters[one.source.id, one.role].append(one)
    return {
        (one.source.id, one.key): [other for other in group if other.ended_at is not None and other is not one]
        for group in counters.values()
        if len(group) > 1
        for one in group
    }


def energy_meters(metrics: Iterable[RoleMetric]) -> list[EnergyMeter]:
    """Return the sources that measure a plant's energy, from its metrics with a role.

    If there is a device GRID, no other device measures the energy at the grid. If the plant itself measures an energy, its
    devices do not count, except that counters of devices take precedence over the plant's power.
    """
    every = list(metrics)
    if any(one.source.external_id == GRID_DEVICE and one.role in GRID_ROLES for one in every):
        every = [one for one in every if one.source.external_id in (GRID_DEVICE, None) or one.role not in GRID_ROLES]
    return [meter for energy in Energy for meter in _meters(energy, every)]


def _meters(energy: Energy, metrics: Sequence[RoleMetric]) -> list[EnergyMeter]:
    counter_role, power_role, positive = _COUNTERS_AND_POWERS[energy]
    sources: dict[int, LayoutSource] = {}
    keys: dict[tuple[int, SignalRole], tuple[str, ...]] = {}
    for one in metrics:
        if one.role is counter_role or one.role is power_role:
            sources[one.source.id] = one.source
            keys[one.source.id, one.role] = (*keys.get((one.source.id, one.role), ()), one.key)
    meters = [
        EnergyMeter(energy, source, keys.get((source.id, counter_role), ()), keys.get((source.id, power_role), ()), positive)
        for source in sources.values()
    ]
    own = [meter for meter in meters if meter.source.external_id is None]
    of_devices = [meter for meter in meters if meter.source.external_id is not None]
    only_devices_count = any(meter.counters for meter in of_devices) and not any(meter.counters for meter in own)
    return own if own and not only_devices_count else of_devices
