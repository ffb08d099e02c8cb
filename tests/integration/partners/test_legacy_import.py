"""Imports of legacy keys: two at the same time, and the organisation of a key."""

import asyncio
from hashlib import sha256
from uuid import uuid4

import pytest

from gridfleet.domains.partners.legacy.importing import Imported, ImportRefused, import_keys, read_keys
from gridfleet.domains.partners.models import LegacyKey
from gridfleet.kernel.db import Database
from gridfleet.kernel.security.keyring import Keyring
from support.builders.accounts import add_organization, add_user


async def rows(database: Database, count: int) -> list[LegacyKey]:
    """Rows of a file, each for another organisation."""
    lines = ["id,organisation,hash,scopes"]
    for _ in range(count):
        organization = await add_organization(database)
        lines.append(f"{uuid4()},{organization.slug},{sha256(organization.id.bytes).hexdigest()},vcp:connect")
    return read_keys("\n".join(lines))


@pytest.mark.parametrize("reverse", [False, True])
async def test_the_second_of_two_imports_is_refused_and_can_be_repeated(database: Database, reverse: bool) -> None:
    keyring, creator = Keyring.parse(Keyring.generate()), (await add_user(database)).id
    keys = await rows(database, 3)
    other = keys[::-1] if reverse else keys

    async def repeat() -> Imported:
        async with database.transaction() as db:
            return await import_keys(db, keyring, creator, other)

    async with database.transaction() as db:
        assert await import_keys(db, keyring, creator, keys) == Imported(3, 0)
        async with asyncio.timeout(3):
            with pytest.raises(ImportRefused, match="another import of keys is running"):
                await repeat()
    assert await repeat() == Imported(0, 3)


async def test_an_id_is_that_of_its_organisation_although_it_is_the_slug_of_another(database: Database) -> None:
    organization, creator = await add_organization(database), (await add_user(database)).id
    await add_organization(database, str(organization.id))
    keys = read_keys(f"id,organisation,hash,scopes\n{uuid4()},{organization.id},{'ab' * 32},vcp:connect")
    async with database.transaction() as db:
        assert await import_keys(db, Keyring.parse(Keyring.generate()), creator, keys) == Imported(1, 0)
        cursor = await db.execute("SELECT organization_id FROM partner_key")
        assert await cursor.fetchall() == [(organization.id,)]
