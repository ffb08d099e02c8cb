"""Passwords of people who are logged in: asked again before something grave, and changed.

Whoever sits at an open session could try passwords here; so wrong ones lock as at login, though only this question and not
the login itself: the owner must not be shut out by it.
"""

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import lockout
from gridfleet.domains.identity import store as sessions_store
from gridfleet.domains.identity.accounts import letters, store
from gridfleet.domains.identity.errors import WrongPassword
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.errors import CodedError, TooManyRequests
from gridfleet.kernel.mail.queue import MailQueue
from gridfleet.kernel.security.passwords import Passwords

__all__ = ["change_password", "confirm_password"]


async def confirm_password(database: Database, passwords: Passwords, caller: UserCaller, password: str | None) -> str:
    """The hash that the caller's current password matched.

    Takes the database because a failure counts although the request fails, and no connection waits while the password is
    hashed. Raises WrongPassword, and TooManyRequests after ten wrong ones.
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
                await record(db, Event.USER_PASSWORD_REFUSED, caller.as_actor, Subject(SubjectType.USER, caller.user_id))
    if locked:
        raise TooManyRequests(int(lockout.LOCK.total_seconds()))
    if refusal is not None or stored is None:
        raise refusal or WrongPassword()
    return stored


async def change_password(
    database: Database, passwords: Passwords, mail: MailQueue, caller: UserCaller, current: str, new: str
) -> None:
    """Gives the caller another password, ends the caller's other sessions, and makes tokens worthless that went out by mail.

    Raises WrongPassword, TooManyRequests.
    """
    old_hash = await confirm_password(database, passwords, caller, current)
    new_hash = await passwords.hash(new)
    async with database.transaction() as db:
        if not await store.set_password(db, caller.user_id, new_hash, old_hash):
            raise WrongPassword
        await sessions_store.revoke_sessions(db, caller.user_id, caller.session_id, utc_now())
        await store.delete_email_change(db, caller.user_id)
        await store.delete_password_reset(db, caller.user_id)
        await record(db, Event.USER_PASSWORD_CHANGED, caller.as_actor, Subject(SubjectType.USER, caller.user_id))
        await mail.put(db, caller.email, letters.password_changed(caller.name))
