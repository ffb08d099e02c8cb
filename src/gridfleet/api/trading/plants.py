"""Plants at their ESM: plans, the command log, and metered energy.

The ESM may respond slowly, so no transaction is open during a request to it.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, cast
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Call, Input, PageQuery, S, endpoint, key_of, org_member
from gridfleet.api.http.json_out import list_to_json
from gridfleet.api.time_blocks import TimeBlocks
from gridfleet.domains.trading import metering, plans
from gridfleet.domains.trading.errors import PlantNotLinked
from gridfleet.domains.trading.models import ConfigChange, MeterRow
from gridfleet.domains.vcp.models import LogEntry
from gridfleet.domains.vcp.site_queries import list_log
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.time_blocks import TimeBlock, complaints_about_blocks


class PlantPlan(Input):
    """Permitted use of the battery by time of day, in UTC."""

    time_configs: TimeBlocks
    validate_only: bool = False

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each overlap between blocks."""
        return complaints_about_blocks(self.time_configs)


class PlantConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The current plan of a plant. `version` increases with every plan."""

    plant_id: UUID
    config_enabled: bool
    esi_state: str
    version: int
    time_configs: list[TimeBlock]


class LogQuery(PageQuery):
    """Filter of partner commands by type."""

    command_type: CommandType | None = None


class MeterQuery(Input):
    """The range, by default the last 24 hours, and the width of the buckets in minutes."""

    since: datetime | None = Field(alias="from", default=None)
    until: datetime | None = Field(alias="to", default=None)
    bucket_minutes: Annotated[float, Field(ge=1, le=60)] = 5.0


_CODES = ("BAD_REQUEST", "PLANT_NOT_FOUND", *S)


@endpoint("GET", "/api/v1/trading/plants/{id}/config", caller=org_member(OrgRole.VIEWER, scope="config:read"), codes=_CODES)
async def get_plant_config(call: Call, org: OrgScope, id: UUID) -> PlantConfig:
    """Return the plan that the plant follows, as its ESM reports it now."""
    state = call.state
    async with state.shares.transaction(org) as db:
        plant = await plans.linked_plant(db, org, state.keyring, id)
    found = await plans.read_config(state.esm, plant)
    return PlantConfig(id, found.config_enabled, found.esi_state, found.version, found.time_configs)


@endpoint(
    "POST",
    "/api/v1/trading/plants/{id}/config",
    caller=org_member(OrgRole.OPERATOR, scope="config:write"),
    codes=_CODES,
    success=201,
)
async def send_plant_config(call: Call, org: OrgScope, id: UUID, body: PlantPlan) -> ConfigChange:
    """Send a plan to the plant's ESM.

    The record contains the result, also when the ESM refused the plan or did not respond: see `isError` and `resultCode`.
    """
    return await _send(call, org, id, body, validate_only=body.validate_only)


@endpoint(
    "POST",
    "/api/v1/trading/plants/{id}/config/validate",
    caller=org_member(OrgRole.OPERATOR, scope="config:write"),
    codes=_CODES,
    success=201,
)
async def validate_plant_config(call: Call, org: OrgScope, id: UUID, body: PlantPlan) -> ConfigChange:
    """Let the plant's ESM validate a plan. Only the log changes."""
    return await _send(call, org, id, body, validate_only=True)


@endpoint("GET", "/api/v1/trading/plants/{id}/config-log", caller=org_member(OrgRole.VIEWER, scope="config:read"), codes=_CODES)
async def list_config_log(org: OrgScope, db: Connection, id: UUID, query: PageQuery) -> Page[ConfigChange]:
    """List what was sent to the ESM for the plant, newest first."""
    return await plans.list_changes(db, org, id, query.paging)


@endpoint(
    "GET", "/api/v1/trading/plants/{id}/command-log", caller=org_member(OrgRole.VIEWER, scope="commands:read"), codes=_CODES
)
async def list_command_log(org: OrgScope, db: Connection, id: UUID, query: LogQuery) -> Page[LogEntry]:
    """List partner commands about the plant and their outcome, newest first."""
    return await list_log(db, org, id, query.command_type, query.paging)


@endpoint("GET", "/api/v1/trading/plants/{id}/meters", caller=org_member(OrgRole.VIEWER, scope="trading:read"), codes=_CODES)
async def list_plant_meter_readings(call: Call, org: OrgScope, id: UUID, query: MeterQuery) -> list[MeterRow]:
    """Return meter readings of up to a month: from the ESM of a linked plant, otherwise from its METER sub-devices.

    The response has only buckets that lie completely in the range and are not finer than the readings.
    """
    rows = await _meter_rows(call, org, id, query)
    return cast("list[MeterRow]", await list_to_json(rows))  # JSON, which is the response


async def _meter_rows(call: Call, org: OrgScope, id: UUID, query: MeterQuery) -> list[MeterRow]:
    state = call.state
    start, end = metering.checked_range(query.since, query.until, utc_now())
    async with state.shares.transaction(org) as db:
        try:
            plant = await plans.linked_plant(db, org, state.keyring, id)
        except PlantNotLinked:
            return await metering.own_meters(db, org, id, start, end, query.bucket_minutes)
    return await metering.esm_meters(state.esm, plant, start, end, query.bucket_minutes)


async def _send(call: Call, org: OrgScope, id: UUID, body: PlantPlan, *, validate_only: bool) -> ConfigChange:
    state, key = call.state, key_of(call)
    async with state.shares.transaction(org) as db:
        relay = await plans.begin(
            db,
            org,
            state.keyring,
            id,
            body.time_configs,
            validate_only=validate_only,
            key=key and f"{call.path} {key}",
        )
    if relay.is_done:
        call.set_header("idempotency-replayed", "true")
        return relay.change
    outcome = await plans.deliver(state.esm, relay)
    async with state.database.transaction() as db:  # the plan is sent, so its result must be stored
        return await plans.finish(db, org, relay, *outcome)
