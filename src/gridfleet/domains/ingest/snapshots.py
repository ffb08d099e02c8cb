"""Snapshots in the messages of plants: check all of one, then add its frames, statuses and telemetry events to the batch."""

import re
from datetime import datetime
from itertools import islice
from typing import NamedTuple

import msgspec

from gridfleet.domains.device_templates.models import FIELD
from gridfleet.domains.ingest.cached_plants import MAX_PLANT_NAMES, CachedDevice, CachedPlant
from gridfleet.domains.ingest.complaints import listed
from gridfleet.domains.ingest.models import Batch, Delivery, Refusal
from gridfleet.domains.ingest.organization_names import MAX_ORGANIZATION_NAMES
from gridfleet.domains.ingest.parsing import check_external_id, check_fields, measurement_time, parse_snapshot
from gridfleet.domains.ingest.readers import MAX_NAMES
from gridfleet.domains.partner_events.telemetry import MAX_AGE as EVENT_MAX_AGE
from gridfleet.domains.partner_events.telemetry import telemetry_events
from gridfleet.domains.plants.presence.records import DeviceSeen
from gridfleet.domains.plants.refused_messages.models import UnregisteredSeen
from gridfleet.domains.plants.refused_messages.records import MAX_UNREGISTERED, MAX_UNREGISTERED_FIELDS
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.protocol import envelope as wire
from gridfleet.protocol.envelope import RefusalReason

__all__ = ["CheckedSnapshot", "DeviceFields", "add_snapshot", "read_snapshot"]

_FIELD = re.compile(FIELD)

EventValues = dict[tuple[str | None, int], dict[str, float]]
"""Values by metric, for each external id, None for the plant itself, and time in microseconds."""

DeviceFields = tuple[CachedDevice, dict[str, wire.FieldValue]]
_Entry = tuple[CachedDevice, int, dict[str, wire.FieldValue], str]
"""Device, time of measurement in microseconds, fields, path in the message. A plain tuple: a batch has thousands."""


class CheckedSnapshot(NamedTuple):
    """A snapshot that is not refused.

    `time_us` is its time of measurement in microseconds. `lacking` has the entries whose fields need positions. `statuses` has
    the time of each entry. `unregistered` has the external id and the names of fields of each device that is not registered.
    """

    path: str
    time_us: int
    entries: list[_Entry]
    lacking: list[DeviceFields]
    statuses: list[tuple[CachedDevice, SubDeviceStatus, int]]
    unregistered: list[tuple[str, list[str]]]


def read_snapshot(plant: CachedPlant, raw: msgspec.Raw, path: str, message_id: str, now: datetime) -> CheckedSnapshot:
    """Check a snapshot, and find its devices. Neither the plant nor its devices change.

    Args:
        path: Its place in the message, for complaints.

    Raises:
        Refusal: It is not a valid snapshot.
    """
    snapshot = parse_snapshot(raw, path, message_id)
    snapshot_us = measurement_time(snapshot.time, f"{path}.time", message_id, now)
    read = CheckedSnapshot(path, snapshot_us, [], [], [], [])
    if snapshot.fields:
        check_fields(snapshot.fields, fields_path := f"{path}.fields", message_id)
        read.entries.append((plant.itself, snapshot_us, snapshot.fields, fields_path))
        if plant.itself.reader.lacks(snapshot.fields):
            read.lacking.append((plant.itself, snapshot.fields))
    for index, entry in enumerate(snapshot.devices):
        device = plant.devices.get(entry.id)
        if device is None:
            check_external_id(entry.id, f"{path}.devices.{index}.id", message_id)
            read.unregistered.append((entry.id, _names(entry.fields)))
            continue
        check_fields(entry.fields, fields_path := f"{path}.devices.{index}.fields", message_id)
        time_us = snapshot_us
        if entry.time is not None:
            time_us = measurement_time(entry.time, f"{path}.devices.{index}.time", message_id, now)
        read.entries.append((device, time_us, entry.fields, fields_path))
        if device.reader.lacks(entry.fields):
            read.lacking.append((device, entry.fields))
        status = SubDeviceStatus.ONLINE if entry.status is None else SubDeviceStatus(entry.status)
        read.statuses.append((device, status, time_us))
    return read


def add_snapshot(
    batch: Batch, plant: CachedPlant, delivery: Delivery, snapshot: CheckedSnapshot, message: wire.Envelope, seen_at: float
) -> None:
    """Add a snapshot to the batch, except fields whose names have no room.

    Args:
        seen_at: When the message was sent, by the service's clock.
    """
    _add_frames(batch, plant, delivery, snapshot, message.id)
    for device, status, time_us in snapshot.statuses:
        device.presence.seen_at = seen_at
        device.presence.note_message(batch.now_ms, message.sent_at, snapshot.time_us / 1000)
        _record_device(batch, plant, device, device.status_after(status, time_us, batch.now_ms))
    if snapshot.unregistered:
        batch.plants_held.add(plant.id)
    own = batch.unregistered.setdefault(plant.id, {}) if snapshot.unregistered else {}
    for external_id, names in snapshot.unregistered:
        if found := own.get(external_id):
            own[external_id] = found._replace(times=found.times + 1, fields=names or found.fields)
        elif len(own) < MAX_UNREGISTERED:
            own[external_id] = UnregisteredSeen(plant.id, external_id, batch.now, 1, names)


def _names(fields: dict[str, wire.FieldValue]) -> list[str]:
    """Return the first names of fields of an unregistered device that a template could declare."""
    return list(islice(filter(_FIELD.fullmatch, fields), MAX_UNREGISTERED_FIELDS))


def _add_frames(batch: Batch, plant: CachedPlant, delivery: Delivery, snapshot: CheckedSnapshot, message_id: str) -> None:
    """Add the frames of a snapshot, and the telemetry events of those that are not too old for events."""
    published: EventValues | None = {} if plant.id in batch.subscribed else None
    published_from_us = 0 if published is None else microseconds(batch.now - EVENT_MAX_AGE)
    before, added = len(batch.frames.frames), 0
    for device, time_us, fields, fields_path in snapshot.entries:
        frames, dropped = device.reader.read(fields)
        if dropped:
            batch.undeclared_fields += dropped
            if names := device.reader.without_room(fields):
                detail = f"{fields_path}: {_limit(plant, device)}; dropped: {listed(names)}"
                batch.refuse(plant.id, delivery, Refusal(RefusalReason.TOO_MANY_FIELDS, detail, message_id))
        for layout_id, values in frames:
            batch.frames.add(device.source_id, layout_id, time_us, values)
        added += len(frames)
        if published is not None and frames and time_us >= published_from_us:
            published.setdefault((device.external_id, time_us), {}).update(device.reader.named(frames))
    batch.frame_count += added
    if added:
        batch.reported.setdefault(plant.organization_id, set()).add(plant.id)
    batch.ends.append((len(batch.frames.frames), delivery))
    if len(batch.frames.frames) < before + added:
        batch.repeated |= {(device.source_id, time_us): delivery for device, time_us, *_ in snapshot.entries}
    if published:
        _add_events(batch, plant, delivery, f"{message_id} {snapshot.path}", snapshot.time_us, published)


def _limit(plant: CachedPlant, device: CachedDevice) -> str:
    """Return which limit left no room for names of the device."""
    if device.reader.is_crowded:
        return f"{MAX_ORGANIZATION_NAMES:,} names of the organisation were used within an hour"
    return f"{f'{MAX_NAMES:,} names' if plant.has_room else f'{MAX_PLANT_NAMES:,} names of the plant'} were used within 30 days"


def _record_device(batch: Batch, plant: CachedPlant, device: CachedDevice, status: SubDeviceStatus) -> None:
    """Write the device's presence with the batch if it is due. If the batch fails, the worker clears the cache."""
    presence = device.presence
    plant.noted[device.id] = device
    if status is not device.status or presence.is_due(batch.now_ms):
        device.status = status
        presence.written_at = batch.now_ms
        batch.plants_held.add(plant.id)
        batch.devices_seen[device.id] = DeviceSeen(device.id, batch.now, status, presence.interval_seconds)


def _add_events(
    batch: Batch, plant: CachedPlant, delivery: Delivery, snapshot_id: str, time_us: int, published: EventValues
) -> None:
    values = {(external_id, to_datetime(own_time)): found for (external_id, own_time), found in published.items()}
    events = telemetry_events(batch.subscribed[plant.id], plant.id, snapshot_id, to_datetime(time_us), values)
    batch.events.extend(event._replace(request_id=delivery.request_id) for event in events)
