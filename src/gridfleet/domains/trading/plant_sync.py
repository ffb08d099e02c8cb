"""Sync of linked plants with the ESM's records."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec.structs import asdict

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.plants.models import EsmFacts
from gridfleet.domains.plants.registry import linked_plants, write_esm_facts
from gridfleet.domains.trading import store
from gridfleet.domains.trading.configuration import access_of
from gridfleet.domains.trading.esm.client import EsmAccess, EsmClient, EsmFailed
from gridfleet.domains.trading.esm.messages import EsmPlant, EsmPlantName
from gridfleet.domains.trading.models import Synced
from gridfleet.domains.trading.store import ConfigRow
from gridfleet.kernel.db import Database, Transactions
from gridfleet.kernel.isolation import is_poison, isolate, note_set_aside, reason_of
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

__all__ = ["sync_enabled", "sync_plants"]

_AT_ONCE: Final = 8
"""Number of organisations synced at once, so that an ESM that hangs does not delay many others."""
_MOST_NAMED: Final = 5
"""Number of errors that `lastSyncError` lists in full."""

log = structlog.get_logger(__name__)


async def sync_plants(
    database: Transactions, esm: EsmClient, access: EsmAccess, organization_id: UUID, plant_ids: Collection[UUID] | None
) -> Synced:
    """Read the ESM's plants and write the facts of the organisation's linked plants.

    A plant of the ESM that is not linked is not counted. A linked plant that the ESM does not have, or whose record is invalid,
    counts as an error. If the ESM refuses or gives no valid response, every linked plant counts as an error, and the number is
    at least 1.

    Args:
        plant_ids: The linked plants to sync; None: all of them.
    """
    async with database.transaction() as db:
        linked = await linked_plants(db, organization_id, plant_ids)
    try:
        facts, complaints = await esm.plants(access, partial(_read, linked))
    except EsmFailed as error:
        result, complaints = Synced(0, max(1, len(linked))), [error.text]
    else:
        unwritten = await _write(database, organization_id, linked, facts)
        complaints += unwritten
        result = Synced(len(facts) - len(unwritten), len(complaints))
    if plant_ids is None:  # otherwise the errors of the other plants would look corrected
        async with database.transaction() as db:
            await store.record_sync(db, organization_id, _summary(complaints))
    return result


async def sync_enabled(database: Database, esm: EsmClient, keyring: Keyring) -> None:
    """Sync every organisation whose trading is enabled, the longest waiting one first."""
    async with database.transaction() as db:
        rows = await store.enabled_configs(db)
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def sync(row: ConfigRow) -> None:
        async with at_once:
            try:
                access = access_of(row, keyring)
            except (DecryptionFailed, UnknownKeyVersion) as error:
                log.error("cannot decrypt an ESM's secret", organization_id=str(row.organization_id), error=str(error))
                return
            if access is not None:
                try:
                    result = await sync_plants(database, esm, access, row.organization_id, None)
                except Exception as error:  # a failure would cancel the other organisations, on each run again
                    if not is_poison(error):
                        log.exception("plants not synced", organization_id=str(row.organization_id))
                    else:
                        note_set_aside(Consumer.ESM_PLANTS, error, organization_id=str(row.organization_id))
                    return
                log.info("plants synced", organization_id=str(row.organization_id), **asdict(result))

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(sync(row))


async def _write(
    database: Transactions, organization_id: UUID, linked: Mapping[str, UUID], facts: Mapping[str, EsmFacts]
) -> list[str]:
    """Write the facts of each plant. Returns an error text for each plant whose facts cannot be stored."""
    complaints: list[str] = []

    async def write(external_ids: Sequence[str]) -> None:
        async with database.autocommit() as db:
            for external_id in external_ids:
                await write_esm_facts(db, organization_id, linked[external_id], external_id, facts[external_id])

    async def complain(external_id: str, error: Exception) -> None:
        complaints.append(f"{external_id}: cannot be stored: {reason_of(error)}")

    await isolate(Consumer.ESM_PLANTS, list(facts), write, complain)
    return complaints


def _read(linked: Collection[str], records: Sequence[msgspec.Raw]) -> tuple[dict[str, EsmFacts], list[str]]:
    """Return the facts of linked plants by external id, and the errors in the records."""
    facts: dict[str, EsmFacts] = {}
    wrong: dict[str, str] = {}
    complaints: list[str] = []
    for number, record in enumerate(records):
        try:
            external_id = msgspec.json.decode(record, type=EsmPlantName).external_plant_id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            complaints.append(f"plants.{number}: {error}")
            continue
        if external_id not in linked or external_id in wrong:
            continue
        try:
            if external_id in facts:
                raise msgspec.ValidationError("is listed twice")
            plant = msgspec.json.decode(record, type=EsmPlant)
            facts[external_id] = EsmFacts(*(getattr(plant, name) for name in EsmFacts._fields))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            wrong[external_id] = f"{external_id}: {error}"
            facts.pop(external_id, None)
    known = facts.keys() | wrong
    missing = [f"{external_id}: is not known to the ESM" for external_id in linked if external_id not in known]
    return facts, [*complaints, *wrong.values(), *missing]


def _summary(complaints: Sequence[str]) -> str | None:
    if not complaints:
        return None
    more = len(complaints) - _MOST_NAMED
    return "; ".join(complaint[:300] for complaint in complaints[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
