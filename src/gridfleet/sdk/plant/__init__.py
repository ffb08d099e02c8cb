"""The client library for a plant's software: load a provisioning package, send signed telemetry, execute signed commands.

    package = Package.load("plant.json")
    async with PlantClient(package, queue_path="queue.db", on_command=execute) as client:
        await client.send(Snapshot(time=datetime.now(UTC), devices=[DeviceEntry("PV1", {"active_power": 4.2})]))

Snapshots are stored on disk first and deleted when the broker has confirmed them. Neither a lost connection nor the death of
the process loses a snapshot. Delivery is at least once. A duplicate has no effect because the service merges snapshots by
source and time. The only package of the service that it imports is `gridfleet.protocol`.
"""

from gridfleet.protocol.envelope import Command, DeviceEntry, DeviceStatus, Snapshot
from gridfleet.sdk.plant.client import PlantClient
from gridfleet.sdk.plant.errors import (
    CommandRefusal,
    CommandRefused,
    CommandRejected,
    ConnectFailed,
    NotAuthorized,
    PackageError,
    PlantClientError,
    QueueError,
    QueueOverflow,
    SnapshotRefused,
    TokenRefused,
    TokenUnavailable,
)
from gridfleet.sdk.plant.options import Counters, Options
from gridfleet.sdk.plant.package import AuthMethod, Package
from gridfleet.sdk.plant.token import SignedTokens

__all__ = [
    "AuthMethod",
    "Command",
    "CommandRefusal",
    "CommandRefused",
    "CommandRejected",
    "ConnectFailed",
    "Counters",
    "DeviceEntry",
    "DeviceStatus",
    "NotAuthorized",
    "Options",
    "Package",
    "PackageError",
    "PlantClient",
    "PlantClientError",
    "QueueError",
    "QueueOverflow",
    "SignedTokens",
    "Snapshot",
    "SnapshotRefused",
    "TokenRefused",
    "TokenUnavailable",
]
