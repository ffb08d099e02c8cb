"""The fleet that produces the load: plants with sub-devices of one template, registered directly in the database."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.mqtt_access.tokens import PlantTokens
from gridfleet.domains.telemetry.frames.lookup import load_sources
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["DEVICES", "SIGNALS", "BenchPlant", "Fleet", "register_fleet"]

DEVICES: Final = 6
SIGNALS: Final = 20
_UNITS: Final = ("kW", "V", "A", "Hz", "°C")


@dataclass(frozen=True, slots=True)
class BenchPlant:
    """The credentials of a plant, and the ids of its sub-devices' frames in the database."""

    id: str
    key: bytes
    mqtt_token: str
    device_ids: tuple[str, ...]
    source_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All plants, of one organisation."""

    organization_id: UUID
    plants: Sequence[BenchPlant]


async def register_fleet(database: Database, keyring: Keyring, plants: int) -> Fleet:
    """Register and provision `plants` plants of `DEVICES` sub-devices with `SIGNALS` signals each."""
    organization_id, template_id = new_id(), new_id()
    signals = [{"key": f"signal_{n:02}", "field": f"signal_{n:02}", "unit": _UNITS[n % len(_UNITS)]} for n in range(SIGNALS)]
    device_ids = tuple(f"device-{number}" for number in range(1, DEVICES + 1))
    ids = [new_id() for _ in range(plants)]
    keys = {plant_id: secrets.token_bytes(32) for plant_id in ids}
    tokens = PlantTokens(keyring, timedelta(days=1))
    async with database.transaction() as db:
        await db.execute("INSERT INTO organization (id, name, slug) VALUES (%s, 'Benchmark', 'benchmark')", (organization_id,))
        await db.execute(
            "INSERT INTO device_template (id, name, type, level, version, is_system, signals, actions)"
            " VALUES (%s, 'Benchmark device', 'INVERTER', 'SUB_DEVICE', 1, false, %s, '[]')",
            (template_id, json.dumps(signals)),
        )
        cursor = db.cursor()
        async with cursor.copy(
            "COPY plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status, activated_at)"
            " FROM STDIN"
        ) as copy:
            for number, plant_id in enumerate(ids):
                await copy.write_row(
                    (plant_id, organization_id, f"Plant {number}", f"B-{number}", "GATEWAY", "TOKEN", "ACTIVE", "now")
                )
        async with cursor.copy("COPY plant_secret (plant_id, key_version, hmac_secret) FROM STDIN") as copy:
            for plant_id in ids:
                signed = keyring.encrypt(keys[plant_id], table="plant_secret", column="hmac_secret", row_id=plant_id)
                await copy.write_row((plant_id, keyring.current_version, signed))
        async with cursor.copy(
            "COPY sub_device (id, organization_id, plant_id, external_id, name, template_id, type) FROM STDIN"
        ) as copy:
            for plant_id in ids:
                for device_id in device_ids:
                    row = (new_id(), organization_id, plant_id, device_id, device_id, template_id, "INVERTER")
                    await copy.write_row(row)
        sources = await load_sources(db, ids)
    by_name = {plant_id: {source.external_id: source.id for source in sources[plant_id]} for plant_id in ids}
    return Fleet(
        organization_id,
        [
            BenchPlant(
                str(plant_id),
                keys[plant_id],
                tokens.issue(plant_id).token,
                device_ids,
                tuple(by_name[plant_id][device_id] for device_id in device_ids),
            )
            for plant_id in ids
        ],
    )
