"""What users want to be notified of, and a message with which they try their own addresses."""

from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET
from pydantic.alias_generators import to_camel

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.queries import limit_a_day
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import Channel, NotificationLog, NotificationPreferences, PreferenceChanges
from gridfleet.domains.notifications.recipients import store as recipients
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["change_preferences", "preferences_of", "queue_test"]

_MOST_TESTS_A_DAY: Final = {Channel.PUSH: 20, Channel.EMAIL: 20, Channel.SMS: 10}
"""Maximum test messages of a user within 24 hours: a text message costs money, and reaches any phone."""

_NO_ADDRESS: Final = {
    Channel.PUSH: "channel: you have registered no device for push",
    Channel.EMAIL: "channel: you have no e-mail address",
    Channel.SMS: "channel: you have no phone number; set it with PATCH /auth/me",
}


async def preferences_of(db: Connection, user_id: UUID) -> NotificationPreferences:
    """Return a user's preferences, or the default ones if the user has chosen nothing."""
    return await store.load_preferences(db, user_id)


async def change_preferences(db: Connection, caller: UserCaller, changes: PreferenceChanges) -> NotificationPreferences:
    """Change the caller's preferences and return them. Deliveries that wait follow them too.

    A user's first choice is a change, even if it is the default.
    """
    before = await preferences_of(db, caller.user_id)
    columns: dict[str, Any] = {
        name: value
        for name, value in msgspec.structs.asdict(changes).items()
        if value is not UNSET and (before.updated_at is None or value != _in_lists(getattr(before, name)))
    }
    if not columns:
        return before
    await store.save_preferences(db, caller.user_id, columns)
    if "quiet_hours" in columns:
        await store.end_delays(db, caller.user_id)
    details = {"changed": sorted(map(to_camel, columns))}
    await record(db, Event.USER_NOTIFICATIONS_CHANGED, caller.as_actor, Subject.user(caller.user_id), details=details)
    return await preferences_of(db, caller.user_id)


async def queue_test(db: Connection, caller: UserCaller, channel: Channel) -> list[NotificationLog]:
    """Queue a test message to each of the caller's addresses of a channel, and return the deliveries.

    It is sent immediately, regardless of the caller's preferences and quiet hours.

    Raises:
        ValidationFailed: The caller has no address of this channel.
        TooManyRequests: The caller has sent too many test messages by this channel within a day.
    """
    details = {"channel": channel}
    await limit_a_day(db, Event.USER_NOTIFICATIONS_TESTED, Subject.user(caller.user_id), _MOST_TESTS_A_DAY[channel], details)
    subject = "Test message from Gridfleet"
    body = f"{caller.name} requested this test message. Notifications arrive here."
    queued = await recipients.queue_for_user(db, caller.user_id, channel, subject, body, {"test": True}, current_cause())
    if not queued:
        raise ValidationFailed(details=[_NO_ADDRESS[channel]])
    await record(db, Event.USER_NOTIFICATIONS_TESTED, caller.as_actor, Subject.user(caller.user_id), details=details)
    return queued


def _in_lists(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
