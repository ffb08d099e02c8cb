"""API keys for REST alone, which need no broker."""

from collections.abc import Iterable
from uuid import UUID

from gridfleet.domains.partners.key_text import make_key
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_user


async def key_headers(
    database: Database, organization_id: UUID, scopes: list[str], plant_ids: Iterable[UUID] | None = None
) -> tuple[UUID, dict[str, str]]:
    """Return the id and the headers of a new key. `plant_ids` limits it to some plants."""
    key, key_id, maker = make_key(), new_id(), await add_user(database)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_plant_ids,"
            " vhost, created_by, activated_at) VALUES (%s, %s, 'Key', 'p', %s, %s, %s, %s, '-', %s, now())",
            (
                key_id,
                organization_id,
                key.prefix,
                key.digest,
                scopes,
                None if plant_ids is None else list(plant_ids),
                maker.id,
            ),
        )
    return key_id, {"x-api-key": key.text}
