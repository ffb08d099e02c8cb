"""Effects on other systems (close a connection, send a command) that follow a database change.

Queue an effect in the transaction of the change:

    await enqueue(db, "plants.close_connections", {"organizationId": str(plant.organization_id), "names": names})

A rollback removes it. Register the handler in the gateway process (`amqp/effects.py`):

    outbox.register("plants.close_connections", close_connections)

    async def close_connections(db: Connection, payload: dict[str, Any]) -> None: ...

The handler runs after the commit, usually within milliseconds. It may run more than once: if a process is killed between the
effect and its deletion, the effect is repeated. What the handler writes through `db` commits together with the deletion. If it
raises, or takes longer than half a minute, its writes are rolled back and it is retried: after a quarter of a second, then
after twice the previous delay, up to half a minute. An effect is set aside after five failures that no outage has caused, or if
outages make it fail for a day. Effects run concurrently, in any order. Several processes may execute effects.

Organisations take turns: the payload names the organisation of the effect as `organizationId`. After an effect of one
organisation, a worker carries out the oldest of the next one that has any. Effects without it share one turn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

import structlog

from gridfleet.kernel import metrics
from gridfleet.kernel.cause import at_work, current_cause
from gridfleet.kernel.db import Connection, Database, set_aside
from gridfleet.kernel.db import outbox as queue
from gridfleet.kernel.db.notifications import listen
from gridfleet.kernel.due_work import repeat_when_due
from gridfleet.kernel.isolation import is_poison, note_set_aside, reason_of

__all__ = ["CONSUMER", "CarryOut", "Outbox", "correct_due", "enqueue"]

CarryOut = Callable[[Connection, dict[str, Any]], Awaitable[None]]
"""Handler that executes an effect; see the module."""

CONSUMER: Final = "effects"
"""The outbox among the consumers that set items aside."""

_FIRST_WAIT: Final = timedelta(milliseconds=250)
_LONGEST_WAIT: Final = timedelta(seconds=30)
_LONGEST_DELAY: Final = timedelta(hours=1)
"""That of the closing of connections with a replaced certificate or secret."""
_MARGIN: Final = timedelta(minutes=1)
"""How much later effects may be due, as they are queued some seconds after their time was computed."""
_CARRY_OUT_SECONDS: Final = 30.0
_MOST_TRIES: Final = 5
"""For an effect that fails without an outage."""
_MOST_TRIES_IN_AN_OUTAGE: Final = 2_880
"""As many as in a day. The age does not count: if the service was stopped, an effect may be older at its first try."""

log = structlog.get_logger(__name__)


async def enqueue(db: Connection, kind: str, payload: dict[str, Any], *, delay: timedelta = timedelta(0)) -> None:
    """Queue an effect in the transaction of `db`. It is executed at the earliest `delay` after the commit.

    `payload` is JSON and stored until the effect is done. It must not contain secrets.
    """
    await queue.insert(db, kind, payload, delay, current_cause())


async def correct_due(db: Connection) -> int:
    """Make effects due whose due time a clock that was ahead has written. Returns how many.

    They are due later than any delay of an effect.
    """
    return await queue.correct_due(db, _LONGEST_DELAY + _MARGIN, _LONGEST_WAIT + _MARGIN)


class Outbox:
    """Executes queued effects of the registered kinds. Effects of other kinds stay queued."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kinds: dict[str, CarryOut] = {}
        self._wake: dict[str, list[asyncio.Event]] = {}
        self._served: dict[str, str] = {}
        """The organisation of the last effect of each kind."""

    def register(self, kind: str, carry_out: CarryOut, *, workers: int = 2) -> None:
        """Register the handler of a kind, with up to `workers` concurrent executions.

        Each execution uses a connection of the pool while it runs.

        Raises:
            ValueError: The kind has a handler already.
        """
        if kind in self._kinds:
            raise ValueError(f"effects of kind {kind} have a handler already")
        self._kinds[kind] = carry_out
        self._wake[kind] = [asyncio.Event() for _ in range(workers)]

    async def run(self) -> None:
        """Execute effects until cancelled. Raises when the database connection is lost."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(listen(self._database.url, [queue.CHANNEL], self._wake_all, self._wake_kind))
            for kind, wakes in self._wake.items():
                for wake in wakes:
                    # Each worker waits for itself, so a slow effect does not block the others.
                    next_due = partial(queue.next_due, kind=kind)
                    tasks.create_task(repeat_when_due(self._database, wake, partial(self._carry_out_due, kind), next_due))

    def _wake_kind(self, channel: str, kind: str) -> None:
        for wake in self._wake.get(kind, ()):
            wake.set()

    def _wake_all(self) -> None:
        for kind in self._wake:
            self._wake_kind(queue.CHANNEL, kind)

    async def _carry_out_due(self, kind: str) -> None:
        while await self._carry_out_one(kind):
            pass

    async def _carry_out_one(self, kind: str) -> bool:
        async with self._database.transaction() as db:
            effect = await queue.claim(db, kind, self._served.get(kind, ""))
            if effect is None:
                return False
            self._served[kind] = effect.organization
            with at_work(f"effect {kind}", effect.cause, effect_id=effect.id):
                await self._try(db, effect)
            return True

    async def _try(self, db: Connection, effect: queue.Effect) -> None:
        try:
            async with asyncio.timeout(_CARRY_OUT_SECONDS), db.transaction():
                await self._kinds[effect.kind](db, effect.payload)
        except Exception as error:
            await self._failed(db, effect, error)
        else:
            await queue.delete_done(db, effect.id)
            metrics.OUTBOX_EFFECTS.labels(effect.kind, "done").inc()
            log.info("effect carried out", kind=effect.kind)

    async def _failed(self, db: Connection, effect: queue.Effect, error: Exception) -> None:
        given_up = effect.attempts + 1 >= (_MOST_TRIES if is_poison(error) else _MOST_TRIES_IN_AN_OUTAGE)
        log.warning(
            "effect given up" if given_up else "effect failed, retrying",
            kind=effect.kind,
            attempts=effect.attempts + 1,
            error=f"{type(error).__name__}: {error}",
        )
        metrics.OUTBOX_EFFECTS.labels(effect.kind, "given_up" if given_up else "failed").inc()
        if given_up:
            note_set_aside(CONSUMER, error, kind=effect.kind, effect_id=effect.id)
            content = {"kind": effect.kind, "payload": effect.payload}
            await set_aside.insert(db, CONSUMER, reason_of(error), content, effect.cause)
            await queue.delete_done(db, effect.id)
        else:
            await queue.postpone(db, effect.id, min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(effect.attempts, 16)))
