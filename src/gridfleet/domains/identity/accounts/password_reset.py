"""Password reset with a mailed token that is valid once, for an hour.

A request does the same work whether or not the address has an account: it queues a job, which looks the account up. Neither
the response nor its time shows whether an account exists.
"""

from datetime import timedelta
from typing import Final

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import store as sessions_store
from gridfleet.domains.identity.accounts import mails, store, tokens
from gridfleet.domains.identity.emails import normalized
from gridfleet.domains.identity.errors import TokenDead
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.jobs import ACCOUNTS, defer
from gridfleet.kernel.mail.queue import MailQueue
from gridfleet.kernel.security.passwords import Passwords

__all__ = ["LIFETIME", "PAUSE", "START_TASK", "request", "reset", "start"]

LIFETIME: Final = timedelta(hours=1)
PAUSE: Final = timedelta(minutes=15)
"""Minimum time between two mails to one address.

A mail ends the link of the one before, and anyone can request one: in this time, the owner can use the newest link.
"""

START_TASK: Final = "identity.start_password_reset"
"""The task that `request` queues; it calls `start`."""


async def request(db: Connection, email: str, ip: str) -> None:
    """Queue the look-up of the address's account."""
    await defer(db, START_TASK, {"email": normalized(email), "ip": ip}, queue=ACCOUNTS)


async def start(db: Connection, mail: MailQueue, email: str, ip: str) -> None:
    """Mail a reset token to the account of an address, if there is one and it is not disabled.

    The earlier token ends. Within PAUSE after it was mailed, it stays, and no mail is sent.
    """
    # A change of the address waits for this transaction, and then deletes the token, which goes to the former address.
    account = await store.hold_account_by_email(db, email)
    if account is None or await store.is_disabled(db, account.id):
        return
    token, now = tokens.make_token(), utc_now()
    if not await store.save_password_reset(db, account.id, token.digest, now, now + LIFETIME, now - PAUSE):
        return
    subject = Subject.user(account.id)
    await record(db, Event.USER_PASSWORD_RESET_REQUESTED, Actor(ActorType.ANONYMOUS, ip=ip), subject)
    await mail.put(db, account.email, mails.reset_password(account.name, token.text))


async def reset(database: Database, passwords: Passwords, mail: MailQueue, token: str, new: str, ip: str) -> None:
    """Set a new password for the token's owner, end all sessions, lift the lock, and mail a confirmation.

    Raises:
        TokenDead: The token is unknown, expired, used, or was replaced by a newer one.
    """
    token_hash = tokens.digest(token)
    async with database.transaction() as db:
        if await store.find_password_reset(db, token_hash, utc_now()) is None:
            raise TokenDead
    new_hash = await passwords.hash(new)
    async with database.transaction() as db:
        now = utc_now()
        user_id = await store.take_password_reset(db, token_hash, now)
        account = await sessions_store.find_account(db, user_id) if user_id else None
        if account is None:
            raise TokenDead
        await store.set_password(db, account.id, new_hash)
        await sessions_store.raise_token_version(db, account.id)
        await sessions_store.revoke_sessions(db, account.id, None, now)
        await store.delete_email_change(db, account.id)
        await sessions_store.delete_failures(db, tokens.digest(account.email))
        actor = Actor(ActorType.USER, str(account.id), ip)
        await record(db, Event.USER_PASSWORD_RESET, actor, Subject.user(account.id))
        await mail.put(db, account.email, mails.password_changed(account.name))
