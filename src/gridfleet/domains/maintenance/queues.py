"""Lengths and ages of the database's queues, for the metrics."""

from typing import NamedTuple

from gridfleet.domains.maintenance import store
from gridfleet.kernel.db import Connection

__all__ = ["Waiting", "waiting", "waiting_commands"]


class Waiting(NamedTuple):
    """State of a queue: number of due rows, at most 10,000, and how many seconds the oldest has been due."""

    queue: str
    length: int
    oldest_seconds: float


async def waiting(db: Connection) -> list[Waiting]:
    """Return the state of every queue but those of commands and of partner events."""
    return [Waiting(*row) for row in await store.waiting(db)]


async def waiting_commands(db: Connection) -> Waiting:
    """Return the state of the queue of commands: of those that a sender may claim."""
    return Waiting("commands", *await store.waiting_commands(db))
