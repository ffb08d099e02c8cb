"""Push tokens of the caller's devices, and the log of sent notifications for SuperAdmins."""

from typing import Annotated

from pydantic import Field

from gridfleet.api.http import NOT_NULL, SA, Input, Message, PageQuery, Pattern, endpoint, session, super_admin
from gridfleet.domains.notifications import logs, push_tokens
from gridfleet.domains.notifications.models import NotificationLog, PushToken
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page

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
