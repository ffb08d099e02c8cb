"""Invitations as the organisation manages them: invite, list, revoke."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record, record_in
from gridfleet.domains.identity.accounts.registry import account_with_email
from gridfleet.domains.identity.accounts.tokens import make_token
from gridfleet.domains.identity.emails import normalized
from gridfleet.domains.organizations import registry
from gridfleet.domains.organizations import store as organizations_store
from gridfleet.domains.organizations.errors import (
    AlreadyMember,
    InvitationNotFound,
    InvitationNotRevocable,
    InvitationPending,
)
from gridfleet.domains.organizations.invitations import mails, store
from gridfleet.domains.organizations.invitations.models import Invitation, ListedInvitation
from gridfleet.domains.organizations.membership import require_admin
from gridfleet.domains.organizations.models import RoleName
from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.queue import MailQueue
from gridfleet.kernel.pagination import Page, Paging
from gridfleet.kernel.rate_limit import refuse_within_a_day

__all__ = [
    "LIFETIME",
    "MOST_A_DAY",
    "MOST_OF_ORGANIZATION_A_DAY",
    "SHARE_A_DAY",
    "invite",
    "list_invitations",
    "revoke",
    "revoke_of",
    "revoke_of_member",
    "sweep_expired",
]

LIFETIME: Final = timedelta(days=7)
MOST_A_DAY: Final = 10
"""Maximum invitations to one address within 24 hours, of all organisations together: each of them is a mail."""
SHARE_A_DAY: Final = 2
"""Invitations of an organisation to one address within 24 hours that are allowed beyond the maximum.

Otherwise an organisation could keep others from inviting a person whose address it knows.
"""
MOST_OF_ORGANIZATION_A_DAY: Final = 500
"""Maximum invitations of an organisation within 24 hours: the mails of all organisations wait in one queue.

Requests at the same time may exceed it slightly.
"""


async def invite(db: Connection, mail: MailQueue, org: OrgScope, email: str, role: RoleName) -> Invitation:
    """Invite an address and mail it the token.

    Raises:
        AlreadyMember: The address belongs to a member.
        InvitationPending: It has a pending invitation of this organisation.
        TooManyRequests: It was invited too often within a day, also by this organisation, or the organisation invited too many.
        Forbidden: The caller is no longer an ORG_ADMIN of the organisation.
    """
    # Removing the caller waits for this transaction, and then revokes the invitation.
    await require_admin(db, org)
    email, now, token = normalized(email), utc_now(), make_token()
    if await organizations_store.has_member_with_email(db, org, email):
        raise AlreadyMember
    await store.mark_expired_in(db, org, now)
    invitation = await store.insert(db, org, new_id(), email, role, token.digest, now, now + LIFETIME)
    if invitation is None:
        raise InvitationPending
    refuse_within_a_day(await store.nth_newest(db, org, MOST_OF_ORGANIZATION_A_DAY + 1))
    if (own := await store.nth_newest(db, org, SHARE_A_DAY + 1, email)) is not None:
        every = await store.nth_newest_to(db, email, MOST_A_DAY + 1)
        refuse_within_a_day(None if every is None else min(own, every))
    organization = await registry.get(db, org.organization_id)
    has_account = await account_with_email(db, email) is not None
    content = mails.invitation(organization.name, org.person.name, role, token.text, has_account=has_account)
    await mail.put(db, email, content)
    await _record(db, Event.INVITATION_CREATED, org, invitation)
    return invitation


async def list_invitations(db: Connection, org: OrgScope, paging: Paging) -> Page[ListedInvitation]:
    """Return one page of the organisation's invitations, newest first."""
    return Page.of(await store.list_page(db, org, paging), await store.count(db, org), paging)


async def revoke(db: Connection, org: OrgScope, invitation_id: UUID) -> None:
    """Invalidate the token of an invitation that is pending, or accepted without an account yet.

    Raises:
        InvitationNotFound: The organisation has no such invitation.
        InvitationNotRevocable: It was used, has expired or is revoked.
    """
    revoked = await store.revoke(db, org, invitation_id, utc_now())
    if revoked is not None:
        await _record(db, Event.INVITATION_REVOKED, org, revoked)
    elif await store.find(db, org, invitation_id) is None:
        raise InvitationNotFound
    else:
        raise InvitationNotRevocable


async def revoke_of_member(db: Connection, org: OrgScope, user_id: UUID) -> None:
    """Revoke the invitations of a user who may no longer invite to the organisation.

    The user could otherwise return with one of them, to an address of their own.
    """
    for invitation in await store.revoke_of(db, user_id, utc_now(), org):
        await _record(db, Event.INVITATION_REVOKED, org, invitation)


async def revoke_of(db: Connection, scope: PlatformScope, user_id: UUID) -> None:
    """Revoke the invitations of a user who may no longer act, in all organisations."""
    actor = scope.actor.as_actor
    for invitation in await store.revoke_of(db, user_id, utc_now()):
        subject, details = Subject(SubjectType.INVITATION, invitation.id), _details(invitation)
        await record(db, Event.INVITATION_REVOKED, actor, subject, organization_id=invitation.organization_id, details=details)


async def sweep_expired(db: Connection) -> None:
    """Mark pending invitations that have expired."""
    await store.mark_expired(db, utc_now())


async def _record(db: Connection, event: Event, org: OrgScope, invitation: Invitation) -> None:
    await record_in(db, org, event, Subject(SubjectType.INVITATION, invitation.id), _details(invitation))


def _details(invitation: Invitation) -> dict[str, str]:
    return {"email": invitation.email, "role": invitation.role}
