"""Effects of a legacy key that ended leave the queues of another organisation alone that has its slug by then."""

from uuid import UUID

import pytest

from gridfleet.domains.partners import registry, vhosts
from gridfleet.domains.partners.scopes import LEGACY_VHOST
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.partner_site import add_key
from support.clients.ingest_bench import Bench

SLUG = "acme"


async def add_legacy_key(database: Database, organization_id: UUID) -> UUID:
    """Add a legacy key with declared queues and return its id."""
    key = (await add_key(Bench(database), organization_id, SLUG)).key
    async with database.transaction() as db:
        await db.execute("UPDATE partner_key SET vhost = %s WHERE id = %s", (LEGACY_VHOST, key.id))
        await db.execute("INSERT INTO partner_queues VALUES (%s, %s, true)", (organization_id, SLUG))
    return key.id


@pytest.mark.parametrize("unwanted", [[], ["acme.inbound"]])
async def test_the_next_owner_of_the_slug_keeps_its_queues(database: Database, unwanted: list[str]) -> None:
    former = await add_organization(database, SLUG)
    key_id = await add_legacy_key(database, former.id)
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    async with database.transaction() as db:
        await registry.revoke(db, OrgScope(former.id, OrgRole.ORG_ADMIN, caller), key_id)
        cursor = await db.execute("SELECT payload FROM outbox WHERE kind = %s", (vhosts.REMOVE,))
        payload = (await cursor.fetchall())[0][0]
        cursor = await db.execute("SELECT DISTINCT payload->>'organizationId' FROM outbox")
        assert await cursor.fetchall() == [(str(former.id),)]
    async with database.transaction() as db:
        assert (await vhosts.wanted_vhost(db, payload)).unwanted >= {"acme.inbound"}
        await db.execute("DELETE FROM organization WHERE id = %s", (former.id,))
    await add_legacy_key(database, (await add_organization(database, SLUG)).id)
    async with database.transaction() as db:
        wanted = await vhosts.wanted_vhost(db, {**payload, "unwanted": unwanted})
    assert (wanted.is_needed, wanted.queues, wanted.unwanted) == (False, None, frozenset())
