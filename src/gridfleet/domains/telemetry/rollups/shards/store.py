"""SQL of the recomputation where Citus distributes frames, minutes and quarters. Hours and days are not distributed.

Citus computes and writes minutes and quarters on the shard of their sources. It does not plan a statement that writes several
tables on a shard, so each level has its own.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from gridfleet.domains.telemetry.rollups.models import LayoutHour, Level
from gridfleet.domains.telemetry.rollups.store import DECOMPRESSED, hours_parameters, minutes_of_frames, upsert, wider
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.shards import by_shard


async def recompute_hours(db: Connection, due: Sequence[LayoutHour], metrics: int) -> None:
    """Write minutes, quarters and hours from frames. Each of the layouts has `metrics` metrics.

    Starts of minutes and quarters are starts of hours, so an hour keeps all of them or none.
    """
    for part in by_shard(db, due, attrgetter("source_id")):
        for keeps_minutes in (True, False):
            for keeps_quarters in (True, False):
                some = [one for one in part.items if (one.keeps_minutes, one.keeps_quarters) == (keeps_minutes, keeps_quarters)]
                if some:
                    for statement in _statements(metrics, part.condition, keeps_minutes, keeps_quarters):
                        await db.execute(statement, hours_parameters(some), prepare=False)


def _statements(count: int, condition: str, keeps_minutes: bool, keeps_quarters: bool) -> Iterator[str]:
    minutes = minutes_of_frames(count, condition)
    if keeps_minutes:
        yield upsert(Level.MINUTE.table, f"({minutes}) AS m")
        minutes = _written(Level.MINUTE, condition)
    quarters = wider(count, "15 minutes", f"({minutes}) AS m")
    if keeps_quarters:
        yield upsert(Level.QUARTER.table, f"({quarters}) AS q")
        quarters = _written(Level.QUARTER, condition)
    yield upsert(Level.HOUR.table, f"({wider(count, '1 hour', f'({quarters}) AS q')}) AS h")


def _written(level: Level, condition: str) -> str:
    """Return the query of the level's buckets of these hours, which this transaction has written."""
    return (
        "SELECT b.* FROM unnest(%(sources)s::int[], %(layouts)s::int[], %(hours)s::timestamptz[])"
        f" AS w (source_id, layout_id, hour) CROSS JOIN LATERAL (SELECT source_id, layout_id, bucket, {DECOMPRESSED}"
        f" FROM {level.table} WHERE source_id = w.source_id AND bucket >= w.hour AND bucket < w.hour + interval '1 hour'"
        " AND layout_id = w.layout_id AND bucket >= %(start)s::timestamptz AND bucket < %(end)s::timestamptz"
        f"{condition} OFFSET 0) AS b"
    )
