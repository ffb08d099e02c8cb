"""SuperAdmins as the operator manages them on the command line: with access to the database, without a session."""

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import store as sessions_store
from gridfleet.domains.identity.accounts import store
from gridfleet.domains.identity.accounts.tokens import digest
from gridfleet.domains.identity.emails import is_address, normalized
from gridfleet.domains.identity.errors import EmailTaken, UserNotFound
from gridfleet.domains.identity.models import User
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id

__all__ = ["create_super_admin", "list_super_admins", "promote", "set_password"]

_OPERATOR = Actor(ActorType.SYSTEM)


async def list_super_admins(db: Connection) -> list[User]:
    """Return every SuperAdmin, oldest account first."""
    return await store.list_super_admins(db)


async def create_super_admin(db: Connection, email: str, name: str, password_hash: str) -> None:
    """Create an account that is a SuperAdmin.

    Raises:
        ValueError: `email` is no e-mail address.
        EmailTaken: The address has an account.
    """
    if not is_address(normalized(email)):
        raise ValueError(f"{email!r} is not an e-mail address")
    account = await store.insert_account(db, new_id(), normalized(email), name, password_hash, is_super_admin=True)
    if account is None:
        raise EmailTaken
    subject = Subject.user(account.id)
    await record(db, Event.USER_REGISTERED, _OPERATOR, subject, details={"email": account.email})
    await record(db, Event.USER_MADE_SUPER_ADMIN, _OPERATOR, subject)


async def promote(db: Connection, email: str) -> bool:
    """Make an account a SuperAdmin. Returns False if it is one already. Raises UserNotFound."""
    account = await store.find_account_by_email(db, normalized(email))
    if account is None:
        raise UserNotFound
    if account.is_super_admin:
        return False
    await store.make_super_admin(db, account.id)
    await record(db, Event.USER_MADE_SUPER_ADMIN, _OPERATOR, Subject.user(account.id))
    return True


async def set_password(db: Connection, email: str, password_hash: str) -> None:
    """Set a user's password, end all sessions and lift the lock. Raises UserNotFound."""
    account = await store.find_account_by_email(db, normalized(email))
    if account is None:
        raise UserNotFound
    await store.set_password(db, account.id, password_hash)
    await sessions_store.raise_token_version(db, account.id)
    await sessions_store.revoke_sessions(db, account.id, None, utc_now())
    await store.delete_email_change(db, account.id)
    await store.delete_password_reset(db, account.id)
    await sessions_store.delete_failures(db, digest(account.email))
    await record(db, Event.USER_PASSWORD_RESET, _OPERATOR, Subject.user(account.id))
