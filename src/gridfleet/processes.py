"""The supervised tasks of each process.

Every task runs without end. A task that fails or returns is restarted with backoff; the others continue. SIGTERM stops a
process in order. Killing it loses no data.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from gridfleet.kernel.logging import configure_logging
from gridfleet.kernel.outages import MissingSetting, trouble_outside
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.tasks import run_until_stopped
from gridfleet.kernel.tracing import TracingNotInstalled, configure_tracing

if TYPE_CHECKING:
    from gridfleet.api.state import AppState
    from gridfleet.kernel.db import Database

__all__ = ["run_gateway", "run_ingest", "run_jobs", "run_serve"]

log = structlog.get_logger(__name__)

_END_SECONDS = 9.0
"""Limit for shutdown. A hung database would delay the end of running requests and then that of each connection pool."""


def run_serve(settings: Settings, *, shared_ports: bool = False) -> None:
    """Run the REST API and the internal listener that answers the broker's authorisation requests.

    Args:
        settings: The settings of the process.
        shared_ports: Whether this is one of several processes on the same ports.
    """
    _run(settings, "serve", _serve(settings, shared_ports))


def run_ingest(settings: Settings) -> None:
    """Store plants' messages from their queues in the database."""
    _run(settings, "ingest", _ingest(settings))


def run_gateway(settings: Settings) -> None:
    """Run broker maintenance, effects that go through the broker, and partners' commands and events."""
    _run(settings, "gateway", _gateway(settings))


def run_jobs(settings: Settings) -> None:
    """Run queued and periodic jobs."""
    _run(settings, "jobs", _jobs(settings))


async def _serve(settings: Settings, shared_ports: bool) -> None:
    from gridfleet.api.serving import serve
    from gridfleet.api.state import open_state
    from gridfleet.kernel.db import refuse_pooler

    if settings.database_read_url is not None:
        await refuse_pooler(settings.secret("database_read_url").get_secret_value(), "GRIDFLEET_DATABASE_READ_URL")
    # A large response creates tens of thousands of objects for a moment. With the default threshold, every fiftieth large
    # response triggered a full collection over all imported objects. It blocked all requests for a tenth of a second.
    _collect_rarely()
    async with open_state(settings) as state:
        databases = {"main": state.database, "reserved": state.reserved}
        replica = state.history_reads.replica
        if replica is not None:
            databases["replica"] = replica.database
        await run_until_stopped(
            {
                "http": partial(serve, state, shared_ports=shared_ports),
                "access": partial(state.access.keep_listening, state.database),
                "idle connections": state.database.keep_reading,
                "idle reserved connections": state.reserved.keep_reading,
                **({"replica": replica.keep_measuring} if replica is not None else {}),
                **_metrics(settings, "serve", databases, listen=shared_ports),
            },
            end_seconds=_END_SECONDS,
            before_stop=partial(_drain, state),
        )


async def _drain(state: "AppState") -> None:
    """Take requests until a load balancer has seen that this process stops.

    The system resets connections that it has accepted for a listener which closes. A load balancer repeats no POST for that.
    """
    state.stopping.set()
    if seconds := state.settings.http_drain_seconds:
        log.info("stopping; requests are taken for a few seconds more", seconds=seconds)
        await asyncio.sleep(seconds)


async def _ingest(settings: Settings) -> None:
    from gridfleet.kernel.security.keyring import Keyring
    from gridfleet.mqtt.worker import IngestWorker

    # A batch keeps tens of thousands of containers alive for a moment. With the default threshold, the collector traversed them
    # repeatedly, which took a tenth of the process's time.
    _collect_rarely()
    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    async with _database(settings, "gridfleet-ingest", 4) as database:
        worker = IngestWorker(settings, database, keyring)
        await run_until_stopped(
            {"ingest": worker.run, "powers": worker.refresh_powers, **_metrics(settings, "ingest", {"main": database})}
        )


async def _gateway(settings: Settings) -> None:
    from gridfleet.amqp.effects import carry_out_effects
    from gridfleet.amqp.legacy_vhost import keep_legacy_vhost
    from gridfleet.amqp.partner_gateway import PartnerGateway
    from gridfleet.amqp.partner_queues import remove_forbidden_queues
    from gridfleet.amqp.partner_vhosts import keep_partner_vhosts
    from gridfleet.amqp.plant_channels import disconnect_broken_plants
    from gridfleet.amqp.plant_commands import expire_commands, send_commands
    from gridfleet.amqp.site_scheduler import CATCH_UP_SECONDS, run_schedules
    from gridfleet.amqp.upkeep import keep_broker
    from gridfleet.kernel.security.keyring import Keyring

    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    async with _database(settings, "gridfleet-gateway", 16) as database:
        partners = PartnerGateway(settings, database, keyring)
        await run_until_stopped(
            {
                "broker upkeep": partial(keep_broker, settings),
                "effects": partial(carry_out_effects, settings, database),
                "partner vhosts": partial(keep_partner_vhosts, settings, database),
                "plant channels": partial(disconnect_broken_plants, settings),
                "legacy vhost": partial(keep_legacy_vhost, settings, database),
                "partner queues": partial(remove_forbidden_queues, settings, database),
                "plant commands": partial(send_commands, settings, database, keyring),
                "command expiry": partial(expire_commands, database),
                "partners": partners.run,
                "sites": partial(run_schedules, database, partial(partners.served_for, CATCH_UP_SECONDS)),
                **_metrics(settings, "gateway", {"main": database}),
            }
        )


async def _jobs(settings: Settings) -> None:
    from gridfleet.jobs.notifications import deliver_notifications
    from gridfleet.jobs.schedule import run_jobs

    async with _database(settings, "gridfleet-jobs", 5 + settings.roll_up_connections) as database:
        await run_until_stopped(
            {
                "jobs": partial(run_jobs, settings, database),
                "notifications": partial(deliver_notifications, settings, database),
                **_metrics(settings, "jobs", {"main": database}),
            }
        )


def _metrics(
    settings: Settings, process: str, databases: Mapping[str, "Database"], *, listen: bool = True
) -> Mapping[str, Callable[[], Awaitable[None]]]:
    from gridfleet.kernel.process_metrics import measure_process, serve_metrics

    listener = {"metrics listener": partial(serve_metrics, settings)} if listen and settings.metrics_port else {}
    return {"metrics": partial(measure_process, process, databases), **listener}


def _database(settings: Settings, name: str, size: int) -> "AbstractAsyncContextManager[Database]":
    from gridfleet.kernel.db import open_database

    return open_database(settings.secret("database_url").get_secret_value(), name=name, size=size)


def _run(settings: Settings, process: str, main: Coroutine[Any, Any, None]) -> None:
    import uvloop

    configure_logging(settings.log_level, json=settings.log_format == "json")
    try:
        configure_tracing(settings.otlp_endpoint, process)
        uvloop.run(_without_pooler(settings, main))
    except TracingNotInstalled as error:
        main.close()
        log.critical("cannot start", reason=str(error))
        raise SystemExit(1) from None
    except Exception as error:
        # Logged here because the command line would print a format that log collectors cannot parse.
        reason = trouble_outside(error)
        if reason is None:
            log.critical("process failed", exc_info=True)
        else:
            log.critical("cannot start", reason=reason)
        raise SystemExit(1) from None


async def _without_pooler(settings: Settings, main: Coroutine[Any, Any, None]) -> None:
    """Run a process unless its database URL leads to a pooler."""
    from gridfleet.kernel.db import BehindPooler, refuse_pooler

    # The process itself names what is not set.
    with suppress(MissingSetting):
        try:
            await refuse_pooler(settings.secret("database_url").get_secret_value())
        except BehindPooler:
            main.close()
            raise
    await main


def _collect_rarely() -> None:
    """Exclude the objects loaded so far from garbage collection and make collections rare."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 100)
