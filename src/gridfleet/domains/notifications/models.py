"""Records of notifications and of users' devices."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.domains.device_templates.models import Severity

__all__ = [
    "LESS_SEVERE",
    "Channel",
    "DeliveryFilter",
    "NotificationLog",
    "NotificationPreferences",
    "NotificationStatus",
    "Outgoing",
    "PreferenceChanges",
    "PushToken",
    "QuietHours",
    "Severity",
    "TextOwner",
    "rank",
]

LESS_SEVERE: Final = (Severity.INFO, Severity.WARNING)
"""Severities that may use half of an hourly bound, so that they do not use up the hour of the more severe."""
_ASCENDING: Final = list(Severity)


def rank(severity: Severity) -> int:
    """Return the place of a severity in their order, ascending."""
    return _ASCENDING.index(severity)


class Channel(StrEnum):
    """A way to reach a user."""

    PUSH = "PUSH"
    EMAIL = "EMAIL"
    SMS = "SMS"


class NotificationStatus(StrEnum):
    """The status of a delivery.

    PENDING until the delivery is sent (SENT) or has failed permanently (FAILED). A push that was SENT may become FAILED by its
    receipt.
    """

    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"


class TextOwner(StrEnum):
    """What has a limit of text messages."""

    USER = "USER"
    NUMBER = "NUMBER"
    SHARE = "SHARE"
    """An organisation at a number; its key is `organization number`."""
    ORGANIZATION = "ORGANIZATION"
    TESTS = "TESTS"
    """The test messages of all users; the key is empty."""


class QuietHours(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to", "time_zone": "timeZone"}):
    """The hours of each day in which notifications of some severities wait.

    `start` (inclusive) and `end` (exclusive) are times of day `HH:MM` in the time zone, an IANA name. An `end` that is not
    after `start` is on the next day.
    """

    start: str
    end: str
    time_zone: str
    severities: list[Severity]


class NotificationPreferences(msgspec.Struct, frozen=True, rename="camel"):
    """Which severities a user is notified of by each channel, and when notifications wait.

    `updated_at` is None for a user who has chosen nothing. `phone` is the number for text messages, which the user sets with
    the profile.
    """

    push: tuple[Severity, ...] = tuple(Severity)
    email: tuple[Severity, ...] = (Severity.WARNING, Severity.CRITICAL, Severity.EMERGENCY)
    sms: tuple[Severity, ...] = (Severity.CRITICAL, Severity.EMERGENCY)
    quiet_hours: QuietHours | None = None
    updated_at: datetime | None = None
    phone: str | None = None


class PreferenceChanges(msgspec.Struct, frozen=True):
    """Changes of a PATCH; UNSET members stay as they are."""

    push: list[Severity] | UnsetType = UNSET
    email: list[Severity] | UnsetType = UNSET
    sms: list[Severity] | UnsetType = UNSET
    quiet_hours: QuietHours | UnsetType | None = UNSET


class DeliveryFilter(msgspec.Struct, frozen=True):
    """A filter of deliveries; `since` is inclusive, `until` exclusive. None selects all."""

    channel: Channel | None = None
    status: NotificationStatus | None = None
    since: datetime | None = None
    until: datetime | None = None


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

    `is_wanted` says that the user is not disabled and still an ORG_ADMIN or OPERATOR of the organisation, that the address is
    still the user's, and that the user wants notifications of this severity by this channel. `quiet_hours` are those of the
    user, None if notifications of this severity do not wait in them.
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
    quiet_hours: QuietHours | None
    user_id: UUID

    @property
    def organization(self) -> str:
        """The id of the organisation, or an empty text for a test message."""
        return str(self.metadata.get("organizationId", ""))
