"""Open commands end when their plant or sub-device is revoked or deleted, and partners are notified of the end."""

import asyncio
from collections.abc import Awaitable
from uuid import UUID

import pytest

from gridfleet.domains.alerts import deletion as alert_deletion
from gridfleet.domains.plants.errors import SubDeviceNotFound
from gridfleet.domains.plants.lifecycle import revoke_plant
from gridfleet.domains.plants.sub_devices.registry import delete_sub_device
from gridfleet.domains.vcp.deletion import delete_plant
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from support.builders.alerting import add_rule
from support.builders.interleaving import is_locked, until_blocked
from support.builders.partner_commands import soon
from support.builders.partner_site import PartnerSite
from support.clients.commands_at_work import issue


def administrator(site: PartnerSite) -> OrgScope:
    caller = UserCaller(new_id(), new_id(), "admin@example.com", "Admin", False, None)
    return OrgScope(site.plant.organization_id, OrgRole.ORG_ADMIN, caller)


async def reasons(site: PartnerSite) -> list[tuple[str, str]]:
    """Return status and reason of the commands, in order of issue."""
    return await site.rows("SELECT status, reason->>'code' FROM plant_command ORDER BY issued_at, id")


@pytest.mark.parametrize("received", [False, True])
async def test_the_commands_of_a_deleted_device_end(site: PartnerSite, received: bool) -> None:
    assert await site.send("command.device.BAT1", action="stop") == "ACCEPTED"
    await issue(site.plant)
    if received:
        await site.acknowledge_newest("RECEIVED")
    await site.send("command.site-setpoint", powerKw=1)
    async with site.database.transaction() as db:
        await delete_sub_device(db, administrator(site), site.plant.id, "BAT1")

    await site.expire()
    assert await reasons(site) == [("EXPIRED", "DEVICE_DELETED"), ("EXPIRED", "DEVICE_DELETED"), ("PENDING", None)]
    assert await site.send_commands() == [await site.newest()], "only the setpoint is sent"
    assert [ack["ackStatus"] for ack in await site.received()] == ["ACCEPTED", "ACCEPTED", "EXPIRED"]


async def test_a_command_that_is_issued_while_its_device_is_deleted_is_refused(site: PartnerSite) -> None:
    async with site.database.transaction() as db:
        await delete_sub_device(db, administrator(site), site.plant.id, "BAT1")
        issuing = asyncio.create_task(issue(site.plant))
        await until_blocked(site.database)
    with pytest.raises(SubDeviceNotFound):
        await issuing
    assert await site.commands() == []


async def test_a_device_is_deleted_while_its_plant_is_deleted(site: PartnerSite) -> None:
    command = await issue(site.plant)

    async def delete_device() -> None:
        async with site.database.transaction() as db:
            await delete_sub_device(db, administrator(site), site.plant.id, "BAT1")

    async with site.database.transaction() as db:
        await db.execute("SELECT FROM plant_command WHERE id = %s FOR NO KEY UPDATE", (command,))
        deleting = asyncio.create_task(delete_device())
        await until_blocked(site.database)
        removing = asyncio.create_task(deleted(site))
        await asyncio.sleep(0.2)
    await asyncio.gather(deleting, removing)
    assert await site.commands() == []


async def deleted(site: PartnerSite) -> None:
    await delete_plant(site.database, administrator(site), site.plant.id)


async def revoked(db: Connection, site: PartnerSite) -> None:
    await revoke_plant(db, administrator(site), site.plant.id)


async def test_the_commands_of_a_revoked_plant_end(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    await issue(site.plant)
    async with site.database.transaction() as db:
        await revoked(db, site)
    await site.expire()
    assert await reasons(site) == [("EXPIRED", "PLANT_REVOKED")] * 2
    assert [ack["ackStatus"] for ack in await site.received()] == ["ACCEPTED", "EXPIRED"]


async def test_a_partner_is_notified_that_the_command_of_a_deleted_plant_ended(site: PartnerSite) -> None:
    await site.send("command.mode", mode="STANDBY", expiresAt=soon(3600))
    await issue(site.plant)
    await site.send("command.site-setpoint", powerKw=1)
    await site.acknowledge_newest("APPLIED")
    await deleted(site)
    assert await site.log() == []
    acks = await site.received()
    assert [(ack["commandType"], ack["ackStatus"]) for ack in acks] == [
        ("MODE_CHANGE", "ACCEPTED"),
        ("SITE_SETPOINT", "ACCEPTED"),
        ("SITE_SETPOINT", "APPLIED"),
        ("MODE_CHANGE", "EXPIRED"),
    ]
    assert acks[-1]["messageId"] == acks[0]["messageId"]


async def device_deleted(site: PartnerSite) -> None:
    await alert_deletion.delete_sub_device(site.database, administrator(site), site.plant.id, "BAT1")


async def carry_out(site: PartnerSite, deletion: Awaitable[None], history: str, table: str, row_id: UUID) -> None:
    """Carry out a deletion, and check that it has not locked the row of `table` when it changes the first row of `history`."""
    await site.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN coalesce(NEW, OLD); END $$"
    )
    await site.execute(f"CREATE TRIGGER waits BEFORE UPDATE OR DELETE ON {history} FOR EACH ROW EXECUTE FUNCTION wait()")
    async with site.database.transaction() as db:
        await db.execute("SELECT pg_advisory_xact_lock(1)")
        deleting = asyncio.ensure_future(deletion)
        await until_blocked(site.database)
        assert not await is_locked(site.database, table, row_id)
    await deleting


async def test_the_messages_of_other_plants_do_not_wait_while_years_of_alerts_are_deleted(
    site: PartnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.kernel.db.batches.BATCH_ROWS", 2)
    rule = await add_rule(site.database, site.plant.organization_id, plant_id=site.plant.id)
    await site.execute(
        "INSERT INTO alert (id, organization_id, plant_id, rule_id, severity, message, metric, value, measured_at)"
        f" SELECT gen_random_uuid(), organization_id, id, '{rule.id}', 'INFO', 'Low', 'soc', 1, now()"
        " FROM plant, generate_series(1, 5)"
    )
    await carry_out(site, deleted(site), "alert", "plant", site.plant.id)
    assert await site.rows("SELECT FROM alert") == []
    assert await site.rows("SELECT FROM plant") == []


@pytest.mark.parametrize("table", ["plant", "sub_device"])
async def test_the_messages_of_other_plants_do_not_wait_while_years_of_commands_are_changed(
    site: PartnerSite, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.kernel.db.batches.BATCH_ROWS", 2)
    for _ in range(5):
        await site.send("command.device.BAT1", action="stop")
        await site.acknowledge_newest("APPLIED")
    [(row_id,)] = await site.rows(f"SELECT id FROM {table}")
    await carry_out(site, deleted(site) if table == "plant" else device_deleted(site), "plant_command", table, row_id)
    assert await site.rows(f"SELECT FROM {table}") == []
    kept = 0 if table == "plant" else 5
    assert (len(await site.commands()), len(await site.log())) == (kept, kept)
