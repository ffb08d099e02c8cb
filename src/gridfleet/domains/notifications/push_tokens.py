"""The devices that users have registered for push messages."""

import re
from typing import Final
from uuid import UUID

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import PushToken
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id

__all__ = ["EXPO_PATTERN", "delete_token", "register_token"]

EXPO_PATTERN: Final = r"^Expo(nent)?PushToken\[[A-Za-z0-9_-]{1,200}\]$"
"""The format of the tokens of Expo's push service."""

_MOST_DEVICES: Final = 50
"""Maximum devices of one user: every alert is sent to each of them."""


async def register_token(db: Connection, user_id: UUID, token: str, platform: str | None) -> PushToken:
    """Register a device for a user and remove it from its previous user. Beyond the limit, the oldest is deleted."""
    registered = await store.register_token(db, new_id(), user_id, token, platform)
    await store.keep_newest_tokens(db, user_id, registered.id, _MOST_DEVICES - 1)
    return registered


async def delete_token(db: Connection, user_id: UUID, token: str) -> None:
    """Delete one of the user's devices, if they have it. Raises `ValidationFailed` for a text that is no push token."""
    if re.match(EXPO_PATTERN, token) is None:
        raise ValidationFailed(details=["token: must be an Expo push token"])
    await store.delete_token(db, user_id, token)
