"""Which clock decides that a key has expired: the database's, for REST and for the broker."""

from datetime import UTC, datetime, timedelta

import pytest

from gridfleet.domains.partners import vhosts
from gridfleet.domains.partners.amqp_access.decisions import AdmittedKey, enter_vhost, find_rights, log_in
from gridfleet.domains.partners.key_text import make_key
from gridfleet.domains.partners.scopes import LEGACY_VHOST, Scope
from gridfleet.kernel.db import Database
from support.builders.clock import set_clock
from support.builders.partner_site import PartnerSite, add_key, partner_site
from support.builders.telemetry_records import RecordedPlant


async def test_a_key_keeps_its_vhost_although_the_gateways_clock_is_ahead(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, lambda: datetime.now(UTC) + timedelta(hours=1))
    site = await partner_site(database)
    for expiry, ended in (("30 minutes", 0), ("0", 1)):
        await site.execute(f"UPDATE partner_key SET expires_at = now() + interval '{expiry}' WHERE id = %(key)s")
        async with database.transaction() as db:
            assert await vhosts.expire_due(db) == ended


async def test_a_new_key_waits_for_its_proof_although_the_gateways_clock_is_ahead(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, lambda: datetime.now(UTC) + timedelta(hours=1))
    site = await partner_site(database)
    await site.execute("UPDATE partner_key SET activated_at = NULL WHERE id = %(key)s")
    for age, deleted in (("0", 0), ("3 minutes", 1)):
        await site.execute(f"UPDATE partner_key SET created_at = now() - interval '{age}' WHERE id = %(key)s")
        async with database.transaction() as db:
            assert await vhosts.expire_due(db) == deleted


async def test_a_new_key_that_expires_is_proved_all_the_same(database: Database) -> None:
    """Otherwise it would be deleted, and neither limit of the number of keys would count it."""
    site = await partner_site(database)
    text, key = make_key(), site.sender.key
    await site.execute(
        "UPDATE partner_key SET key_hash = %(hash)s, activated_at = NULL, expires_at = now() WHERE id = %(key)s",
        {"hash": text.digest},
    )
    for is_proven in (False, True):
        async with database.transaction() as db:
            login = await log_in(db, key.slug, text.text)
            entry = await enter_vhost(db, key.id, key.slug, key.vhost, "192.0.2.1", None)
            ended = await vhosts.expire_due(db)
        assert (isinstance(login, AdmittedKey), entry, ended) == ((False, "expired", 1) if is_proven else (True, None, 0))
        await site.execute("UPDATE partner_key SET activated_at = now() WHERE id = %(key)s")


async def test_an_expired_key_has_no_rights_before_its_access_is_ended(database: Database) -> None:
    """The gateway ends it while the broker's management API answers; the key's connections stay open until then."""
    site = await partner_site(database)
    for expiry, is_proven, has_rights in (("1 minute", True, True), ("0", True, False), ("0", False, True)):
        await site.execute(
            f"UPDATE partner_key SET expires_at = now() + interval '{expiry}',"
            f" activated_at = CASE WHEN {is_proven} THEN now() END WHERE id = %(key)s"
        )
        async with database.transaction() as db:
            assert (await find_rights(db, site.sender.key.id) is not None) == has_rights


async def end_early(site: PartnerSite) -> None:
    """End the broker access of all keys, as the gateway does while the clock is ahead of their expiry."""
    await site.execute("UPDATE partner_key SET expires_at = now()")
    async with site.database.transaction() as db:
        await vhosts.expire_due(db)
    await site.execute("UPDATE partner_key SET expires_at = now() + interval '1 day'")
    await site.execute("DELETE FROM outbox")


async def restored(site: PartnerSite) -> int:
    async with site.database.transaction() as db:
        return await vhosts.restore_ended(db)


async def test_a_key_that_a_clock_ahead_has_ended_uses_the_broker_again(database: Database) -> None:
    site = await partner_site(database)
    await end_early(site)
    await site.execute("UPDATE organization SET slug = 'renamed' WHERE id = %(org)s")

    assert [await restored(site), await restored(site)] == [1, 0]

    assert await site.rows("SELECT amqp_slug FROM partner_key") == [("renamed",)]
    effects = await site.rows("SELECT kind, payload FROM outbox")
    assert [kind for kind, _ in effects] == [vhosts.UPDATE] * 2
    async with database.transaction() as db:
        wanted = await vhosts.wanted_vhost(db, effects[0][1])
    assert (wanted.vhost, wanted.slug, wanted.is_needed) == (site.sender.key.vhost, "renamed", True)


@pytest.mark.parametrize("change", ["revoked_at = now()", "activated_at = NULL", "expires_at = now()", "expires_at = NULL"])
async def test_a_key_that_has_ended_by_itself_stays_ended(database: Database, change: str) -> None:
    site = await partner_site(database)
    await end_early(site)
    await site.execute(f"UPDATE partner_key SET {change}")
    assert await restored(site) == 0


async def test_a_key_for_rest_alone_is_not_restored(database: Database) -> None:
    site = await partner_site(database)
    key = (
        await add_key(site.plant.bench, site.plant.organization_id, site.sender.key.slug, frozenset({Scope.PLANTS_READ}))
    ).key
    await end_early(site)
    assert await restored(site) == 1
    assert await site.rows("SELECT id FROM partner_key WHERE amqp_slug IS NULL") == [(key.id,)]


async def test_one_key_of_an_organisation_uses_the_shared_vhost_again(database: Database) -> None:
    """An organisation that needed its key while the clock was ahead may have imported another one."""
    site = await partner_site(database)
    newer = (await add_key(site.plant.bench, site.plant.organization_id, site.sender.key.slug)).key
    await end_early(site)
    await site.execute(f"UPDATE partner_key SET vhost = '{LEGACY_VHOST}'")
    assert [await restored(site), await restored(site)] == [1, 0]
    assert await site.rows("SELECT id FROM partner_key WHERE amqp_slug IS NOT NULL") == [(newer.id,)]


async def test_a_clock_that_is_behind_restores_no_key(database: Database) -> None:
    """Keys that expired years ago would all get their vhosts again."""
    site = await partner_site(database)
    await end_early(site)
    recorded = RecordedPlant(database, site.plant.organization_id, site.plant.id)
    await recorded.write(None, ["a"], {datetime.now(UTC) + timedelta(days=1): [1.0]})
    assert await restored(site) == 0
