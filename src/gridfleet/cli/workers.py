"""`gridfleet serve --workers N`: several processes that share ports, and a supervisor that restarts them."""

import asyncio
import os
import signal
import sys

import structlog

from gridfleet.kernel.logging import configure_logging
from gridfleet.kernel.settings import Settings
from gridfleet.local.ports import check_ports
from gridfleet.local.processes import Program, Supervisor

__all__ = ["run_workers"]

_STOP_SECONDS = 15
_BAD_SETTING = 2

log = structlog.get_logger(__name__)


def run_workers(settings: Settings, count: int) -> int:
    """Run `count` worker processes until SIGTERM or SIGINT.

    The kernel assigns each connection to one of them. A worker that ends is restarted; the others continue.

    Returns:
        The exit code; 2 if a setting does not allow several workers.
    """
    problems = [str(problem) for problem in check_ports(settings, with_broker=False)]
    if settings.redis_url is None:
        problems.append(
            "GRIDFLEET_REDIS_URL: is required for more than one worker: they share rate limits and cached responses"
        )
    for problem in problems:
        print(problem, file=sys.stderr)  # noqa: T201
    if problems:
        return _BAD_SETTING
    configure_logging(settings.log_level, json=settings.log_format == "json")
    asyncio.run(_run(settings, count))
    return 0


async def _run(settings: Settings, count: int) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for asked in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(asked, stopping.set)
    supervisor = Supervisor(lambda name, line: log.warning(line, of=name))
    argv = (sys.executable, "-m", "gridfleet", "serve", "--shared-ports")
    try:
        for number in range(1, count + 1):
            # Their common port reaches any of them, so each serves its metrics on a port of its own.
            environment = {
                **os.environ,
                "GRIDFLEET_METRICS_PORT": str(settings.metrics_port and settings.metrics_port + number - 1),
            }
            seconds = _STOP_SECONDS + settings.http_drain_seconds
            program = Program(f"serve-{number}", argv, environment, own_output=True, stop_seconds=seconds)
            await supervisor.start(program)
        log.info("workers are running", pids=list(supervisor.pids.values()))
        await stopping.wait()
    finally:
        await supervisor.stop()
        log.info("workers have stopped")
