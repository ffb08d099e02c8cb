"""Which supervised tasks make up each process.

Every task is eternal: one that fails or returns is started again with backoff, the others go on. SIGTERM ends a process
in good order; nothing is lost when it is killed instead.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from gridfleet.kernel.logging import configure_logging
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.supervisor import run_until_stopped

__all__ = ["run_gateway", "run_ingest", "run_jobs", "run_serve"]

Tasks = dict[str, Callable[[], Awaitable[None]]]


def run_serve(settings: Settings) -> None:
    """REST API, console, and the internal listener that answers the broker's questions."""
    _run(settings, _serve(settings))


def run_ingest(settings: Settings) -> None:
    """Plants' messages from their queues to the database."""
    _run(settings, _ingest(settings))


def run_gateway(settings: Settings) -> None:
    """Partners' commands in, partners' events out."""
    _run(settings, _gateway(settings))


def run_jobs(settings: Settings) -> None:
    """Queued and periodic work."""
    _run(settings, _jobs(settings))


async def _serve(settings: Settings) -> None:
    from gridfleet.api._http.serving import serve
    from gridfleet.api._http.state import open_state

    async with open_state(settings) as state:
        await run_until_stopped({"http": partial(serve, state)})


async def _ingest(settings: Settings) -> None:
    tasks: Tasks = {}
    await run_until_stopped(tasks)


async def _gateway(settings: Settings) -> None:
    tasks: Tasks = {}
    await run_until_stopped(tasks)


async def _jobs(settings: Settings) -> None:
    tasks: Tasks = {}
    await run_until_stopped(tasks)


def _run(settings: Settings, main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    configure_logging(settings.log_level, json=settings.log_format == "json")
    uvloop.run(main)
