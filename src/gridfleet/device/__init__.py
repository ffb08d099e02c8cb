"""The client for a plant's software: provisioning package in, signed telemetry out, signed commands obeyed.

    package = Package.load("plant.json")
    async with Device(package, queue_path="queue.db", on_command=obey) as device:
        await device.send(Snapshot(time=datetime.now(UTC), devices=[DeviceEntry("PV1", {"active_power": 4.2})]))

Snapshots are stored on disk first and leave it when the broker has confirmed them, so neither a lost connection nor the
death of the process loses one. Delivery is at least once: a snapshot may arrive twice, which changes nothing, because
the service merges by source and time. Imports nothing of the service but `gridfleet.protocol`.
"""

from gridfleet.device.client import Counters, Device, Options
from gridfleet.device.errors import (
    CommandRefusal,
    CommandRefused,
    CommandRejected,
    ConnectFailed,
    DeviceError,
    NotAuthorized,
    PackageError,
    QueueError,
    QueueOverflow,
    SnapshotRefused,
    TokenUnavailable,
)
from gridfleet.device.package import AuthMethod, Package
from gridfleet.protocol.envelope import Command, DeviceEntry, DeviceStatus, Snapshot

__all__ = [
    "AuthMethod",
    "Command",
    "CommandRefusal",
    "CommandRefused",
    "CommandRejected",
    "ConnectFailed",
    "Counters",
    "Device",
    "DeviceEntry",
    "DeviceError",
    "DeviceStatus",
    "NotAuthorized",
    "Options",
    "Package",
    "PackageError",
    "QueueError",
    "QueueOverflow",
    "Snapshot",
    "SnapshotRefused",
    "TokenUnavailable",
]
