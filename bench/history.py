"""Roll-ups: their cost for the ingest, their duration and their query times; and the memory use of a large export.

Run with `python -m bench.history`. Writes the result `history`.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import httpx
import psutil
import uvloop

from bench.client import percentile
from bench.fleet import SIGNALS, Fleet, register_fleet
from bench.measures import Measure, folder_of, options, report
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, Stack, running_stack
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.frames.models import FrameBatch, FrameLayout, microseconds
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache, Partitions, days_of, write_batch
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.db import Database, open_database
from gridfleet.protocol.envelope import format_time

_EXPORT_DEVICES: Final = 2
_FLEET_INTERVAL: Final = timedelta(minutes=15)
_BATCHES: Final = 12
_LOG: Final = (
    "INSERT INTO telemetry_dirty (source_id, hour) SELECT DISTINCT source_id, date_bin('1 hour', time, 'epoch')"
    " FROM frame_stage WHERE time < (SELECT telemetry_open_from())"
)
"""What `write_frames` does for the log, as a statement that is timed alone."""
_LOG_FROM: Final = (
    "INSERT INTO telemetry_dirty (source_id, hour) SELECT DISTINCT source_id, date_bin('1 hour', time, 'epoch')"
    " FROM telemetry_frame WHERE time >= %s AND time < telemetry_open_from()"
)
_CONNECTIONS: Final = 2
"""As many as the machine of the published results has cores."""


async def measure(plants: int, days: int, requests: int) -> dict[str, Measure]:
    """Return all measures; `requests` are sent of each query.

    Two devices of the first plant have data of `days` days, the others that of one day.
    """
    with running_stack() as stack:
        async with open_database(stack.database_url, name="bench", size=4) as database:
            fleet = await register_fleet(database, stack.keyring, plants)
            sources = [source_id for plant in fleet.plants for source_id in plant.source_ids]
            layout = await _layout(database)
            measures: dict[str, Measure] = {}
            for late in (0, 5, 100):
                batch, log = await _log_cost(database, layout, sources, late)
                measures[f"batch_with_{late}_percent_late"] = Measure(batch, "ns a point", None, "lower")
                measures[f"log_with_{late}_percent_late"] = Measure(log, "ns a point", None, "lower")
            await _roll_up(database)
            end = datetime.now(UTC).replace(microsecond=0)
            start = end - timedelta(days=days)
            measures |= await _fill(database, layout, sources, start, end)
            stack.start_api()
            measures |= await _reads(stack, database, fleet, start, end, requests)
            return measures | await _exports(stack, fleet, start, end)


async def _layout(database: Database) -> int:
    async with database.transaction() as db:
        return await LayoutIdCache().id_of(
            db, FrameLayout(tuple(Metric(f"signal_{number:02}", "kW") for number in range(SIGNALS)))
        )


async def _log_cost(database: Database, layout: int, sources: Sequence[int], late: int) -> tuple[float, float]:
    """Return nanoseconds per point of the batch and of its dirty log. `late` percent of the points are before the watermark."""
    now = datetime.now(UTC).replace(microsecond=0)
    whole = log = 0.0
    for number in range(_BATCHES):
        batch = FrameBatch()
        for place, source in enumerate(sources):
            is_late = place % 100 < late
            moment = now + timedelta(seconds=number) - (timedelta(hours=3) if is_late else timedelta())
            batch.add(source, layout, microseconds(moment), [place + signal / 8 for signal in range(SIGNALS)])
        await Partitions(database).ensure(days_of(batch))
        async with database.transaction() as db:
            began = time.perf_counter()
            await write_batch(db, batch)
            whole += time.perf_counter() - began
            began = time.perf_counter()
            await db.execute(_LOG)
            log += time.perf_counter() - began
    points = _BATCHES * len(sources) * SIGNALS
    return whole / points * 1e9, log / points * 1e9


async def _fill(database: Database, layout: int, sources: Sequence[int], start: datetime, end: datetime) -> dict[str, Measure]:
    """Write and roll up ten-second data of two devices from `start` to `end`, and the last whole day of the other devices."""
    today = end.replace(hour=0, minute=0, second=0)
    days = {start.date() + timedelta(days=number) for number in range((end - start).days + 1)}
    await Partitions(database).ensure(days | {(today - timedelta(days=1)).date()})
    async with database.transaction() as db:
        await db.execute("SET LOCAL statement_timeout = 0")
        for ids, since, until, step in (
            (sources[:_EXPORT_DEVICES], start, end, timedelta(seconds=10)),
            (sources[_EXPORT_DEVICES:], today - timedelta(days=1), today, _FLEET_INTERVAL),
        ):
            await db.execute(
                "INSERT INTO telemetry_frame (source_id, layout_id, time, vals) SELECT s, %s, t,"
                " (SELECT array_agg(round((1000 * random() + n)::numeric, 2)::float8) FROM generate_series(1, %s) n"
                " WHERE t > 'epoch')"
                " FROM unnest(%s::int[]) s, generate_series(%s::timestamptz, %s::timestamptz - interval '1 s', %s::interval) t"
                " ON CONFLICT DO NOTHING",
                (layout, SIGNALS, list(ids), since, until, step),
            )
        await db.execute(_LOG_FROM, (start,))
        # The frames of the open hour, which the benchmark of the log has left, are not rolled up.
        cursor = await db.execute(
            "SELECT count(*) FROM telemetry_frame WHERE time >= %s AND time < telemetry_open_from()", (start,)
        )
        row = await cursor.fetchone()
        frames = row[0] if row else 0
    async with database.autocommit() as db:
        await db.execute("SET statement_timeout = 0")
        await db.execute("ANALYZE telemetry_frame")
        await db.execute("RESET statement_timeout")
    seconds = await _roll_up(database)
    sizes = {level: await _size(database, level, frames) for level in ("minute", "quarter", "hour", "day")}
    # Both replace rows: the roll-up above inserted them.
    alone, parallel = [await _roll_up_again(database, today, connections) for connections in (1, _CONNECTIONS)]
    return {
        "roll_up_points_per_second": Measure(frames * SIGNALS / seconds, "points/s", None, "higher"),
        f"roll_up_on_{_CONNECTIONS}_connections": Measure(alone / parallel, "× one connection", None, "higher"),
        **{f"{level}_bytes_per_raw_point": Measure(size, "bytes", None, "lower") for level, size in sizes.items()},
    }


async def _size(database: Database, level: str, frames: int) -> float:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT sum(pg_total_relation_size(relid)) FROM"
            " (SELECT %(table)s::regclass AS relid UNION SELECT relid FROM pg_partition_tree(%(table)s::regclass)) AS parts",
            {"table": f"telemetry_{level}"},
        )
        row = await cursor.fetchone()
    return float(row[0] if row else 0) / (frames * SIGNALS)


async def _roll_up(database: Database, connections: int = 1) -> float:
    began = time.perf_counter()
    while await roll_up(database, seconds=600, connections=connections):
        pass
    return time.perf_counter() - began


async def _roll_up_again(database: Database, today: datetime, connections: int) -> float:
    """Return the seconds of a roll-up of yesterday."""
    async with database.transaction() as db:
        await db.execute(_LOG_FROM, (today - timedelta(days=1),))
    return await _roll_up(database, connections)


async def _times(
    name: str, ask: Callable[[], Awaitable[object]], requests: int, goal: float | None = None
) -> dict[str, Measure]:
    """Return median and 99th percentile of the requests. `goal` is that of the percentile, in milliseconds."""
    found = []
    for _ in range(requests):
        began = time.perf_counter()
        await ask()
        found.append((time.perf_counter() - began) * 1e3)
    p50, p99 = percentile(found, 0.5), percentile(found)
    return {f"{name}_p50": Measure(p50, "ms", None, "lower"), f"{name}_p99": Measure(p99, "ms", goal, "lower")}


async def _reads(
    stack: Stack, database: Database, fleet: Fleet, start: datetime, end: datetime, requests: int
) -> dict[str, Measure]:
    plant = fleet.plants[0]
    query = {"plantId": plant.id, "from": format_time(start), "to": format_time(end)}
    device = f"/api/v1/plants/{plant.id}/sub-devices/{plant.device_ids[0]}/telemetry"
    async with _client(stack, fleet) as client:

        async def quarters() -> None:
            answer = await client.get(
                "/api/v1/telemetry",
                params={**query, "bucket": "15 minutes", "metric": f"{plant.device_ids[0]}.signal_00"},
            )
            count = answer.content.count(b'"time"')
            if answer.status_code != 200 or count < (end - start) // timedelta(minutes=15):
                raise BenchFailed(f"quarters of a device: {answer.status_code}, {count} points")

        async def hours() -> None:
            span = {"from": query["from"], "to": query["to"], "metric": "signal_00"}
            if (await client.get(device, params=span)).status_code != 200:
                raise BenchFailed("hours of a sub-device were refused")

        day = {"plantId": plant.id, "from": format_time(end - timedelta(days=1)), "to": query["to"]}
        metrics = [f"{device_id}.signal_{number:02}" for device_id in plant.device_ids[:_EXPORT_DEVICES] for number in (0, 1)]

        async def columns(bucket: str, count: int) -> None:
            answer = await client.get("/api/v1/telemetry/columns", params={**day, "metrics": metrics, "bucket": bucket})
            buckets, nulls = answer.content.count(b'.000Z"'), answer.content.count(b"null")
            if answer.status_code != 200 or buckets < count or nulls > count:
                raise BenchFailed(f"columns of a day: {answer.status_code}, {buckets} buckets, {nulls} times null")

        yesterday = end.replace(hour=0, minute=0, second=0) - timedelta(days=1)

        async def fleet_day() -> None:
            async with database.transaction() as db:
                cursor = db.cursor(binary=True)
                await cursor.execute(
                    "SELECT d.source_id, d.sums[1] * 4294967296::float8, d.counts[1] FROM telemetry_source s"
                    " JOIN telemetry_day d ON d.source_id = s.id AND d.bucket = %s WHERE s.organization_id = %s",
                    (yesterday, fleet.organization_id),
                )
                if len(await cursor.fetchall()) < len(fleet.plants):
                    raise BenchFailed("the fleet's day is not there")

        return {
            **await _times("30_days_in_15_minutes", quarters, requests, goal=30.0),
            **await _times("sub_device_30_days_in_hours", hours, requests),
            **await _times("columns_of_a_day_4_metrics", partial(columns, "2 minutes", 720), requests, goal=40.0),
            **await _times("columns_of_a_day_4_metrics_in_10_seconds", partial(columns, "10 seconds", 8_640), requests),
            **await _times("fleet_day_sums_sql_alone", fleet_day, requests),
        }


async def _exports(stack: Stack, fleet: Fleet, start: datetime, end: datetime) -> dict[str, Measure]:
    """Export all data of a plant. Returns the rate, and the largest increase of the API's memory."""
    (api,) = [
        process
        for process in psutil.process_iter(["cmdline"])
        if process.info["cmdline"]
        and process.info["cmdline"][-2:] == ["gridfleet", "serve"]
        and process.environ().get("GRIDFLEET_HTTP_PORT") == str(stack.settings.http_port)
    ]
    query = {
        "plantId": fleet.plants[0].id,
        "from": format_time(start - timedelta(days=1)),
        "to": format_time(end),
    }
    found: dict[str, Measure] = {}
    async with _client(stack, fleet) as client:
        for name, media_type in (("csv", "text/csv"), ("ndjson", "application/x-ndjson")):
            before = peak = api.memory_info().rss
            began = time.perf_counter()
            lines = 0
            async with client.stream("GET", "/api/v1/telemetry", params=query, headers={"accept": media_type}) as answer:
                if answer.status_code != 200:
                    raise BenchFailed(f"export: {answer.status_code}")
                async for piece in answer.aiter_raw():
                    lines += piece.count(b"\n")
                    peak = max(peak, api.memory_info().rss)
            points = lines - (name == "csv")
            found |= {
                f"export_{name}_points_per_second": Measure(points / (time.perf_counter() - began), "points/s", None, "higher"),
                f"export_{name}_memory_growth": Measure((peak - before) / 2**20, "MiB", None, "lower"),
            }
    return found


def _client(stack: Stack, fleet: Fleet) -> httpx.AsyncClient:
    login = httpx.post(
        f"{stack.api_url}/api/v1/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD}, trust_env=False
    )
    token = login.raise_for_status().json()["access_token"]
    # Without compression, which takes time at both ends.
    headers = {"authorization": f"Bearer {token}", "x-org-id": str(fleet.organization_id), "accept-encoding": "identity"}
    return httpx.AsyncClient(base_url=stack.api_url, headers=headers, trust_env=False, timeout=300)


def main() -> None:
    """Measure, print and write the result `history`."""
    parser = options("history", __doc__)
    parser.add_argument("--plants", type=int, help="with six sub-devices each: 1,000; if quick 100")
    parser.add_argument("--days", type=int, default=30, help="of data of two devices: 30, for which the names of measures hold")
    parser.add_argument("--requests", type=int, default=200, help="of each query: 200")
    chosen = parser.parse_args()
    measures = uvloop.run(measure(chosen.plants or (100 if chosen.quick else 1_000), chosen.days, chosen.requests))
    report("history", measures, folder_of(chosen))


if __name__ == "__main__":
    main()
