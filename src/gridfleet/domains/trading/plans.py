"""A plant's plan: read from the ESM, sent to it, and every sending kept with what came of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid5

import msgspec

from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.trading import store
from gridfleet.domains.trading.configuration import esm_access
from gridfleet.domains.trading.errors import EsmNotConfigured, EsmSilent, PlantNotLinked
from gridfleet.domains.trading.esm.client import EsmAccess, EsmClient, EsmFailed
from gridfleet.domains.trading.esm.messages import EsmConfig, PlanAnswer
from gridfleet.domains.trading.models import ConfigChange
from gridfleet.domains.trading.store import Outcome
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.time_blocks import TimeBlock

__all__ = ["LinkedPlant", "Relay", "begin", "deliver", "finish", "linked_plant", "list_changes", "read_config"]

_REQUEST_CODES: Final = UUID("1b0f8a52-6c5e-5d0c-9a55-4c1f0f0e7d11")
"""Names the request codes that are made from an `Idempotency-Key`."""


class LinkedPlant(NamedTuple):
    """A plant that the organisation's ESM can be asked about."""

    id: UUID
    external_id: str
    access: EsmAccess


class Relay(NamedTuple):
    """A plan on its way to the ESM; one with an outcome has arrived before."""

    plant: LinkedPlant
    change: ConfigChange
    blocks: Sequence[TimeBlock]

    @property
    def is_done(self) -> bool:
        """Whether the ESM, or its silence, has been recorded already."""
        return self.change.responded_at is not None


async def linked_plant(db: Connection, org: OrgScope, keyring: Keyring, plant_id: UUID) -> LinkedPlant:
    """The plant and how to reach its ESM. Raises PlantNotFound, PlantNotLinked."""
    plant = await get_plant(db, org, plant_id)
    if plant.external_plant_id is None:
        raise PlantNotLinked
    try:
        return LinkedPlant(plant.id, plant.external_plant_id, await esm_access(db, org, keyring))
    except EsmNotConfigured as error:
        raise PlantNotLinked(error.text) from None


async def read_config(esm: EsmClient, plant: LinkedPlant) -> EsmConfig:
    """The plan that the plant works by. Raises PlantNotLinked when the ESM does not know it, EsmSilent."""
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
    """Writes down that a plan will be sent. With `key`, the same one again gives what it began the first time.

    Raises PlantNotFound, PlantNotLinked, ValidationFailed for a key that was used with another plan.
    """
    plant = await linked_plant(db, org, keyring, plant_id)
    snapshot = {"timeConfigs": msgspec.to_builtins(list(blocks)), "version": None}
    code = new_id() if key is None else uuid5(_REQUEST_CODES, f"{org.organization_id} {org.actor.id} {plant_id} {key}")
    change = await store.insert_change(db, org, plant_id, code, snapshot, utc_now(), validate_only=validate_only)
    if change is None:
        change = await store.find_change(db, org, code)
        if change is None:
            raise PlantNotFound
        if (change.config_snapshot["timeConfigs"], change.validate_only) != (snapshot["timeConfigs"], validate_only):
            raise ValidationFailed(details=["Idempotency-Key: must not be used again with another body"])
    return Relay(plant, change, blocks)


async def deliver(esm: EsmClient, relay: Relay) -> tuple[Outcome, int | None, datetime]:
    """Sends the plan: its outcome, the version that it became, and when that was known."""
    plant, change = relay.plant, relay.change
    try:
        answer = await esm.send_plan(
            plant.access,
            plant.external_id,
            str(change.request_code),
            relay.blocks,
            validate_only=change.validate_only,
        )
    except EsmFailed as error:
        # What was refused stays refused; whoever did not answer may yet, and may even have done it.
        outcome = Outcome(error.result_code, error.text, True, error.result_code == "VALIDATION_FAILED")
        return outcome, None, utc_now()
    return _outcome(answer), answer.version, utc_now()


async def finish(
    db: Connection, org: OrgScope, relay: Relay, outcome: Outcome, version: int | None, responded_at: datetime
) -> ConfigChange:
    """The record with its outcome, or with that of the same plan's repetition, which the ESM has answered meanwhile. Raises
    PlantNotFound when the plant is gone meanwhile."""
    change = await store.finish_change(db, org, relay.change.id, outcome, version, responded_at)
    if change is None:
        change = await store.find_change(db, org, relay.change.request_code)
    if change is None:
        raise PlantNotFound
    return change


async def list_changes(db: Connection, org: OrgScope, plant_id: UUID, paging: Paging) -> Page[ConfigChange]:
    """One page of what was sent to the ESM for a plant, newest first. Raises PlantNotFound."""
    await get_plant(db, org, plant_id)
    changes = await store.page_of_changes(db, org, plant_id, paging)
    return Page.of(changes, await store.count_changes(db, org, plant_id), paging)


def refusal(error: EsmFailed) -> PlantNotLinked | EsmSilent:
    """What a caller is told when the ESM gave nothing to pass on."""
    return PlantNotLinked("The ESM does not know this plant.") if error.status == 404 else EsmSilent(error.text)


def _outcome(answer: PlanAnswer) -> Outcome:
    return Outcome(answer.result_code, answer.message, answer.is_error, answer.is_terminal)
