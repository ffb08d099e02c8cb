"""Close a plant's connections at the broker, queued in the transaction that ends the plant's right to connect.

The broker queries the service at every login, so a plant without that right cannot connect again; its open connections are
closed after the commit. A login that was allowed just before the commit can still become a connection just after it, so the
request to close is repeated until no such connection can be left.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from gridfleet.domains.plants.commands.delivery import CLAIM_SECONDS, START_SECONDS
from gridfleet.domains.plants.models import AuthMethod, Plant
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
"""The kind of effect; its payload is {organizationId, names: broker user names}."""

PURGE_SESSIONS: Final = "plants.purge_sessions"
"""The kind of effect; its payload is {organizationId, pattern: a regular expression of the plant's session queues, names: these
queues, if they are known}. The former release reads only the pattern.
"""

_RACING_PUBLISHERS: Final = (timedelta(0), timedelta(seconds=START_SECONDS + CLAIM_SECONDS))
_RACING_LOGINS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 0.5, 1.5, 10))


def certificate_name(plant_id: UUID, serial_number: str) -> str:
    """Return the broker user name of a client with a certificate: the certificate's subject, as the broker writes it."""
    return f"SERIALNUMBER={serial_number},CN={plant_id}"


async def queue_closing(
    db: Connection, organization_id: UUID, plant_id: UUID, serial_numbers: Iterable[str], delay: timedelta = timedelta(0)
) -> None:
    """Queue the closing of every connection of the organisation's plant, by any method, `delay` after the commit.

    Args:
        serial_numbers: Serial numbers of its certificates that may still be connected.
    """
    names = [str(plant_id), *(certificate_name(plant_id, serial) for serial in serial_numbers)]
    await _queue_closing(db, organization_id, names, delay)


async def queue_purge(db: Connection, plant: Plant) -> None:
    """Queue the deletion of the commands that the broker keeps for the plant while it is offline, after the commit.

    From RabbitMQ 3.12 on, it also keeps them for a subscription with QoS 0. They are deleted a second time when no gateway can
    still publish a command that it claimed earlier. A newer command that is deleted with them is sent again, like any command
    that the plant does not acknowledge.
    """
    session = f"mqtt-subscription-{plant.id}"
    payload: dict[str, Any] = {"organizationId": str(plant.organization_id), "pattern": f"^{session}"}
    if plant.auth_method is not AuthMethod.PASSWORD:  # the client id is fixed, and a search reads the queues of all plants
        payload["names"] = [f"{session}qos0", f"{session}qos1"]
    for delay in _RACING_PUBLISHERS:
        await enqueue(db, PURGE_SESSIONS, payload, delay=delay)


async def queue_closing_of_certificate(
    db: Connection, organization_id: UUID, plant_id: UUID, serial_number: str, delay: timedelta = timedelta(0)
) -> None:
    """Queue the closing of connections that use one certificate of the organisation's plant, `delay` after the commit."""
    await _queue_closing(db, organization_id, [certificate_name(plant_id, serial_number)], delay)


async def _queue_closing(db: Connection, organization_id: UUID, names: Sequence[str], delay: timedelta) -> None:
    payload = {"organizationId": str(organization_id), "names": names}
    for racing in _RACING_LOGINS:
        await enqueue(db, CLOSE_CONNECTIONS, payload, delay=delay + racing)
