"""Check of the telemetry tables that Citus distributes."""

import asyncio
from typing import Final

from gridfleet.cli.doctor.models import Finding, fail, ok, reason
from gridfleet.domains.telemetry.hypertables import HYPERTABLES
from gridfleet.domains.telemetry.trial import TrialFailed, try_tables
from gridfleet.kernel.db import DatabaseError, open_database
from gridfleet.kernel.db.citus import examine
from gridfleet.kernel.db.scale_out import CannotScaleOut

__all__ = ["check_shards"]

_CHECK: Final = "shards of telemetry"


async def check_shards(url: str) -> list[Finding]:
    """Return whether a batch can be written, rolled up and read on the workers; nothing if no table is distributed."""
    try:
        workers = await asyncio.to_thread(examine, url, HYPERTABLES)
        if workers is None:
            return []
        async with open_database(url, name="gridfleet-doctor", size=1) as database:
            await try_tables(database)
    except (CannotScaleOut, DatabaseError, TrialFailed) as error:
        text = str(error) if isinstance(error, CannotScaleOut) else reason(error)
        return [fail(_CHECK, text, "see the section Citus of docs/deployment.md")]
    return [ok(_CHECK, f"on {workers} workers, which write, roll up and read values")]
