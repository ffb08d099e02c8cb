"""Acceptance of an invitation with its token: a user with an account joins, a user without one registers first."""

import re
from typing import Final

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.domains.identity.accounts.registry import account_with_email, register
from gridfleet.domains.identity.accounts.tokens import digest
from gridfleet.domains.identity.errors import EmailTaken
from gridfleet.domains.identity.models import Account, Client, OpenedSession
from gridfleet.domains.organizations import members
from gridfleet.domains.organizations.errors import InvitationAccepted, InvitationExpired, InvitationNotFound
from gridfleet.domains.organizations.invitations import store
from gridfleet.domains.organizations.invitations.models import Acceptance, InvitationStatus
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.security.passwords import Passwords

__all__ = ["accept", "check", "register_invited"]

_TOKEN: Final = re.compile(r"[0-9a-f]{64}")


async def check(db: Connection, token: str) -> None:
    """Check that the invitation of a token can still be used.

    Raises:
        InvitationNotFound: The token is unknown, or its invitation is revoked.
        InvitationAccepted: It has been used.
        InvitationExpired: It has expired.
    """
    _open(await store.find_held(db, digest(token)))


async def accept(db: Connection, token: str, ip: str) -> Acceptance:
    """Mark the invitation as accepted, once.

    A user who has an account with the invited address becomes a member at once, also with an invitation that was accepted
    before the account existed.

    Raises:
        InvitationNotFound: The token is unknown, or its invitation is revoked.
        InvitationAccepted: The invitation has already been used.
        InvitationExpired: It has expired.
    """
    held = await store.lock_held(db, digest(token)) if _TOKEN.fullmatch(token) else None
    account = await account_with_email(db, held.email) if held else None
    if held is not None and held.status is InvitationStatus.ACCEPTED and account is None:
        raise InvitationAccepted
    held = _open(held)
    await _finish(db, held, account, ip)
    return Acceptance(joined=account is not None)


async def register_invited(
    database: Database, passwords: Passwords, tokens: AccessTokens, token: str, name: str, password: str, client: Client
) -> OpenedSession:
    """Create an account for the invited address, make it a member, and log it in.

    Takes the database, so that no connection is held while the password is hashed.

    Raises:
        InvitationNotFound: The token is unknown, or its invitation is revoked.
        InvitationAccepted: The invitation has already been used.
        InvitationExpired: It has expired.
        EmailTaken: The address has an account.
    """
    token_hash = digest(token)
    async with database.transaction() as db:
        held = _open(await store.find_held(db, token_hash))
        if await account_with_email(db, held.email) is not None:
            raise EmailTaken
    password_hash = await passwords.hash(password)
    async with database.transaction() as db:
        held = _open(await store.lock_held(db, token_hash))
        account = await register(db, None, held.email, name, password_hash, ip=client.ip)
        await _finish(db, held, account, client.ip)
        # Read again: joining may have set the default organisation.
        account = await account_with_email(db, held.email) or account
        opened = await sessions.open_session(db, tokens, account, password_hash, client)
        if opened is None:
            raise EmailTaken
    return opened


def _open(held: store.HeldInvitation | None) -> store.HeldInvitation:
    """Return the invitation if its token is valid. Raises InvitationNotFound, InvitationAccepted, InvitationExpired."""
    if held is None or held.status is InvitationStatus.REVOKED:
        raise InvitationNotFound
    if held.used:
        raise InvitationAccepted
    if held.status is InvitationStatus.EXPIRED or held.expires_at <= utc_now():
        raise InvitationExpired
    return held


async def _finish(db: Connection, held: store.HeldInvitation, account: Account | None, ip: str) -> None:
    now = utc_now()
    await store.accept(db, held.id, now, used=account is not None)
    actor = Actor(ActorType.USER, str(account.id), ip) if account else Actor(ActorType.ANONYMOUS, ip=ip)
    if held.status is InvitationStatus.PENDING:
        details = {"email": held.email, "role": held.role}
        subject = Subject(SubjectType.INVITATION, held.id)
        await record(db, Event.INVITATION_ACCEPTED, actor, subject, organization_id=held.organization_id, details=details)
    if account is not None:
        # A member who is removed later must not return with another invitation.
        for other, role in await store.revoke_others(db, held, now):
            subject, details = Subject(SubjectType.INVITATION, other), {"email": held.email, "role": role}
            await record(db, Event.INVITATION_REVOKED, actor, subject, organization_id=held.organization_id, details=details)
        await members.add(db, actor, held.organization_id, account.id, held.role)
