"""A plant's plan: reading it from the ESM, sending it there, and the record of each request with its result."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID, uuid5

import msgspec

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.trading import store
from gridfleet.domains.trading.configuration import esm_access
from gridfleet.domains.trading.errors import EsmNotConfigured, EsmSilent, PlantNotLinked
from gridfleet.domains.trading.esm.client import EsmAccess, EsmClient, EsmFailed
from gridfleet.domains.trading.esm.messages import EsmConfig, PlanResponse
from gridfleet.domains.trading.models import ConfigChange
from gridfleet.domains.trading.store import PlanResult
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = [
    "LinkedPlant",
    "Relay",
    "accepted_before",
    "begin",
    "delete_answered_of",
    "deliver",
    "finish",
    "linked_plant",
    "list_changes",
    "read_config",
]

_REQUEST_CODES: Final = UUID("1b0f8a52-6c5e-5d0c-9a55-4c1f0f0e7d11")
"""Namespace of the request codes that are derived from an `Idempotency-Key`."""

_KEY_LIFETIME: Final = timedelta(hours=24)
"""How long the same key means the same plan."""


class LinkedPlant(NamedTuple):
    """A plant that is linked to one of the organisation's ESM."""

    id: UUID
    external_id: str
    access: EsmAccess


class Relay(NamedTuple):
    """A plan to send to the ESM."""

    plant: LinkedPlant
    change: ConfigChange
    blocks: Sequence[TimeBlock]

    @property
    def is_done(self) -> bool:
        """Whether the ESM's response or its absence is already recorded."""
        return self.change.responded_at is not None


async def linked_plant(db: Connection, org: OrgScope, keyring: Keyring, plant_id: UUID) -> LinkedPlant:
    """Return the plant and the access to its ESM. Raises PlantNotFound, PlantNotLinked."""
    plant = await get_plant(db, org, plant_id)
    if plant.external_plant_id is None:
        raise PlantNotLinked
    try:
        return LinkedPlant(plant.id, plant.external_plant_id, await esm_access(db, org, keyring))
    except EsmNotConfigured as error:
        raise PlantNotLinked(error.text) from None


async def read_config(esm: EsmClient, plant: LinkedPlant) -> EsmConfig:
    """Return the current plan of the plant.

    Raises:
        PlantNotLinked: The ESM does not have the plant.
        EsmSilent: The ESM gave no valid response.
    """
    try:
        return await esm.config(plant.access, plant.external_id)
    except EsmFailed as error:
        raise refusal(error) from error


async def begin(
    db: Connection,
    org: OrgScope,
    keyring: Keyring,
    plant_id: UUID,
    blocks: Sequence[TimeBlock],
    *,
    validate_only: bool,
    key: str | None,
) -> Relay:
    """Record that a plan will be sent. The same plan with the same `key` within 24 hours returns the first record.

    Raises:
        PlantNotFound: The plant does not exist.
        PlantNotLinked: The plant has no counterpart at an ESM.
        ValidationFailed: The key was used with another plan.
    """
    plant = await linked_plant(db, org, keyring, plant_id)
    snapshot, now = {"timeConfigs": msgspec.to_builtins(list(blocks)), "version": None}, utc_now()
    code = new_id() if key is None else uuid5(_REQUEST_CODES, f"{org.organization_id} {org.actor.id} {plant_id} {key}")
    while True:
        change = await store.insert_change(db, org, plant_id, code, snapshot, now, validate_only=validate_only)
        if change is not None:
            event = Event.TRADING_PLAN_VALIDATED if validate_only else Event.TRADING_PLAN_SENT
            await record_in(db, org, event, Subject.plant(plant_id), {"requestCode": str(change.request_code)})
            return Relay(plant, change, blocks)
        change = await store.find_change(db, org, code)
        if change is None:
            raise PlantNotFound
        if change.sent_at > now - _KEY_LIFETIME:
            break
        code = uuid5(_REQUEST_CODES, str(code))  # the key was used for another plan, more than a day ago
    # Converted: JSON of the database has a huge limit as a whole number, which is not equal to the float.
    known = msgspec.convert(change.config_snapshot["timeConfigs"], list[TimeBlock])
    if (known, change.validate_only) != (list(blocks), validate_only):
        raise ValidationFailed(details=["Idempotency-Key: must not be used again with another body"])
    return Relay(plant, change, blocks)


async def deliver(esm: EsmClient, relay: Relay) -> tuple[PlanResult, int | None, datetime]:
    """Send the plan of a record from `begin` to the ESM, or let the ESM validate it if the record says so.

    A failure of the ESM is an outcome and raises nothing.

    Returns:
        The outcome, the version of the plan at the ESM, and the time of the response or of its absence. The version is None if
        the ESM returned none.
    """
    plant, change = relay.plant, relay.change
    try:
        response = await esm.send_plan(
            plant.access,
            plant.external_id,
            str(change.request_code),
            relay.blocks,
            validate_only=change.validate_only,
        )
    except EsmFailed as error:
        # A refusal is final. Without a response, the ESM may still accept the plan, or may have accepted it already.
        outcome = PlanResult(error.result_code, error.text, True, error.result_code == "VALIDATION_FAILED")
        return outcome, None, utc_now()
    return _outcome(response), response.version, utc_now()


async def finish(
    db: Connection, org: OrgScope, relay: Relay, outcome: PlanResult, version: int | None, responded_at: datetime
) -> ConfigChange:
    """Save the outcome and return the record.

    If the ESM has responded to a repetition of the same plan meanwhile, that record is returned.

    Raises:
        PlantNotFound: The plant was deleted meanwhile.
    """
    change = await store.finish_change(db, relay.change.id, outcome, version, responded_at)
    if change is None:
        change = await store.find_change(db, org, relay.change.request_code)
    if change is None:
        raise PlantNotFound
    return change


async def list_changes(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> Page[ConfigChange]:
    """Return one page of the plans sent to the ESM for a plant, newest first. Raises PlantNotFound."""
    await get_plant(db, org, plant_id)
    changes = await store.page_of_changes(db, org, plant_id, paging)
    return Page.of(changes, await store.count_changes(db, org, plant_id), paging)


async def delete_answered_of(db: Connection, org: OrgScope, plant_id: UUID, limit: int) -> int:
    """Delete up to `limit` plans of a plant that have a result. Returns their number."""
    return await store.delete_answered_of(db, org, plant_id, limit)


async def accepted_before(db: Connection, org: OrgScope, plant_id: UUID, moment: datetime) -> ConfigChange | None:
    """Return the newest plan of a plant that was sent at or before `moment` and accepted by the ESM, or None."""
    return await store.accepted_before(db, org, plant_id, moment)


def refusal(error: EsmFailed) -> PlantNotLinked | EsmSilent:
    """Return the coded error for a failed call of the ESM."""
    return PlantNotLinked("The ESM does not know this plant.") if error.status == 404 else EsmSilent(error.text)


def _outcome(response: PlanResponse) -> PlanResult:
    return PlanResult(response.result_code, response.message, response.is_error, response.is_terminal)
