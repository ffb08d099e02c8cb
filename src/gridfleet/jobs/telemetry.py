"""Periodic telemetry jobs: create partitions ahead of time, compute roll-ups, apply retention."""

from uuid import UUID

from procrastinate import App

from gridfleet.domains.telemetry.energy.recomputation import keep_energy
from gridfleet.domains.telemetry.frames.writer import Partitions
from gridfleet.domains.telemetry.power.refresh import refresh_all, refresh_late
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention_between_roll_ups
from gridfleet.domains.telemetry.rollups.recomputation import correct_watermark, ensure_partitions_ahead, roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.settings import Settings

__all__ = ["add_telemetry_jobs"]

_PARTITIONS_AHEAD_DAYS = 3
_ROLL_UP_SECONDS = 100.0
_ENERGY_SECONDS = 60.0
_REFRESH_SECONDS = 20.0


def add_telemetry_jobs(app: App, database: Database, settings: Settings) -> None:
    """Add the telemetry jobs to the queue."""

    @app.periodic(cron="7 * * * *")
    @app.task(queueing_lock="partitions", name="telemetry.make_partitions")
    async def make_partitions(timestamp: int) -> None:
        await Partitions(database).ensure_ahead(_PARTITIONS_AHEAD_DAYS)
        await ensure_partitions_ahead(database, _PARTITIONS_AHEAD_DAYS)

    @app.periodic(cron="*/2 * * * *")
    @app.task(queueing_lock="roll_up", name="telemetry.roll_up")
    async def roll_up_dirty(timestamp: int) -> None:
        await correct_watermark(database)
        await roll_up(database, seconds=_ROLL_UP_SECONDS, connections=settings.roll_up_connections)
        late: set[UUID] = set()
        await keep_energy(database, seconds=_ENERGY_SECONDS, late=late)
        # Otherwise the energy of the day would lack what a plant has sent late until the next refresh of all plants.
        await refresh_late(database, late, seconds=_REFRESH_SECONDS)

    # Ingest refreshes plants that report. This reaches the others of an edited template, and what a killed process left.
    @app.periodic(cron="*/10 * * * *")
    @app.task(queueing_lock="refresh_power", lock="refresh_power", name="telemetry.refresh_power")
    async def refresh_powers(timestamp: int) -> None:
        await refresh_all(database)

    @app.periodic(cron="43 * * * *")
    @app.task(queueing_lock="retention", lock="retention", name="telemetry.apply_retention")
    async def retention(timestamp: int) -> None:
        days = Days(settings.telemetry_raw_days, settings.telemetry_minute_days, settings.telemetry_quarter_days)
        await apply_retention_between_roll_ups(database, days, utc_now())
