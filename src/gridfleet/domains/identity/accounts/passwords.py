"""Passwords of logged-in users: confirmation before sensitive changes, and the change itself.

A person who has taken over an open session could guess the password here. Wrong passwords therefore lock this confirmation, as
at login, but not the login itself: the account's owner must still be able to log in.
"""

from typing import Final

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.queries import limit_a_day
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import lockout
from gridfleet.domains.identity import store as sessions_store
from gridfleet.domains.identity.accounts import mails, store
from gridfleet.domains.identity.errors import WrongPassword
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.errors import CodedError, TooManyRequests
from gridfleet.kernel.mail.queue import MailQueue
from gridfleet.kernel.security.passwords import Passwords

__all__ = ["MOST_A_DAY", "change_password", "confirm_password"]

MOST_A_DAY: Final = 10
"""Changes of a user's password within 24 hours. Each sends a mail."""


async def confirm_password(database: Database, passwords: Passwords, caller: UserCaller, password: str | None) -> str:
    """Check the caller's current password and return the hash that it matched.

    Takes the database because a failure is counted although the request fails, and no connection is held while the password
    is hashed.

    Raises:
        WrongPassword: The password is missing or wrong.
        TooManyRequests: There were ten wrong ones.
    """
    if password is None:
        raise WrongPassword
    async with database.transaction() as db:
        stored = await store.find_password_hash(db, caller.user_id)
    right = await passwords.matches(password, stored)
    async with database.transaction() as db:
        refusal: CodedError | None = None
        what, now = f"password of {caller.user_id}", utc_now()
        if right:
            locked = await lockout.clear(db, what, now)
        else:
            verdict = await lockout.record_failure(db, what, now)
            locked, refusal = verdict.was_locked, WrongPassword()
            if not locked:
                await record(db, Event.USER_PASSWORD_REFUSED, caller.as_actor, Subject.user(caller.user_id))
    if locked:
        raise TooManyRequests(int(lockout.LOCK.total_seconds()))
    if refusal is not None or stored is None:
        raise refusal or WrongPassword()
    return stored


async def change_password(
    database: Database, passwords: Passwords, mail: MailQueue, caller: UserCaller, current: str, new: str
) -> None:
    """Change the caller's password, end their other sessions, and invalidate tokens that were sent by mail.

    The caller is informed by mail.

    Raises:
        WrongPassword: `current` is not the password.
        TooManyRequests: There were ten wrong ones, or `MOST_A_DAY` changes.
    """
    subject = Subject.user(caller.user_id)
    async with database.transaction() as db:
        await limit_a_day(db, Event.USER_PASSWORD_CHANGED, subject, MOST_A_DAY)
    old_hash = await confirm_password(database, passwords, caller, current)
    new_hash = await passwords.hash(new)
    async with database.transaction() as db:
        if not await store.set_password(db, caller.user_id, new_hash, old_hash):
            raise WrongPassword
        await sessions_store.revoke_sessions(db, caller.user_id, caller.session_id, utc_now())
        await store.delete_email_change(db, caller.user_id)
        await store.delete_password_reset(db, caller.user_id)
        await record(db, Event.USER_PASSWORD_CHANGED, caller.as_actor, subject)
        await mail.put(db, caller.email, mails.password_changed(caller.name))
