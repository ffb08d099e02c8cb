"""Change of the own e-mail address: requested with the password, confirmed with a token mailed to the new address."""

from datetime import timedelta
from typing import Final

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.queries import limit_a_day
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import store as sessions_store
from gridfleet.domains.identity.accounts import mails, store, tokens
from gridfleet.domains.identity.errors import EmailTaken, TokenDead, WrongPassword
from gridfleet.kernel.caller import Actor, ActorType, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.mail.queue import MailQueue

__all__ = ["LIFETIME", "MOST_A_DAY", "cancel", "confirm", "request"]

LIFETIME: Final = timedelta(hours=24)
MOST_A_DAY: Final = 10
"""Maximum requests of a user within 24 hours: each is a mail with the user's name to any address that the user enters."""


async def request(db: Connection, mail: MailQueue, caller: UserCaller, email: str, password_hash: str) -> None:
    """Mail the new address a token and the old one a warning. An earlier request of the caller ends.

    The caller has proved the password with this hash. `email` is normalised.

    Raises:
        WrongPassword: The password has changed meanwhile, or the account was disabled.
        EmailTaken: Another account has the address.
        TooManyRequests: The caller has requested too many changes within a day.
    """
    subject = Subject.user(caller.user_id)
    # The change of the password waits for this transaction, and then deletes the request.
    if not await store.hold_password(db, caller.user_id, password_hash):
        raise WrongPassword
    if await store.find_account_by_email(db, email) is not None:
        raise EmailTaken
    await limit_a_day(db, Event.USER_EMAIL_CHANGE_REQUESTED, subject, MOST_A_DAY)
    token, now = tokens.make_token(), utc_now()
    await store.save_email_change(db, caller.user_id, email, token.digest, now, now + LIFETIME)
    await record(db, Event.USER_EMAIL_CHANGE_REQUESTED, caller.as_actor, subject, details={"from": caller.email, "to": email})
    await mail.put(db, email, mails.confirm_address(caller.name, token.text))
    await mail.put(db, caller.email, mails.email_change_requested(caller.name, email))


async def cancel(db: Connection, caller: UserCaller) -> None:
    """Delete the caller's request that is not confirmed yet."""
    await store.delete_email_change(db, caller.user_id)


async def confirm(db: Connection, mail: MailQueue, token: str, ip: str) -> None:
    """Set the new address of the token's owner. Password resets that were mailed to the old address end.

    Raises:
        TokenDead: The token is not valid, or another account has taken the address meanwhile.
    """
    change = await store.take_email_change(db, tokens.digest(token), utc_now())
    account = await sessions_store.find_account(db, change.user_id) if change else None
    if change is None or account is None or not await store.set_email(db, account.id, change.email):
        raise TokenDead
    await store.delete_password_reset(db, account.id)
    actor, subject = Actor(ActorType.USER, str(account.id), ip), Subject.user(account.id)
    await record(db, Event.USER_EMAIL_CHANGED, actor, subject, details={"from": account.email, "to": change.email})
    await mail.put(db, account.email, mails.email_changed(account.name, change.email))
