"""Access to the sandbox: one client per organisation, a secret that is shown once, and tokens that are valid for an hour."""

import hmac
import secrets
from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity.accounts.tokens import digest
from gridfleet.domains.organizations import registry as organizations
from gridfleet.domains.sandbox_esm import store
from gridfleet.domains.sandbox_esm.errors import ClientRefused
from gridfleet.domains.sandbox_esm.models import IssuedCredentials
from gridfleet.kernel.caller import Actor
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["TOKEN_LIFETIME", "client_of", "disable", "enable", "is_enabled", "issue_token"]

TOKEN_LIFETIME: Final = timedelta(hours=1)
_NOBODYS_HASH: Final = digest("")


async def enable(db: Connection, actor: Actor, organization_id: UUID) -> IssuedCredentials:
    """Return new credentials for an organisation: the same client, a new secret. The old secret and its tokens end at once.

    Raises OrganizationNotFound.
    """
    await organizations.get(db, organization_id)
    secret = secrets.token_urlsafe(32)
    client_id = await store.enable_client(db, organization_id, f"sandbox-{secrets.token_hex(8)}", digest(secret))
    await store.delete_tokens(db, client_id)
    await _record(db, Event.SANDBOX_ESM_ENABLED, actor, organization_id, client_id)
    return IssuedCredentials(client_id, secret)


async def disable(db: Connection, actor: Actor, organization_id: UUID) -> None:
    """End an organisation's access. Its plants are kept. Raises OrganizationNotFound."""
    await organizations.get(db, organization_id)
    client_id = await store.disable_client(db, organization_id)
    if client_id is not None:
        await store.delete_tokens(db, client_id)
        await _record(db, Event.SANDBOX_ESM_DISABLED, actor, organization_id, client_id)


async def is_enabled(db: Connection, organization_id: UUID) -> bool:
    """Return whether the organisation has an enabled sandbox client."""
    client = await store.client_of_organization(db, organization_id)
    return client is not None and client.enabled


async def issue_token(db: Connection, client_id: str, client_secret: str) -> str:
    """Return a new token for the client. Raises ClientRefused."""
    client = await store.find_client(db, client_id)
    is_right = hmac.compare_digest(digest(client_secret), client.secret_hash if client else _NOBODYS_HASH)
    if client is None or not is_right or not client.enabled:
        raise ClientRefused
    token = secrets.token_urlsafe(32)
    await store.insert_token(db, client_id, digest(token), utc_now() + TOKEN_LIFETIME)
    return token


async def client_of(db: Connection, token: str) -> tuple[str, UUID]:
    """Return the client that holds the token, by its id, and its organisation. Raises ClientRefused."""
    found = await store.client_of_token(db, digest(token))
    if found is None:
        raise ClientRefused
    return found


async def _record(db: Connection, event: Event, actor: Actor, organization_id: UUID, client_id: str) -> None:
    subject = Subject(SubjectType.ORGANIZATION, organization_id)
    await record(db, event, actor, subject, organization_id=organization_id, details={"clientId": client_id})
