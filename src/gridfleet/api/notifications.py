"""What the caller is notified of and by which devices, and the log of deliveries: the caller's own, or all for SuperAdmins."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from gridfleet.api.http import (
    NOT_NULL,
    SA,
    As,
    Call,
    Input,
    Message,
    PageQuery,
    Pattern,
    SpanQuery,
    endpoint,
    omitted,
    session,
    super_admin,
)
from gridfleet.domains.notifications import logs, preferences
from gridfleet.domains.notifications.models import (
    Channel,
    DeliveryFilter,
    NotificationLog,
    NotificationPreferences,
    NotificationStatus,
    PreferenceChanges,
    PushToken,
    QuietHours,
    Severity,
)
from gridfleet.domains.notifications.push_tokens import registration as push_tokens
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page
from gridfleet.kernel.time_zones import is_time_zone

_TESTS_PER_MINUTE: Final = 5
"""Limit for one user: a text message costs money, and reaches any phone that the user names."""
_CHANGES_PER_MINUTE: Final = 30
"""Limit for one user: a change of the quiet hours updates deliveries that wait. The console has twelve boxes, a change each."""


def _time_zone(name: str) -> str:
    if not is_time_zone(name):
        raise ValueError("must be the IANA name of a time zone such as Europe/Vienna")
    return name


TimeOfDay = Annotated[str, Pattern(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", "must be a time of day such as 22:00")]
Severities = Annotated[
    list[Severity], Field(max_length=20), AfterValidator(lambda given: [one for one in Severity if one in given])
]
"""Each severity once, ascending."""


class NewQuietHours(Input):
    """Hours of each day in which notifications of some severities wait. `to` may be on the next day."""

    start: TimeOfDay = Field(alias="from")
    end: TimeOfDay = Field(alias="to")
    time_zone: Annotated[str, Field(max_length=64), AfterValidator(_time_zone)]
    severities: Severities = [Severity.INFO, Severity.WARNING, Severity.CRITICAL]

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the hours are empty."""
        if self.start == self.end:
            yield "to: must not be equal to from"


class PreferencesPatch(Input):
    """Changes to the preferences; omitted fields stay unchanged. An empty list turns a channel off."""

    push: Severities = omitted()
    email: Severities = omitted()
    sms: Severities = omitted()
    quiet_hours: Annotated[QuietHours, As(NewQuietHours)] | None = omitted()


class TestMessage(Input):
    """The channel to try."""

    channel: Channel


class DeliveryQuery(PageQuery, SpanQuery):
    """Filter of deliveries. A delivery must match all given parameters. `from` is inclusive, `to` exclusive."""

    channel: Channel | None = None
    status: NotificationStatus | None = None


_CODES = ("BAD_REQUEST", "UNAUTHORIZED", "INTERNAL_SERVER_ERROR")


class NewPushToken(Input):
    """A device to notify. `platform` is the app's name for its platform, such as `ios`."""

    token: Annotated[
        str,
        Pattern(push_tokens.EXPO_PATTERN, "must be an Expo push token such as ExponentPushToken[…]"),
    ]
    platform: Annotated[Annotated[str, Field(max_length=50)] | None, NOT_NULL] = None


@endpoint("GET", "/api/v1/notifications/logs", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def list_notification_logs(db: Connection, query: PageQuery) -> Page[NotificationLog]:
    """List every delivery by push, mail and SMS, newest first."""
    return await logs.list_deliveries(db, query.paging)


@endpoint("POST", "/api/v1/notifications/push-tokens", caller=session(), codes=_CODES, success=201)
async def register_push_token(caller: UserCaller, db: Connection, body: NewPushToken) -> PushToken:
    """Register a device of the caller for push. A device of another user is moved to the caller."""
    return await push_tokens.register_token(db, caller, body.token, body.platform)


@endpoint(
    "DELETE",
    "/api/v1/notifications/push-tokens/{token}",
    caller=session(),
    codes=_CODES,
    bad_path_id="BAD_REQUEST",
)
async def delete_push_token(caller: UserCaller, db: Connection, token: str) -> Message:
    """Delete a device of the caller. An unknown device is not an error."""
    await push_tokens.delete_token(db, caller, token)
    return Message("The push token is not registered any more.")


@endpoint(
    "GET", "/api/v1/notifications/preferences", caller=session(), codes=("UNAUTHORIZED", "INTERNAL_SERVER_ERROR"), addition=True
)
async def get_notification_preferences(caller: UserCaller, db: Connection) -> NotificationPreferences:
    """Return which severities the caller is notified of by each channel, the quiet hours, and the number for text messages.

    Until the caller changes them, push messages report every severity, mails WARNING and above, text messages CRITICAL
    and above.
    """
    return await preferences.preferences_of(db, caller.user_id)


@endpoint(
    "PATCH",
    "/api/v1/notifications/preferences",
    caller=session(),
    codes=("VALIDATION_ERROR", "UNAUTHORIZED", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
    addition=True,
)
async def change_notification_preferences(
    call: Call, caller: UserCaller, db: Connection, body: PreferencesPatch
) -> NotificationPreferences:
    """Change what the caller is notified of, at most 30 times a minute. The change also applies to notifications that wait.

    During quiet hours, notifications of the severities in `quietHours` wait until the hours end. null removes the quiet hours.
    If more than 1,000 notifications wait when the quiet hours change, the older ones wait until the former hours end.
    """
    await call.state.rate_limiter.hit("preferences", str(caller.user_id), _CHANGES_PER_MINUTE)
    return await preferences.change_preferences(db, caller, PreferenceChanges(**dict(body)))


@endpoint(
    "POST",
    "/api/v1/notifications/test",
    caller=session(),
    codes=("VALIDATION_ERROR", "UNAUTHORIZED", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
    success=201,
    addition=True,
)
async def send_test_notification(call: Call, caller: UserCaller, db: Connection, body: TestMessage) -> list[NotificationLog]:
    """Send a test message to each of the caller's addresses of a channel, and return the deliveries.

    It is sent at once, regardless of the caller's preferences and quiet hours. `GET /notifications/deliveries` shows the
    outcome. At most five a minute, and 20 a day by each channel; ten text messages a day.
    """
    await call.state.rate_limiter.hit("test notification", str(caller.user_id), _TESTS_PER_MINUTE)
    return await preferences.queue_test(db, caller, body.channel)


@endpoint(
    "GET",
    "/api/v1/notifications/deliveries",
    caller=session(),
    codes=("VALIDATION_ERROR", "UNAUTHORIZED", "INTERNAL_SERVER_ERROR"),
    addition=True,
)
async def list_own_deliveries(caller: UserCaller, db: Connection, query: DeliveryQuery) -> Page[NotificationLog]:
    """List the caller's notifications of 90 days by push, mail and SMS with their outcome, newest first."""
    wanted = DeliveryFilter(query.channel, query.status, query.since, query.until)
    return await logs.list_own_deliveries(db, caller.user_id, wanted, query.paging)
