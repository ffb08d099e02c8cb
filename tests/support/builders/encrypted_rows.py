"""Encrypted rows of every kind in a test's database, and a reader that decrypts all of them as the service does."""

import base64
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from gridfleet.domains.partners.signing import load_sending_key
from gridfleet.domains.plants.certificates.authority import ensure_authority
from gridfleet.domains.plants.credentials.signing_keys import load_signing_keys
from gridfleet.domains.trading import configuration, store
from gridfleet.kernel.db import Connection, Database, idempotency
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.content import MailContent
from gridfleet.kernel.mail.queue import SEND_MAIL, MailQueue, open_mail
from gridfleet.kernel.security.keyring import Keyring
from support.builders.accounts import add_organization, add_user

TABLES = ("plant_secret", "trading_config", "partner_key", "certificate_authority", "idempotent_answer")


@dataclass
class EncryptedRows:
    """Rows that were encrypted with `keyring`, and their plain content."""

    database: Database
    keyring: Keyring
    secrets: dict[UUID, bytes] = field(default_factory=dict)
    configs: dict[UUID, str] = field(default_factory=dict)
    keys: dict[UUID, bytes] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    authority: str = ""

    async def fill(self, plants: int, others: int = 1) -> None:
        """Add plants with all three secrets, and `others` rows of every other kind (one authority)."""
        keyring, version = self.keyring, self.keyring.current_version
        user = await add_user(self.database)
        organization = await add_organization(self.database)
        fresh = {new_id(): number.to_bytes(32, "big") for number in range(len(self.secrets), len(self.secrets) + plants)}

        def signed(plant: UUID, column: str, plain: bytes) -> bytes:
            return keyring.encrypt(plain, table="plant_secret", column=column, row_id=plant)

        async with self.database.transaction() as db:
            await db.cursor().executemany(
                "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
                " VALUES (%s, %s, 'Plant', %s, 'GATEWAY', 'PASSWORD', 'ACTIVE')",
                [(plant, organization.id, plant.hex) for plant in fresh],
            )
            await db.cursor().executemany(
                "INSERT INTO plant_secret (plant_id, key_version, hmac_secret, previous_hmac_secret, package,"
                " previous_valid_until, package_valid_until)"
                " VALUES (%s, %s, %s, %s, %s, now() + interval '1 hour', now() + interval '1 hour')",
                [
                    (
                        plant,
                        version,
                        signed(plant, "hmac_secret", plain),
                        signed(plant, "previous_hmac_secret", plain[::-1]),
                        signed(plant, "package", b"package " + plain),
                    )
                    for plant, plain in fresh.items()
                ],
            )
            self.secrets |= fresh
            self.authority = (await ensure_authority(db, keyring)).key_pem
        for number in range(others):
            await self._add_others(user.id, f"k{len(self.answers)}-{number}")

    async def _add_others(self, user_id: UUID, name: str) -> None:
        keyring, version = self.keyring, self.keyring.current_version
        organization = await add_organization(self.database)
        config, key, plain = new_id(), new_id(), name.encode()
        async with self.database.transaction() as db:
            secret = keyring.encrypt(plain, table="trading_config", column="esm_client_secret", row_id=config)
            await db.execute(
                "INSERT INTO trading_config (id, organization_id, esm_api_url, esm_client_id, esm_client_secret, key_version,"
                " status, saved) VALUES (%s, %s, 'https://esm.example.com', 'id', %s, %s, 'ENABLED', true)",
                (config, organization.id, secret, version),
            )
            signing_key = keyring.encrypt(plain, table="partner_key", column="signing_key", row_id=key)
            await db.execute(
                "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, vhost,"
                " amqp_slug, signing_key, key_version, created_by, activated_at) VALUES"
                " (%s, %s, 'K', 'p', 'gf_live_', %s, '{vcp:connect}', %s, %s, %s, %s, %s, now())",
                (key, organization.id, key.bytes, f"partner-{key}", organization.slug, signing_key, version, user_id),
            )
            answer = keyring.encrypt(plain, table="idempotent_answer", column="answer", row_id=f"{user_id}|- POST /x|{name}")
            await idempotency.claim(db, user_id, "- POST /x", name, b"")
            await idempotency.keep(db, user_id, "- POST /x", name, 201, answer, version)
            content = MailContent(name, ("Text",), "Because.")
            await MailQueue(keyring, "http://localhost").put(db, f"{name}@example.com", content)
        self.configs[organization.id] = self.answers[name] = name
        self.keys[key] = plain

    async def read_all(self, keyring: Keyring) -> None:
        """Decrypt every row and compare the content. Raises the errors that the service would raise."""
        async with self.database.transaction() as db:
            await self._read_plants(db, keyring)
            assert (await ensure_authority(db, keyring)).key_pem == self.authority
            for key, plain in self.keys.items():
                found = await load_sending_key(db, keyring, key)
                assert found is not None
                assert found.signing_key == plain
            rows = await store.enabled_configs(db)
            accesses = {row.organization_id: configuration.access_of(row, keyring) for row in rows}
            assert {org: access and access.client_secret for org, access in accesses.items()} == self.configs
            for user, scope, name, answer, version in await _rows(
                db, "SELECT user_id, scope, key, answer, key_version FROM idempotent_answer"
            ):
                place = {"table": "idempotent_answer", "column": "answer", "row_id": f"{user}|{scope}|{name}"}
                assert keyring.decrypt(answer, version, **place) == self.answers[name].encode()
            mails = [open_mail(keyring, **arguments) for (arguments,) in await _rows(db, "SELECT args FROM procrastinate_jobs")]
            assert {mail.to for mail in mails} == {f"{name}@example.com" for name in self.answers}

    async def _read_plants(self, db: Connection, keyring: Keyring) -> None:
        found = await load_signing_keys(db, keyring, list(self.secrets))
        for plant, plain in self.secrets.items():
            keys = found[plant]
            assert keys is not None, plant
            assert (keys.current, keys.previous) == (plain, plain[::-1])
        for plant, version, package in await _rows(
            db, "SELECT plant_id, key_version, package FROM plant_secret WHERE package IS NOT NULL"
        ):
            place = {"table": "plant_secret", "column": "package", "row_id": plant}
            assert keyring.decrypt(package, version, **place) == b"package " + self.secrets[plant]

    async def versions(self) -> dict[str, set[int]]:
        """Return the key versions of the rows by table."""
        async with self.database.transaction() as db:
            found = {
                table: {version for (version,) in await _rows(db, f"SELECT DISTINCT key_version FROM {table}")}
                for table in TABLES
            }
            jobs = await _rows(db, "SELECT DISTINCT (args->>'key_version')::int FROM procrastinate_jobs")
            return found | {"mail": {version for (version,) in jobs}}

    async def break_mail(self) -> None:
        """Corrupt one queued mail."""
        async with self.database.transaction() as db:
            await db.execute(
                "UPDATE procrastinate_jobs SET args = args || %s WHERE task_name = %s",
                (Jsonb({"sealed": base64.b64encode(bytes(40)).decode()}), SEND_MAIL),
            )


async def _rows(db: Connection, query: str) -> list[tuple[Any, ...]]:
    return await (await db.execute(query.encode())).fetchall()
