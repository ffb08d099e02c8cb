"""Effects at the broker: the kinds of effect and the functions that carry them out."""

from typing import Any

from gridfleet.amqp.partner_vhosts import vhost_updater
from gridfleet.domains.partners import vhosts
from gridfleet.domains.plants.connections import CLOSE_CONNECTIONS, PURGE_SESSIONS
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.outbox import Outbox
from gridfleet.kernel.settings import Settings

__all__ = ["carry_out_effects"]


async def carry_out_effects(settings: Settings, database: Database) -> None:
    """Carry queued effects out until cancelled. Raises when the database is lost."""
    async with open_management(settings.secret("broker_management_url").get_secret_value()) as management:

        async def close_connections(db: Connection, payload: dict[str, Any]) -> None:
            for name in payload["names"]:
                await management.close_connections(name)

        async def close_partner_connections(db: Connection, payload: dict[str, Any]) -> None:
            await management.close_connections_in(payload["vhost"], payload["slug"])

        async def purge_sessions(db: Connection, payload: dict[str, Any]) -> None:
            if "names" in payload:
                for name in payload["names"]:
                    await management.purge_queue(PLANTS_VHOST, name)
            else:
                await management.purge_queues(PLANTS_VHOST, payload["pattern"])

        outbox = Outbox(database)
        outbox.register(CLOSE_CONNECTIONS, close_connections, workers=4)
        outbox.register(PURGE_SESSIONS, purge_sessions, workers=1)
        outbox.register(vhosts.CLOSE_CONNECTIONS, close_partner_connections, workers=4)
        outbox.register(vhosts.UPDATE, vhost_updater(settings, management), workers=2)
        outbox.register(vhosts.REMOVE, vhost_updater(settings, management), workers=2)
        await outbox.run()
