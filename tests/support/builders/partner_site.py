"""A partner and a site on the test's own database: sent partner commands, the command log, and the plant's commands."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from gridfleet.domains.partners.models import SendingKey
from gridfleet.domains.partners.scopes import AMQP_SCOPES, Scope
from gridfleet.domains.plants.commands.acknowledgements import apply_acknowledgements
from gridfleet.domains.plants.commands.delivery import claim_due, record_published
from gridfleet.domains.plants.commands.expiry import expire_due
from gridfleet.domains.plants.commands.models import Acknowledgement, CommandReason
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.domains.vcp.intake import take_command
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.domains.vcp.scheduler import issue_due_commands
from gridfleet.kernel.db import Database
from gridfleet.protocol.envelope import AckStatus
from support.builders.accounts import add_user
from support.builders.partner_commands import order, sending_key
from support.clients.commands_at_work import add_commandable
from support.clients.ingest_bench import Bench, BenchPlant


@dataclass
class PartnerSite:
    """A plant, and the key of the partner who controls it."""

    database: Database
    plant: BenchPlant
    sender: SendingKey

    async def take(self, message: PartnerMessage, *, now: datetime | None = None, sender: SendingKey | None = None) -> str:
        """Process one message as the gateway does. Returns the status of the acknowledgement."""
        async with self.database.transaction() as db:
            return await take_command(db, sender or self.sender, message, now or datetime.now(UTC), 600)

    async def send(self, kind: str, *, now: datetime | None = None, **members: Any) -> str:
        """Process a new partner command. Returns its acknowledgement status, or the rejection reason."""
        issued = {} if now is None else {"issuedAt": now.isoformat()}
        await self.take(order(kind, self.plant.id, slug=self.sender.key.slug, **issued | members), now=now)
        status: str
        reason: str | None
        status, reason = (await self.log())[-1][1:3]
        return reason or status

    async def log(self) -> list[tuple[Any, ...]]:
        """Return (status, ackStatus, rejectionReason, claims) of every partner command of the organisation, oldest first."""
        return await self.rows(
            "SELECT status, ack_status, rejection_reason, claims_id FROM vcp_command"
            " WHERE organization_id = %(org)s ORDER BY created_at, id"
        )

    async def received(self) -> list[dict[str, Any]]:
        """Return the acknowledgements that wait for the broker, in order, with their ids."""
        rows = await self.rows("SELECT event_id::text, kind, body FROM partner_event WHERE kind = 'command-ack' ORDER BY id")
        return [json.loads(body) | {"eventId": event_id} for event_id, _, body in rows]

    async def commands(self) -> list[tuple[Any, ...]]:
        """Return (type, instruction, status) of the plant's commands in order of issue."""
        return await self.rows(
            "SELECT type, instruction, status FROM plant_command WHERE plant_id = %(plant)s ORDER BY issued_at, id"
        )

    async def newest(self) -> UUID:
        """Return the id of the plant's newest command."""
        [(found,)] = await self.rows(
            "SELECT id FROM plant_command WHERE plant_id = %(plant)s ORDER BY issued_at DESC, id DESC LIMIT 1"
        )
        assert isinstance(found, UUID)
        return found

    async def acknowledge_newest(self, status: str, reason: CommandReason | None = None) -> None:
        """Process the plant's acknowledgement of its newest command as the ingest does."""
        await self.acknowledge({await self.newest(): status}, reason=reason)

    async def acknowledge(
        self,
        acks: Mapping[UUID, str],
        *,
        seconds: float = 0,
        now: datetime | None = None,
        connects: bool = False,
        reason: CommandReason | None = None,
    ) -> None:
        """Process acknowledgements and the connection of the plant as one batch of the ingest, `seconds` from now."""
        now = now or datetime.now(UTC) + timedelta(seconds=seconds)
        said = [Acknowledgement(one, self.plant.id, AckStatus(status), now, reason) for one, status in acks.items()]
        connected = {self.plant.id} if connects else set[UUID]()
        async with self.database.transaction() as db:
            await apply_acknowledgements(db, said, connected, now, follow_commands)

    async def expire(self, seconds: float = 0, *, now: datetime | None = None) -> None:
        """Expire the commands that are due `seconds` from now."""
        now = now or datetime.now(UTC) + timedelta(seconds=seconds)
        async with self.database.transaction() as db:
            await expire_due(db, now, follow_commands)

    async def send_commands(self, seconds: float = 0, *, now: datetime | None = None) -> list[UUID]:
        """Send the commands that are due `seconds` from now to a broker that accepts all. Returns their ids."""
        now = now or datetime.now(UTC) + timedelta(seconds=seconds)
        async with self.database.transaction() as db:
            due = await claim_due(db, self.plant.bench.keyring, now, 100)
            await record_published(db, now, [(encrypted.command, True) for encrypted in due], follow_commands)
        return [encrypted.command.id for encrypted in due]

    async def issue_due(self, seconds: float = 0, *, now: datetime | None = None) -> int:
        """Run the executor as of `seconds` from now."""
        async with self.database.transaction() as db:
            return await issue_due_commands(db, now or datetime.now(UTC) + timedelta(seconds=seconds))

    async def fail_repeatedly(self, times: int, now: datetime) -> tuple[list[int], datetime]:
        """Let the plant fail at its newest command and at each repetition, `times` in all.

        Returns the seconds after which the service issued each repetition, in steps of ten, and the time of the last one.
        """
        pauses = []
        for _ in range(times):
            await self.acknowledge({await self.newest(): "FAILED"}, now=now)
            pause = 29
            assert await self.issue_due(now=now + timedelta(seconds=pause)) == 0
            while not await self.issue_due(now=now + timedelta(seconds=pause)):
                pause += 10
                assert pause < 700
            pauses.append(pause)
            now += timedelta(seconds=pause)
        return pauses, now

    async def set_site(self, **columns: Any) -> None:
        """Update columns of the site's row."""
        names = ", ".join(f"{name} = %({name})s" for name in columns)
        await self.execute(f"UPDATE vcp_site SET {names} WHERE plant_id = %(plant)s", columns)

    async def site(self, columns: str) -> Any:
        """Return columns of the site's row, or None."""
        rows = await self.rows(f"SELECT {columns} FROM vcp_site WHERE plant_id = %(plant)s")
        return rows[0] if rows else None

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query about this site."""
        async with self.database.transaction() as db:
            return await (await db.execute(query.encode(), self._names())).fetchall()

    async def execute(self, statement: str, values: dict[str, Any] | None = None) -> None:
        """Run a statement and commit."""
        async with self.database.transaction() as db:
            await db.execute(statement.encode(), self._names() | (values or {}))

    def _names(self) -> dict[str, Any]:
        return {"plant": self.plant.id, "org": self.plant.organization_id, "key": self.sender.key.id}


async def partner_site(database: Database, bench: Bench | None = None) -> PartnerSite:
    """Return a site with a battery, and a stored key of its organisation with declared queues."""
    bench = bench or Bench(database)
    plant = await bench.plant()
    await add_commandable(plant)
    async with database.transaction() as db:
        cursor = await db.execute("SELECT slug FROM organization WHERE id = %s", (plant.organization_id,))
        row = await cursor.fetchone()
        assert row is not None
        slug = str(row[0])
    sender = await add_key(bench, plant.organization_id, slug)
    async with database.transaction() as db:
        await db.execute("INSERT INTO partner_queues VALUES (%s, %s, true)", (plant.organization_id, slug))
    return PartnerSite(database, plant, sender)


async def add_key(
    bench: Bench,
    organization_id: UUID,
    slug: str,
    scopes: frozenset[Scope] = AMQP_SCOPES,
    plant_ids: list[UUID] | None = None,
) -> SendingKey:
    """Add a key to the database and return it."""
    sender = sending_key(organization_id, slug=slug, scopes=scopes, plant_ids=plant_ids)
    key = sender.key
    assert sender.signing_key is not None
    user = await add_user(bench.database)
    encrypted = bench.keyring.encrypt(sender.signing_key, table="partner_key", column="signing_key", row_id=key.id)
    async with bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_plant_ids,"
            " vhost, amqp_slug, signing_key, key_version, created_by, activated_at)"
            " VALUES (%s, %s, 'Key', 'partner', 'gf_live_', %s, %s, %s, %s, %s, %s, 1, %s, now())",
            (key.id, organization_id, key.id.bytes, sorted(scopes), plant_ids, key.vhost, slug, encrypted, user.id),
        )
    return sender
