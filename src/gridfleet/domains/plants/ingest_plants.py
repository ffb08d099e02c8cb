"""Plants as ingest needs them: organisation, lifecycle status, signing keys and devices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.plants import store
from gridfleet.domains.plants.credentials.signing_keys import SigningKeys, load_signing_keys
from gridfleet.domains.plants.models import Lifecycle
from gridfleet.domains.plants.sub_devices import store as sub_devices
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["IngestDevice", "IngestPlant", "load_ingest_devices", "load_ingest_plants"]


class IngestDevice(NamedTuple):
    """A registered sub-device."""

    id: UUID
    external_id: str
    template_id: UUID | None
    interval_seconds: float | None
    """The usual time between its messages; None if it is not known."""


@dataclass(frozen=True, slots=True)
class IngestPlant:
    """One plant.

    `keys` is None if the plant was never provisioned, or if its keys cannot be decrypted; `unreadable` is True in the second
    case.
    """

    id: UUID
    organization_id: UUID
    lifecycle_status: Lifecycle
    template_id: UUID | None
    interval_seconds: float | None
    keys: SigningKeys | None
    unreadable: bool


async def load_ingest_plants(db: Connection, keyring: Keyring, plant_ids: Sequence[UUID]) -> list[IngestPlant]:
    """Return the plants of `plant_ids` that exist."""
    keys = await load_signing_keys(db, keyring, plant_ids)
    return [
        IngestPlant(
            plant_id,
            organization_id,
            Lifecycle(lifecycle),
            template_id,
            interval_seconds,
            keys.get(plant_id),
            unreadable=plant_id in keys and keys[plant_id] is None,
        )
        for plant_id, organization_id, lifecycle, template_id, interval_seconds in await store.identities(db, plant_ids)
    ]


async def load_ingest_devices(
    db: Connection, plant_ids: Collection[UUID], named: Mapping[UUID, Collection[str]]
) -> dict[UUID, list[IngestDevice]]:
    """Return every sub-device of the plants in `plant_ids`, and those that `named` lists, by plant.

    Plants without any are left out.

    Args:
        named: External ids by plant.
    """
    rows = await sub_devices.of_plants(db, plant_ids) if plant_ids else []
    if named:
        rows += await sub_devices.find_named(db, [(plant_id, name) for plant_id, names in named.items() for name in names])
    devices: dict[UUID, list[IngestDevice]] = {}
    for plant_id, device_id, external_id, template_id, interval_seconds in rows:
        devices.setdefault(plant_id, []).append(IngestDevice(device_id, external_id, template_id, interval_seconds))
    return devices
