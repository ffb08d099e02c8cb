"""Which database a request reads history from: the replica while it is within its limit, otherwise the primary."""

from functools import partial
from typing import Any, TypeVar

import structlog

from gridfleet.api.access.shares import ConnectionShares
from gridfleet.domains.telemetry.history.reading import Reading, Step
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import DatabaseError
from gridfleet.kernel.db.replica import Replica, ReplicaBehind

__all__ = ["HistoryReads"]

T = TypeVar("T")

log = structlog.get_logger(__name__)


class HistoryReads:
    """Reads of history by requests.

    Args:
        primary: Transactions of the database that accepts writes.
        replica: A replica of it, if there is one.
        most: Transactions that an organisation may have at the replica at the same time.
    """

    def __init__(self, primary: ConnectionShares, replica: Replica | None, most: int) -> None:
        self._primary = primary
        self.replica = replica
        self._copies = ConnectionShares(replica.database, most) if replica is not None else None

    def of(self, org: OrgScope) -> Reading:
        """Return how requests of an organisation read."""
        return partial(self._read, org)

    async def _read(self, org: OrgScope, check: Step[Any], read: Step[T]) -> T:
        result = "primary"
        if self.replica is not None and self._copies is not None and self.replica.usable:
            async with self._primary.transaction(org) as db:
                await check(db)
            try:
                async with self._copies.transaction(org) as db:
                    await self.replica.require_recent(db)
                    found = await read(db)
            except (DatabaseError, ReplicaBehind) as error:
                # Often a conflict: the replica applies a change that removes what the statement reads.
                log.info("read of the replica is repeated at the primary", error=type(error).__name__)
                result = "repeated"
            else:
                metrics.HISTORY_READS.labels("replica").inc()
                return found
        # Checked again, because the first read may have taken long.
        async with self._primary.transaction(org) as db:
            await check(db)
            found = await read(db)
        metrics.HISTORY_READS.labels(result).inc()
        return found
