"""Accounts: created by SuperAdmins and by invitations, listed for SuperAdmins."""

from collections.abc import Collection
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity.accounts import store
from gridfleet.domains.identity.emails import normalized
from gridfleet.domains.identity.errors import EmailTaken, UserNotFound
from gridfleet.domains.identity.models import Account, User, UserFilter
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["account_with_email", "get_user", "list_users", "register", "users_by_id"]


async def register(
    db: Connection, actor: Actor | None, email: str, name: str, password_hash: str, *, ip: str | None = None
) -> Account:
    """Create an account. Without an `actor`, the new user is the actor, at the address `ip`. Raises EmailTaken."""
    account = await store.insert_account(db, new_id(), normalized(email), name, password_hash)
    if account is None:
        raise EmailTaken
    by = actor or Actor(ActorType.USER, str(account.id), ip)
    await record(db, Event.USER_REGISTERED, by, Subject.user(account.id), details={"email": account.email})
    return account


async def account_with_email(db: Connection, email: str) -> Account | None:
    """Return the account of an e-mail address, or None."""
    return await store.find_account_by_email(db, normalized(email))


async def list_users(db: Connection, wanted: UserFilter, paging: Paging) -> Page[User]:
    """Return one page of the accounts that match, newest first."""
    return Page.of(await store.list_users(db, wanted, paging), await store.count_users(db, wanted), paging)


async def get_user(db: Connection, user_id: UUID) -> User:
    """Return one account. Raises UserNotFound."""
    found = await store.find_users(db, [user_id])
    if not found:
        raise UserNotFound
    return found[0]


async def users_by_id(db: Connection, user_ids: Collection[UUID]) -> dict[UUID, User]:
    """Return those of the accounts that exist, by id."""
    return {user.id: user for user in await store.find_users(db, list(user_ids))} if user_ids else {}
