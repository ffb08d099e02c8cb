"""The powers that commands have set at a plant in the past."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.commands.listing import store
from gridfleet.domains.plants.commands.models import AppliedPower
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["AppliedPower", "applied_powers"]

_LOOKBACK: Final = timedelta(days=7)
"""The longest time that a step of a schedule lasts. An older setpoint without a duration is not found."""


async def applied_powers(db: Connection, org: OrgScope, plant_id: UUID, since: datetime, until: datetime) -> list[AppliedPower]:
    """Return the setpoints, modes and schedules that a plant has applied, in the order of their issue.

    They were issued from `since` to `until`. The last setpoint or mode of the seven days before `since` is included, with the
    schedules after it.
    """
    return await store.applied_powers(db, org, plant_id, since, until, _LOOKBACK)
