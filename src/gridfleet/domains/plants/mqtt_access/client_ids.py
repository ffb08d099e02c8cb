"""The client ids with which PASSWORD plants connect, counted by each process in its memory.

The broker keeps a session for each client id, with a queue of that name, for a day after its connection. With
`mqtt.durable_queue_type = quorum` the name becomes an Erlang atom, which a node never frees and of which it has five million.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final
from uuid import UUID

__all__ = ["MOST_BYTES", "MOST_SUFFIXES", "ClientIds"]

MOST_SUFFIXES: Final = 20
"""Maximum number of different client ids of a plant per hour and process, apart from its own id."""

MOST_BYTES: Final = 128
_HOUR_SECONDS: Final = 3_600


class ClientIds:
    """The client ids of the current hour."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._hour = 0
        self._known: defaultdict[UUID, set[str]] = defaultdict(set)

    def admit(self, plant_id: UUID, client_id: str) -> bool:
        """Return whether the plant may connect with this client id, and count it if it is new."""
        hour = int(self._clock() // _HOUR_SECONDS)
        if hour != self._hour:
            self._hour = hour
            self._known.clear()
        if client_id == str(plant_id):
            return True
        if len(client_id.encode()) > MOST_BYTES:
            return False
        known = self._known[plant_id]
        if len(known) < MOST_SUFFIXES:
            known.add(client_id)
        return client_id in known
