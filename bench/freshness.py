"""Latency from a plant's publish to a reader's query, at a steady message rate."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench.load import Sent
from bench.publisher import Publishing
from bench.stack import BenchFailed
from gridfleet.kernel.db import Database

__all__ = ["Freshness", "Probe", "measure_freshness"]

_TICK_SECONDS: Final = 0.005
_PROBES_PER_SECOND: Final = 50
_POLL_SECONDS: Final = 0.004
_LAST_SECONDS: Final = 30
_WARM_UP: Final = 0.1
"""The share of messages at the start that is not counted, while the rate increases."""


class Probe(NamedTuple):
    """A message whose rows were queried.

    `due` is when the rate required it, `published` when it was passed to its connection, `found` when a query returned its
    rows, in seconds of `time.perf_counter`.
    """

    body: bytes
    due: float
    published: float
    found: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """Sorted latencies of all probes in seconds, the actual message rate, and the probes."""

    seconds: Sequence[float]
    points_per_second: float
    probes: Sequence[Probe] = ()

    def percentile(self, share: float) -> float:
        """Return the latency that this share of the probes does not exceed."""
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


async def measure_freshness(
    database: Database, publishers: Publishing, messages: Sequence[Sent], messages_per_second: float, points_per_message: int
) -> Freshness:
    """Publish at the given rate and query for the rows of every n-th message until they are found.

    Queries run every few milliseconds. The figure includes this interval.
    """
    every = max(1, round(messages_per_second / _PROBES_PER_SECOND))
    pending: dict[tuple[int, int], Probe] = {}
    found: list[Probe] = []
    sending = True

    async def look() -> None:
        while sending or pending:
            await asyncio.sleep(_POLL_SECONDS)
            if pending:
                asked = list(pending)
                async with database.autocommit() as db:
                    cursor = await db.execute(
                        "SELECT f.source_id, extract(epoch FROM f.time)::bigint"
                        " FROM unnest(%s::int[], %s::bigint[]) AS p (s, t) JOIN telemetry_frame f"
                        " ON f.source_id = p.s AND f.time = to_timestamp(p.t)",
                        ([source for source, _ in asked], [at for _, at in asked]),
                    )
                    rows = await cursor.fetchall()
                now = time.perf_counter()
                found.extend(pending.pop((source, at))._replace(found=now) for source, at in rows if (source, at) in pending)

    looking = asyncio.create_task(look())
    began = time.perf_counter()
    number = 0
    while number < len(messages):
        due = min(len(messages), int((time.perf_counter() - began) * messages_per_second) + 1)
        for message in messages[number:due]:
            if number % every == 0 and message.frame is not None and number > _WARM_UP * len(messages):
                now = time.perf_counter()
                due_at = began + number / messages_per_second
                pending[message.frame.source_id, message.frame.time] = Probe(message.body, due_at, now, now)
            publishers.send(message)
            number += 1
        await asyncio.sleep(_TICK_SECONDS)
    took = time.perf_counter() - began
    sending = False
    try:
        await asyncio.wait_for(looking, _LAST_SECONDS)
    except TimeoutError:
        raise BenchFailed(f"{len(pending)} of {len(found) + len(pending)} probes were never found") from None
    seconds = sorted(probe.found - probe.published for probe in found)
    return Freshness(seconds, len(messages) * points_per_message / took, found)
