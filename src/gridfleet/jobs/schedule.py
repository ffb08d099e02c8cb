"""The schedule of periodic jobs.

Times are UTC. If a job is still queued when it is due again, it runs once. A job that was due while no process ran, runs at the
next start. A job that may take longer than its period has a lock, so that it occupies one worker of its queue, and the others
remain for other jobs.
"""

import asyncio
import time
from datetime import timedelta
from typing import Final

from procrastinate import App, PsycopgConnector

from gridfleet.domains.alerts.moves import follow_moves
from gridfleet.domains.alerts.retention import delete_resolved
from gridfleet.domains.notifications import logs as notifications
from gridfleet.domains.partners import vhosts
from gridfleet.domains.plants.commands import clocks as commands
from gridfleet.domains.plants.credentials.packages import delete_old_packages, delete_previous_secrets
from gridfleet.domains.plants.lifecycle import ERASE_TELEMETRY
from gridfleet.domains.plants.presence.records import sweep_all_silent
from gridfleet.domains.plants.refused_messages.records import trim_refused_messages, trim_unregistered_devices
from gridfleet.domains.plants.registry import FOLLOW_MOVES
from gridfleet.domains.telemetry.frames.deletion import erase_deleted
from gridfleet.domains.vcp.confirmation.dispatch import complete_missed
from gridfleet.domains.vcp.retention import delete_commands
from gridfleet.domains.vcp.scheduler import correct_silence, reopen_early_steps
from gridfleet.jobs.accounts import LONGEST_RETRY, add_account_jobs
from gridfleet.jobs.middleware import job_middleware, start_at_zero
from gridfleet.jobs.telemetry import add_telemetry_jobs
from gridfleet.jobs.trading import add_trading_jobs
from gridfleet.kernel import outbox
from gridfleet.kernel.clock import days_before, utc_now
from gridfleet.kernel.db import Database, jobs, set_aside
from gridfleet.kernel.db.jobs import ACCOUNTS, QUEUES
from gridfleet.kernel.db.pool import LET_THE_SERVER_NOTICE, NOTICE_A_DEAD_MACHINE, SEARCH_PATH, TidyConnection
from gridfleet.kernel.settings import Settings

__all__ = ["build_app", "run_jobs"]

_KEEP_SET_ASIDE = timedelta(days=30)
_RETRY_MARGIN: Final = timedelta(minutes=1)
"""How much later jobs may be due, as the clocks of database and process may differ."""
_WORKERS: Final = 8
"""Workers of each queue: more than the jobs that may take long."""
_ACCOUNT_WORKERS: Final = 2
"""Workers of the queue that anyone can fill. They leave the pool's connections to other jobs."""
_OPTIONS: Final = f"{SEARCH_PATH} {LET_THE_SERVER_NOTICE} -c idle_in_transaction_session_timeout=60000"
"""Without them, a process that hangs in a transaction of the queue would keep all others from adding jobs."""
_LONGEST_PERIOD_SECONDS: Final = 86_400
_END_SECONDS: Final = 10.0
"""How long jobs may go on after their worker has stopped. Each may be cancelled at any time."""
_CLOCK_STEP_SECONDS: Final = 60.0
_CLOCK_POLL_SECONDS: Final = 1.0


def build_app(settings: Settings, database: Database) -> App:
    """Return the job queue of the database, with every periodic job."""
    connector = PsycopgConnector(
        conninfo=database.url,
        min_size=1,
        # Each queue's worker listens on one of them.
        max_size=1 + len(QUEUES),
        connection_class=TidyConnection,
        kwargs={"application_name": "gridfleet-queue", "connect_timeout": 5, "options": _OPTIONS, **NOTICE_A_DEAD_MACHINE},
    )
    app = App(connector=connector, periodic_defaults={"max_delay": _LONGEST_PERIOD_SECONDS})
    add_account_jobs(app, database, settings)
    add_telemetry_jobs(app, database, settings)
    add_trading_jobs(app, database, settings)

    @app.periodic(cron="* * * * *")
    @app.task(queueing_lock="sweep_silent", name="plants.sweep_silent")
    async def sweep_silent_plants(timestamp: int) -> None:
        await sweep_all_silent(database)

    @app.periodic(cron="*/5 * * * *")
    @app.task(queueing_lock="forget_packages", name="plants.forget_old_packages")
    async def delete_packages(timestamp: int) -> None:
        async with database.transaction() as db:
            await delete_old_packages(db)
            await delete_previous_secrets(db)

    @app.periodic(cron="*/10 * * * *")
    @app.task(queueing_lock="trim_refused", lock="trim_refused", name="plants.trim_refused_messages")
    async def trim_refused(timestamp: int) -> None:
        await trim_refused_messages(database)
        await trim_unregistered_devices(database)

    # Each deletion queues this job as well, unless it waits. The periodic runs complete what a killed process left unfinished,
    # and what was deleted while the waiting job began.
    @app.periodic(cron="*/10 * * * *")
    @app.task(queueing_lock="erase_deleted", lock=ERASE_TELEMETRY, name=ERASE_TELEMETRY)
    async def erase_telemetry_of_deleted_plants(timestamp: int) -> None:
        await erase_deleted(database)

    # Each move queues this job as well, unless it waits. The periodic runs complete what a killed process left unfinished,
    # and what moved while the waiting job began.
    @app.periodic(cron="* * * * *")
    @app.task(queueing_lock="follow_moves", lock=FOLLOW_MOVES, name=FOLLOW_MOVES)
    async def move_alerts_of_moved_plants(timestamp: int) -> None:
        await follow_moves(database)

    @app.periodic(cron="37 3 * * *")
    @app.task(queueing_lock="trim_deliveries", name="notifications.trim_deliveries")
    async def trim_notifications(timestamp: int) -> None:
        await notifications.trim_deliveries(database)
        async with database.transaction() as db:
            await set_aside.trim(db, _KEEP_SET_ASIDE)

    @app.periodic(cron="47 3 * * *")
    @app.task(queueing_lock="forget_commands", name="vcp.forget_commands")
    async def delete_old_commands(timestamp: int) -> None:
        await delete_commands(database, days_before(utc_now(), settings.command_days))

    @app.periodic(cron="57 3 * * *")
    @app.task(queueing_lock="delete_alerts", lock="delete_alerts", name="alerts.delete_resolved")
    async def delete_old_alerts(timestamp: int) -> None:
        await delete_resolved(database, days_before(utc_now(), settings.alert_days))

    @app.periodic(cron="*/10 * * * *")
    @app.task(queueing_lock="settle_missed", name="vcp.settle_missed")
    async def complete_missed_ends(timestamp: int) -> None:
        async with database.transaction() as db:
            await complete_missed(db, utc_now())

    @app.periodic(cron="* * * * *")
    @app.task(queueing_lock="correct_silence", name="vcp.correct_silence")
    async def correct_times_in_the_future(timestamp: int) -> None:
        async with database.transaction() as db:
            await correct_silence(db)
        async with database.transaction() as db:
            await reopen_early_steps(db)
        for correct in (commands.correct_due, notifications.correct_due, outbox.correct_due):
            async with database.transaction() as db:
                await correct(db)
        async with database.transaction() as db:
            await jobs.correct_due(db, LONGEST_RETRY + _RETRY_MARGIN)
        async with database.transaction() as db:
            await vhosts.restore_ended(db)

    return app


class ClockChanged(OSError):
    """The machine's clock was set, or the machine was suspended."""


class WorkerStopped(ConnectionError):
    """The worker of a queue stopped without an error, because it had lost the database."""


async def run_jobs(settings: Settings, database: Database) -> None:
    """Run jobs until cancelled. Raises when the database connection is lost or the clock is set by more than a minute."""
    app = build_app(settings, database)
    start_at_zero(app.tasks)
    async with app.open_async(), asyncio.TaskGroup() as workers:
        workers.create_task(_fail_when_clock_is_set(), name="clock")
        for queue in QUEUES:
            workers.create_task(_work(app, database, queue), name=f"jobs of the queue {queue}")


async def _work(app: App, database: Database, queue: str) -> None:
    """Run the jobs of a queue until cancelled. Raises when the worker stops.

    The library's worker returns without an error if it loses the connection on which it listens but can still unregister.
    """
    await app.run_worker_async(
        queues=[queue],
        concurrency=_ACCOUNT_WORKERS if queue == ACCOUNTS else _WORKERS,
        install_signal_handlers=False,
        delete_jobs="successful",
        listen_notify=True,
        fetch_job_polling_interval=5,
        worker_middleware=[job_middleware(database)],
        # Afterwards they are cancelled: until they have ended, no queue gets a new worker.
        shutdown_graceful_timeout=_END_SECONDS,
    )
    raise WorkerStopped(f"the worker of the queue {queue} stopped")


async def _fail_when_clock_is_set() -> None:
    """Raise ClockChanged when the clock is set by more than a minute.

    The library keeps the time of each periodic job's last run in memory. After the clock was set back, it runs no job until
    that time; after it was set forward, it queues each job for every time in between. A restart begins with the present.
    """
    before = time.time() - time.monotonic()
    while True:
        await asyncio.sleep(_CLOCK_POLL_SECONDS)
        step = time.time() - time.monotonic() - before
        if abs(step) > _CLOCK_STEP_SECONDS:
            raise ClockChanged(f"the clock was set {'forward' if step > 0 else 'back'} by {abs(step):.0f} s")
