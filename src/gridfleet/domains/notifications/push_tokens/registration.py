"""The devices that users have registered for push messages."""

import re
from typing import Final

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.notifications.models import PushToken
from gridfleet.domains.notifications.push_tokens import store
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id

__all__ = ["EXPO_PATTERN", "delete_token", "register_token"]

EXPO_PATTERN: Final = r"^Expo(nent)?PushToken\[[A-Za-z0-9_-]{1,200}\]$"
"""The format of the tokens of Expo's push service."""

_MOST_DEVICES: Final = 50
"""Maximum devices of one user: every alert is sent to each of them."""


async def register_token(db: Connection, caller: UserCaller, token: str, platform: str | None) -> PushToken:
    """Register a device for the caller and remove it from its previous user. Of more than 50 devices, the oldest is deleted.

    Args:
        token: A token of Expo's push service, which matches `EXPO_PATTERN`.
        platform: The device's platform; None if unknown.
    """
    is_known = await store.owner_of_token(db, token) == caller.user_id
    registered = await store.register_token(db, new_id(), caller.user_id, token, platform)
    await store.keep_newest_tokens(db, caller.user_id, registered.id, _MOST_DEVICES - 1)
    if not is_known:  # an app registers its device at each start
        subject = Subject.user(caller.user_id)
        await record(db, Event.USER_PUSH_TOKEN_REGISTERED, caller.as_actor, subject, details={"platform": platform})
    return registered


async def delete_token(db: Connection, caller: UserCaller, token: str) -> None:
    """Delete one of the caller's devices, if they have it. Raises `ValidationFailed` for a text that is no push token."""
    if re.match(EXPO_PATTERN, token) is None:
        raise ValidationFailed(details=["token: must be an Expo push token"])
    if await store.delete_token(db, caller.user_id, token):
        await record(db, Event.USER_PUSH_TOKEN_DELETED, caller.as_actor, Subject.user(caller.user_id))
