"""Names of those who acted in an organisation."""

from collections.abc import Iterable
from uuid import UUID

from gridfleet.domains.organizations import store
from gridfleet.kernel.caller import KeyCaller, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import parse_uuid

__all__ = ["actor_names", "may_read_names"]


def may_read_names(org: OrgScope) -> bool:
    """Return whether the caller may read names. A program with an API key belongs to a partner and reads none."""
    return not isinstance(org.actor, KeyCaller)


async def actor_names(db: Connection, org: OrgScope, actor_ids: Iterable[str | None]) -> dict[str | None, str]:
    """Return the names of users and API keys by their ids, as far as the caller may read them.

    Every member reads the names of members, of SuperAdmins and of the organisation's keys. Ids of others, such as users who
    have left the organisation, have no name.
    """
    if not may_read_names(org):
        return {}
    wanted: set[UUID] = {found for text in actor_ids if text is not None and (found := parse_uuid(text)) is not None}
    if not wanted:
        return {}
    return {str(actor_id): name for actor_id, name in (await store.actor_names(db, org, wanted)).items()}
