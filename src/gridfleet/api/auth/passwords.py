"""Changing one's own password, and resetting a forgotten one."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from gridfleet.api.auth.limits import limit_account_calls
from gridfleet.api.http import Call, Email, Input, Message, endpoint, public, session
from gridfleet.domains.identity.accounts import password_reset
from gridfleet.domains.identity.accounts import passwords as password_change
from gridfleet.domains.identity.accounts.password_rules import NEW_CHARACTERS
from gridfleet.domains.identity.accounts.tokens import MAIL_TOKEN_CHARACTERS
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection

_SHORTEST, _LONGEST = NEW_CHARACTERS

NewPassword = Annotated[str, StringConstraints(min_length=_SHORTEST, max_length=_LONGEST, strip_whitespace=False)]
MailToken = Annotated[str, Field(min_length=MAIL_TOKEN_CHARACTERS, max_length=MAIL_TOKEN_CHARACTERS)]


class PasswordChange(Input):
    """The current password and the new one."""

    current_password: Annotated[str, StringConstraints(min_length=1, strip_whitespace=False)]
    new_password: NewPassword

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the new password is the current one."""
        if self.new_password == self.current_password:
            yield "newPassword: must differ from the current password"


class ForgottenPassword(Input):
    """The account whose password is forgotten."""

    email: Email


class PasswordReset(Input):
    """The token of the mail, and the new password."""

    token: MailToken
    new_password: NewPassword


@endpoint(
    "POST",
    "/api/v1/auth/change-password",
    caller=session(),
    codes=("VALIDATION_ERROR", "UNAUTHORIZED", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
)
async def change_password(call: Call, caller: UserCaller, body: PasswordChange) -> Message:
    """Set another password and end every other session."""
    await limit_account_calls(call)
    state = call.state
    await password_change.change_password(
        state.database, state.passwords, state.mail, caller, body.current_password, body.new_password
    )
    return Message("Your password was changed. Every other session was ended.")


@endpoint(
    "POST",
    "/api/v1/auth/forgot-password",
    caller=public(),
    codes=("VALIDATION_ERROR", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
    addition=True,
)
async def forgot_password(call: Call, db: Connection, body: ForgottenPassword) -> Message:
    """Mail a link to set a new password, if the address has an account. The response does not show whether it has."""
    await limit_account_calls(call)
    await password_reset.request(db, body.email, call.client_ip)
    return Message("If this address has an account, a mail with a link is on its way, or was sent in the last 15 minutes.")


@endpoint(
    "POST",
    "/api/v1/auth/reset-password",
    caller=public(),
    codes=("VALIDATION_ERROR", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
    addition=True,
)
async def reset_password(call: Call, body: PasswordReset) -> Message:
    """Set a new password with the token of the mail, which is valid once, and end every session."""
    await limit_account_calls(call)
    state = call.state
    await password_reset.reset(state.database, state.passwords, state.mail, body.token, body.new_password, call.client_ip)
    return Message("Your password was changed. Log in with it.")
