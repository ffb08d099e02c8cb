"""Login: checks e-mail address, password and lockout, with the same work for every kind of failure."""

from typing import Final

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import lockout, sessions, store
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.domains.identity.emails import normalized
from gridfleet.domains.identity.errors import AccountDisabled, AccountLocked, InvalidCredentials
from gridfleet.domains.identity.models import Client, OpenedSession
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import CodedError, ValidationFailed
from gridfleet.kernel.security.passwords import Passwords

__all__ = ["LOGIN_PASSWORD_CHARACTERS", "log_in"]

LOGIN_PASSWORD_CHARACTERS = (8, 72)
"""Length of a password at login. A changed password may be longer and can be used to log in."""


MOST_UNKNOWN_A_MINUTE: Final = 60
"""Audit events of each kind per minute about addresses without an account: anyone can guess under any address."""
_MOST_KNOWN_A_MINUTE: Final = 6_000
"""The same about accounts. The lock is the real limit; with this one, their failures take as long as the others. The right
password of a disabled account has no lock.
"""

_OUTCOMES: Final = {OpenedSession: "opened", AccountLocked: "locked"}


async def log_in(
    database: Database, passwords: Passwords, tokens: AccessTokens, email: str, password: str, client: Client
) -> OpenedSession:
    """Open a session for the account's owner.

    Takes the database rather than a connection: a failure must be counted although the request fails, and no connection is
    held while the password is hashed.

    Raises:
        InvalidCredentials: Address or password are wrong.
        AccountLocked: The address is locked.
        AccountDisabled: The password is right, and a SuperAdmin has disabled the account.
        ValidationFailed: The password is wrong and longer than login allows.
    """
    email = normalized(email)
    async with database.transaction() as db:
        found = await store.find_credentials(db, email)
    # Also for an address that is unknown or locked: the time of the response must not show which it is.
    right = await passwords.matches(password, found.password_hash if found else None)
    async with database.transaction() as db:
        if found is not None and right:
            outcome = await _accept(db, tokens, found, client)
        else:
            outcome = await _refuse(db, found, email, password, client)
    if outcome is None:
        # Another login may have made a new hash of the same password. Otherwise the password is wrong now.
        return await log_in(database, passwords, tokens, email, password, client)
    metrics.LOGINS.labels(_OUTCOMES.get(type(outcome), "refused")).inc()
    if isinstance(outcome, CodedError):
        raise outcome
    if found is not None and passwords.is_outdated(found.password_hash):
        renewed = await passwords.hash(password)
        async with database.transaction() as db:
            await store.replace_hash(db, found.account.id, found.password_hash, renewed)
    return outcome


async def _accept(
    db: Connection, tokens: AccessTokens, found: store.Credentials, client: Client
) -> OpenedSession | CodedError | None:
    """Return the session, or why there is none; None if the password's hash was replaced in the meantime."""
    if await lockout.clear(db, found.account.email, utc_now()):
        return AccountLocked()
    if found.is_disabled:
        actor, subject = Actor(ActorType.ANONYMOUS, ip=client.ip), Subject.user(found.account.id)
        details = {"known": True, "disabled": True}
        await record(db, Event.USER_LOGIN_FAILED, actor, subject, details=details, most_a_minute=_MOST_KNOWN_A_MINUTE)
        return AccountDisabled()
    return await sessions.open_session(db, tokens, found.account, found.password_hash, client)


async def _refuse(db: Connection, found: store.Credentials | None, email: str, password: str, client: Client) -> CodedError:
    verdict = await lockout.record_failure(db, email, utc_now())
    if verdict.was_locked:
        return AccountLocked()
    actor = Actor(ActorType.ANONYMOUS, ip=client.ip)
    subject = Subject.user(found.account.id) if found else None
    most = MOST_UNKNOWN_A_MINUTE if found is None else _MOST_KNOWN_A_MINUTE
    for event in (Event.USER_LOGIN_FAILED, Event.USER_LOCKED) if verdict.locks else (Event.USER_LOGIN_FAILED,):
        await record(db, event, actor, subject, details={"known": found is not None}, most_a_minute=most)
    shortest, longest = LOGIN_PASSWORD_CHARACTERS
    if len(password) > longest:
        return ValidationFailed(details=[f"password: must have {shortest} to {longest} characters"])
    return InvalidCredentials()
