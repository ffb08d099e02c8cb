"""SQL of the queues that the gateway serves."""

from uuid import UUID

from gridfleet.kernel.db import Connection


async def queues(db: Connection) -> dict[UUID, str]:
    """Return the queue name prefix of each organisation whose queues are enabled."""
    cursor = await db.execute("SELECT organization_id, prefix FROM partner_queues WHERE enabled")
    return dict(await cursor.fetchall())
