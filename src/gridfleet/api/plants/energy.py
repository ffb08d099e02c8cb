"""`/api/v1/plants/{id}/energy`."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import NOT_NULL, Input, S, TimeZone, endpoint, org_member
from gridfleet.domains.telemetry.energy.models import EnergyOfDay, EnergyOverTime
from gridfleet.domains.telemetry.energy.periods import EnergyBucket
from gridfleet.domains.telemetry.energy.series import EnergyQuery, energy_of_plant
from gridfleet.domains.telemetry.energy.today import energy_of_day
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection


class EnergyRange(Input):
    """A range in buckets. Both ends are extended to whole quarters of an hour."""

    start: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    bucket: EnergyBucket = EnergyBucket.DAY
    time_zone: Annotated[TimeZone | None, NOT_NULL] = None

    @property
    def as_query(self) -> EnergyQuery:
        """The query as the domain takes it."""
        return EnergyQuery(self.start, self.end, self.bucket, self.time_zone)


@endpoint(
    "GET",
    "/api/v1/plants/{plantId}/energy",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "PLANT_NOT_FOUND", *S),
    addition=True,
)
async def get_plant_energy(org: OrgScope, db: Connection, plant_id: UUID, query: EnergyRange) -> EnergyOverTime:
    """Return the energy of a plant over time, in kWh.

    Buckets begin on quarters of an hour, hours, days or months of `timeZone`, by default that of the plant. A day has 23 or 25
    hours when clocks change.
    """
    return await energy_of_plant(db, org, plant_id, query.as_query, utc_now())


@endpoint(
    "GET",
    "/api/v1/plants/{id}/energy/today",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S),
    kept_seconds=10,
)
async def get_energy_today(org: OrgScope, db: Connection, id: UUID) -> EnergyOfDay:
    """Return what the plant produced, imported and exported since midnight UTC, in kWh.

    The response may be 10 s old. The energies are computed from the counters of the sub-devices whose external ids begin with
    `PV` and of `GRID`, or from their power.
    """
    return await energy_of_day(db, org, id, utc_now())
