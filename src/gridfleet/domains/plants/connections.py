"""Closing a plant's connections at the broker, queued with the change that ends its right to be there.

The broker asks about every login, so nobody comes back; what is open is closed after the commit. A login that was answered
a moment before it may still become a connection a moment after it, so the broker is asked again until none can be left.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.kernel.db import Connection
from gridfleet.kernel.outbox import enqueue

__all__ = ["CLOSE_CONNECTIONS", "certificate_name", "queue_closing", "queue_closing_of_certificate"]

CLOSE_CONNECTIONS: Final = "plants.close_connections"
"""The kind of effect; its payload is {names: broker user names}."""

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


async def queue_closing_of_certificate(
    db: Connection, plant_id: UUID, serial_number: str, delay: timedelta = timedelta(0)
) -> None:
    """Closes what is connected with one certificate of the plant, `delay` after the commit."""
    for racing in _RACING_LOGINS:
        await enqueue(db, CLOSE_CONNECTIONS, {"names": [certificate_name(plant_id, serial_number)]}, delay=delay + racing)
