"""Notifications and the devices they reach."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

__all__ = ["Channel", "NotificationLog", "NotificationStatus", "Outgoing", "PushToken"]


class Channel(StrEnum):
    """A way to a person."""

    PUSH = "PUSH"
    EMAIL = "EMAIL"
    SMS = "SMS"


class NotificationStatus(StrEnum):
    """PENDING until it was handed over (SENT) or given up (FAILED). A push that was SENT may FAIL by its receipt."""

    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"


class NotificationLog(msgspec.Struct, frozen=True, rename="camel"):
    """One delivery to one person. `error` is the last thing that went wrong."""

    id: UUID
    user_id: UUID
    channel: Channel
    subject: str
    body: str
    status: NotificationStatus
    error: str | None
    metadata: dict[str, Any]
    sent_at: datetime | None
    created_at: datetime


class PushToken(msgspec.Struct, frozen=True, rename="camel"):
    """A person's device, as the push service names it."""

    id: UUID
    user_id: UUID
    token: str
    platform: str | None
    created_at: datetime


class Outgoing(msgspec.Struct, frozen=True):
    """A delivery that is due. `attempts` counts this one; `address` is an e-mail, a phone number or a push token."""

    id: UUID
    channel: Channel
    address: str
    subject: str
    body: str
    metadata: dict[str, Any]
    attempts: int
    created_at: datetime
    cause: dict[str, str] | None
