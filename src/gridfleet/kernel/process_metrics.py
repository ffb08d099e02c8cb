"""Metrics of the process itself, and the listener from which Prometheus reads a process without HTTP API."""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import psutil
from prometheus_client import start_http_server

from gridfleet.kernel import metrics
from gridfleet.kernel.db import Database
from gridfleet.kernel.settings import Settings

__all__ = ["measure_process", "serve_metrics"]

_LAG_SECONDS: Final = 0.5


async def measure_process(process: str, databases: Mapping[str, Database]) -> None:
    """Measure this process until cancelled. `process` is its kind, `databases` its pools by name."""
    itself = psutil.Process()
    metrics.PROCESSES.labels(process).set(1)
    metrics.PROCESS_MEMORY_BYTES.labels(process).set_function(lambda: itself.memory_info().rss)
    metrics.PROCESS_FILES.labels(process).set_function(itself.num_fds)
    for name, database in databases.items():
        for state in ("idle", "used"):
            metrics.DATABASE_CONNECTIONS.labels(process, name, state).set_function(partial(_connections, database, state))
        metrics.DATABASE_WAITING.labels(process, name).set_function(partial(_statistic, database, "requests_waiting"))
    loop = asyncio.get_running_loop()
    lag = metrics.EVENT_LOOP_LAG_SECONDS.labels(process)
    cpu, spent = metrics.PROCESS_CPU_SECONDS.labels(process), 0.0
    while True:
        now = time.process_time()
        cpu.inc(now - spent)
        spent = now
        wanted = loop.time() + _LAG_SECONDS
        await asyncio.sleep(_LAG_SECONDS)
        lag.observe(max(0.0, loop.time() - wanted))


async def serve_metrics(settings: Settings) -> None:
    """Serve `GET /metrics` on the `metrics_port` until cancelled. Raises OSError if the port is taken."""
    server, _ = start_http_server(settings.metrics_port, settings.internal_host)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


def _connections(database: Database, state: str) -> int:
    idle = _statistic(database, "pool_available")
    return idle if state == "idle" else _statistic(database, "pool_size") - idle


def _statistic(database: Database, name: str) -> int:
    return int(database.statistics().get(name, 0))
