"""Closing a plant's connections at the broker, queued with the change that ends its right to be there.

The broker asks about every login, so nobody comes back; what is open is closed after the commit. A login that was answered
a moment before it may still become a connection a moment after it, so the broker is asked again until none can be left.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.commands.delivery import CLAIM_SECONDS, START_SECONDS
from gridfleet.kernel.db import Connection
from gridfleet.kernel.outbox import enqueue

__all__ = [
    "CLOSE_CONNECTIONS",
    "PURGE_SESSIONS",
    "certificate_name",
    "queue_closing",
    "queue_closing_of_certificate",
    "queue_purge",
]

CLOSE_CONNECTIONS: Final = "plants.close_connections"
"""The kind of effect; its payload is {names: broker user names}."""

PURGE_SESSIONS: Final = "plants.purge_sessions"
"""The kind of effect; its payload is {pattern: a regular expression of the plant's session queues}."""

_RACING_PUBLISHERS: Final = (timedelta(0), timedelta(seconds=START_SECONDS + CLAIM_SECONDS))
_RACING_LOGINS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 0.5, 1.5, 10))


def certificate_name(plant_id: UUID, serial_number: str) -> str:
    """The broker user name of a client with a certificate: its subject, as the broker writes it."""
    return f"SERIALNUMBER={serial_number},CN={plant_id}"


async def queue_closing(db: Connection, plant_id: UUID, serial_numbers: Iterable[str]) -> None:
    """Closes every connection of the plant, by whatever method, after the commit.

    `serial_numbers`: those of its certificates that may still be connected.
    """
    names = [str(plant_id), *(certificate_name(plant_id, serial) for serial in serial_numbers)]
    for delay in _RACING_LOGINS:
        await enqueue(db, CLOSE_CONNECTIONS, {"names": names}, delay=delay)


async def queue_purge(db: Connection, plant_id: UUID) -> None:
    """Delete the commands that the broker keeps for the plant while it is away, after the commit.

    They are deleted a second time when no gateway can be publishing a command any more that it had claimed before. A newer
    command that is deleted with them is sent again, as any that the plant does not acknowledge.
    """
    for delay in _RACING_PUBLISHERS:
        await enqueue(db, PURGE_SESSIONS, {"pattern": f"^mqtt-subscription-{plant_id}(-.*)?qos1$"}, delay=delay)


async def queue_closing_of_certificate(
    db: Connection, plant_id: UUID, serial_number: str, delay: timedelta = timedelta(0)
) -> None:
    """Closes what is connected with one certificate of the plant, `delay` after the commit."""
    for racing in _RACING_LOGINS:
        await enqueue(db, CLOSE_CONNECTIONS, {"names": [certificate_name(plant_id, serial_number)]}, delay=delay + racing)
