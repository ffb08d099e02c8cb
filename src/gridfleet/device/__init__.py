"""The client library for a plant's software: load a provisioning package, send signed telemetry, execute signed commands.

    package = Package.load("plant.json")
    async with Device(package, queue_path="queue.db", on_command=obey) as device:
        await device.send(Snapshot(time=datetime.now(UTC), devices=[DeviceEntry("PV1", {"active_power": 4.2})]))

Snapshots are stored on disk first and deleted when the broker has confirmed them. Neither a lost connection nor the death of
the process loses a snapshot. Delivery is at least once. A duplicate has no effect because the service merges snapshots by
source and time. The only package of the service that it imports is `gridfleet.protocol`.
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
