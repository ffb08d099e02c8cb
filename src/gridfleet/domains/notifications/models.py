"""Records of notifications and of users' devices."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

__all__ = ["Channel", "NotificationLog", "NotificationStatus", "Outgoing", "PushToken"]


class Channel(StrEnum):
    """A way to reach a user."""

    PUSH = "PUSH"
    EMAIL = "EMAIL"
    SMS = "SMS"


class NotificationStatus(StrEnum):
    """The status of a delivery.

    PENDING until the delivery is sent (SENT) or has failed for good (FAILED). A push that was SENT may become FAILED by its
    receipt.
    """

    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"


class NotificationLog(msgspec.Struct, frozen=True, rename="camel"):
    """One delivery to one user. `error` is the newest error."""

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
    """A user's device, identified by the push service's token."""

    id: UUID
    user_id: UUID
    token: str
    platform: str | None
    created_at: datetime


class Outgoing(msgspec.Struct, frozen=True):
    """A delivery that is due. `attempts` counts this one; `address` is an e-mail address, a phone number or a push token.

    `is_wanted`: the user is not disabled and still an ORG_ADMIN or OPERATOR of the organisation, and the address is still the
    user's.
    """

    id: UUID
    channel: Channel
    address: str
    subject: str
    body: str
    metadata: dict[str, Any]
    attempts: int
    created_at: datetime
    cause: dict[str, str] | None
    is_wanted: bool
