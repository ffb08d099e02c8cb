"""Metrics of each process: measure the process's resources and write its metrics to a file."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil
import structlog

from gridfleet.kernel import metrics
from gridfleet.kernel.db import Database
from gridfleet.kernel.metrics_sharing import SharedMetrics, as_text
from gridfleet.kernel.settings import Settings

__all__ = ["CONTENT_TYPE", "MetricsReport", "metrics_folder"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_WRITE_SECONDS: Final = 5.0
_LAG_SECONDS: Final = 0.5
_REQUEST_SECONDS: Final = 10.0

log = structlog.get_logger(__name__)


def metrics_folder(settings: Settings) -> Path:
    """Return the folder in which the processes of a home folder share their metrics."""
    return settings.home / "metrics"


class MetricsReport:
    """Metrics of one process. `process` is its kind, `databases` its pools by name."""

    def __init__(
        self, settings: Settings, process: str, databases: Mapping[str, Database], shared: SharedMetrics | None = None
    ) -> None:
        self._settings = settings
        self._process = process
        self._databases = databases
        self._shared = shared or SharedMetrics(metrics_folder(settings))
        self._itself = psutil.Process()
        self._cpu_seconds = 0.0

    async def run(self) -> None:
        """Write the metrics every few seconds until cancelled."""
        metrics.PROCESSES.labels(self._process).set(1)
        self._shared.join(self._process)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_loop())
                while True:
                    self.look()
                    self._shared.write()
                    await asyncio.sleep(_WRITE_SECONDS)
        finally:
            self.look()
            self._shared.write()

    def look(self) -> None:
        """Update the metrics of the process's resources."""
        with self._itself.oneshot():
            metrics.PROCESS_MEMORY_BYTES.labels(self._process).set(self._itself.memory_info().rss)
            times = self._itself.cpu_times()
            spent = times.user + times.system
        metrics.PROCESS_CPU_SECONDS.labels(self._process).inc(max(0.0, spent - self._cpu_seconds))
        self._cpu_seconds = spent
        metrics.PROCESS_FILES.labels(self._process).set(self._itself.num_fds())
        for name, database in self._databases.items():
            counts = database.statistics()
            size, idle = counts.get("pool_size", 0), counts.get("pool_available", 0)
            metrics.DATABASE_CONNECTIONS.labels(self._process, name, "idle").set(idle)
            metrics.DATABASE_CONNECTIONS.labels(self._process, name, "used").set(size - idle)
            metrics.DATABASE_WAITING.labels(self._process, name).set(counts.get("requests_waiting", 0))

    async def serve(self) -> None:
        """Serve `GET /metrics` on the `metrics_port`, which the processes of a machine share, until cancelled."""
        settings = self._settings
        server = await asyncio.start_server(self._answer, settings.internal_host, settings.metrics_port, reuse_port=True)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith((b"GET /metrics ", b"GET /metrics?")):
                    status, body = b"200 OK", as_text(await asyncio.to_thread(self._shared.read))
                else:
                    status, body = b"404 Not Found", b"not found"
                writer.write(
                    b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                    % (status, CONTENT_TYPE.encode(), len(body), body)
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a caller of the metrics left", error=type(error).__name__)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _watch_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wanted = loop.time() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            metrics.EVENT_LOOP_LAG_SECONDS.observe(max(0.0, loop.time() - wanted), self._process)
