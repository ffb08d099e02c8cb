"""Periodic trading jobs: synchronise linked plants, and delete old plans."""

from procrastinate import App

from gridfleet.domains.trading.esm.client import EsmClient
from gridfleet.domains.trading.plant_sync import sync_enabled
from gridfleet.domains.trading.retention import delete_plans
from gridfleet.kernel.clock import days_before, utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.outbound.sending import Outbound
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings

__all__ = ["add_trading_jobs"]


def add_trading_jobs(app: App, database: Database, settings: Settings) -> None:
    """Add the trading jobs to the queue.

    Raises:
        LookupError: There are no keys.
    """
    keyring = Keyring.parse(settings.secret("keys").get_secret_value())
    esm = EsmClient(Outbound(allow_private=settings.esm_allow_private), settings.sandbox_esm_url)

    @app.periodic(cron="*/15 * * * *")
    @app.task(queueing_lock="sync_plants", lock="sync_plants", name="trading.sync_plants")
    async def sync_plants(timestamp: int) -> None:
        await sync_enabled(database, esm, keyring)

    @app.periodic(cron="7 4 * * *")
    @app.task(queueing_lock="delete_plans", lock="delete_plans", name="trading.delete_old_plans")
    async def delete_old_plans(timestamp: int) -> None:
        await delete_plans(database, days_before(utc_now(), settings.command_days))
