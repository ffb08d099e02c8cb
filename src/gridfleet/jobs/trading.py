"""Periodic trading jobs: synchronise linked plants."""

from procrastinate import App

from gridfleet.domains.trading.esm.client import EsmClient
from gridfleet.domains.trading.plant_sync import sync_enabled
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
