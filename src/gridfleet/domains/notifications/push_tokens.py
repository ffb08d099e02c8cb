"""The devices that people want to be told on."""

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
"""What Expo's push service gives an app."""

_MOST_DEVICES: Final = 50
"""Of one person: every alert is sent to each of them."""


async def register_token(db: Connection, user_id: UUID, token: str, platform: str | None) -> PushToken:
    """Registers a device for somebody; it leaves whoever had it before. Of many the oldest is forgotten."""
    registered = await store.register_token(db, new_id(), user_id, token, platform)
    await store.keep_newest_tokens(db, user_id, registered.id, _MOST_DEVICES - 1)
    return registered


async def delete_token(db: Connection, user_id: UUID, token: str) -> None:
    """Forgets one of somebody's devices, if he has it. Raises `ValidationFailed` for what is no push token."""
    if re.match(EXPO_PATTERN, token) is None:
        raise ValidationFailed(details=["token: must be an Expo push token"])
    await store.delete_token(db, user_id, token)
