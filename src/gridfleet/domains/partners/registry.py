"""Operations on an organisation's API keys: list, get, revoke, acknowledge and test."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.identity.accounts.registry import users_by_id
from gridfleet.domains.identity.models import User
from gridfleet.domains.organizations import registry as organizations
from gridfleet.domains.partners import store, vhosts
from gridfleet.domains.partners.errors import ApiKeyNotFound
from gridfleet.domains.partners.key_text import broker_digest_of
from gridfleet.domains.partners.models import ApiKey
from gridfleet.domains.partners.scopes import AMQP_SCOPES, Scope
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["Trial", "acknowledge_bundle", "get_key", "list_keys", "record_trial", "revoke", "shown", "trial_of"]


class Trial(NamedTuple):
    """What is needed to test a key at the broker. `complaint` says why it cannot be tested, None if it can."""

    slug: str
    vhost: str
    complaint: str | None


async def list_keys(db: Connection, org: OrgScope, paging: Paging) -> Page[ApiKey]:
    """Return one page of the organisation's keys, newest first, with revoked ones."""
    rows = await store.page(db, org, paging)
    creators = await users_by_id(db, {row.created_by for row in rows})
    return Page.of([shown(row, creators) for row in rows], await store.count(db, org), paging)


async def get_key(db: Connection, org: OrgScope, key_id: UUID) -> ApiKey:
    """Return one key. Raises ApiKeyNotFound."""
    row = await store.find(db, org, key_id)
    if row is None:
        raise ApiKeyNotFound
    return shown(row, await users_by_id(db, [row.created_by]))


async def revoke(db: Connection, org: OrgScope, key_id: UUID) -> None:
    """Revoke a key permanently. REST refuses it from the commit on, and the broker closes its connections shortly after.

    Does nothing if the key is already revoked. Raises ApiKeyNotFound.
    """
    found = await store.lock_for_revoking(db, org, key_id)
    if found is None:
        raise ApiKeyNotFound
    was_revoked, at_broker = found
    if was_revoked:
        return
    await store.revoke(db, org, key_id)
    if at_broker is not None:
        await vhosts.queue_ending(db, at_broker)
    await record_in(db, org, Event.API_KEY_REVOKED, Subject(SubjectType.API_KEY, key_id))


async def acknowledge_bundle(db: Connection, org: OrgScope, key_id: UUID) -> None:
    """Record that the user has stored the key's secrets. Does nothing the second time. Raises ApiKeyNotFound."""
    await get_key(db, org, key_id)
    if await store.acknowledge_bundle(db, org, key_id):
        await record_in(db, org, Event.API_KEY_BUNDLE_ACKNOWLEDGED, Subject(SubjectType.API_KEY, key_id))


async def trial_of(db: Connection, org: OrgScope, key_id: UUID, text: str) -> Trial:
    """Return what is needed to test the key with this text. Raises ApiKeyNotFound."""
    key = await get_key(db, org, key_id)
    digest = broker_digest_of(text)
    complaint = None
    if digest is None or not await store.is_key(db, org, key_id, digest):
        complaint = "this is not the text of the key"
    elif not AMQP_SCOPES & set(key.scopes):
        complaint = "the key has no scope for the broker"
    return Trial((await organizations.get(db, org.organization_id)).slug, key.vhost, complaint)


async def record_trial(db: Connection, org: OrgScope, key_id: UUID, duration_ms: int, error: str | None) -> None:
    """Record the result of a test as an audit event. `error` None means success."""
    details = {"ok": error is None, "durationMs": duration_ms, "error": error}
    await record_in(db, org, Event.API_KEY_TEST_CONNECTION, Subject(SubjectType.API_KEY, key_id), details)


def shown(row: store.KeyRow, creators: Mapping[UUID, User]) -> ApiKey:
    """Return the API record of a row. `creators` holds the users by id."""
    return ApiKey(
        **{
            **row._asdict(),
            "scopes": [Scope(scope) for scope in row.scopes],
            "creator": creators[row.created_by],
        }
    )
