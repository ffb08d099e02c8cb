"""A user's own profile: name, e-mail address, and default organisation."""

from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from gridfleet.api.auth.limits import limit_account_calls
from gridfleet.api.auth.passwords import MailToken
from gridfleet.api.auth.session_user import SessionUserResponse, asked_organization, session_user
from gridfleet.api.http import NOT_NULL, Call, Email, Input, Message, Pattern, endpoint, omitted, public, session
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.accounts import email_change, profile
from gridfleet.domains.identity.accounts.passwords import confirm_password
from gridfleet.domains.identity.emails import normalized
from gridfleet.domains.organizations import membership
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection

_EMAIL_CHANGES_PER_MINUTE = 10
"""Limit for one account. Each change sends two mails."""


Phone = Annotated[str, Pattern(profile.PHONE_PATTERN, "must be an international number such as +420123456789")]


class ProfileChanges(Input):
    """Changes to the profile; omitted fields stay unchanged. A new e-mail address requires the current password.

    `phone` is the number for text messages about critical alerts; null stops them.
    """

    name: Annotated[Annotated[str, Field(min_length=1, max_length=120)] | None, NOT_NULL] = None
    email: Annotated[Email | None, NOT_NULL] = None
    current_password: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=False)] | None, NOT_NULL
    ] = None
    phone: Phone | None = omitted()


class DefaultOrganization(Input):
    """The organisation that is current after a login."""

    organization_id: UUID


class EmailConfirmation(Input):
    """The token that was mailed to the new address."""

    token: MailToken


@endpoint(
    "PATCH",
    "/api/v1/auth/me",
    caller=session(),
    codes=("VALIDATION_ERROR", "UNAUTHORIZED", "EMAIL_ALREADY_REGISTERED", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
)
async def change_profile(call: Call, caller: UserCaller, body: ProfileChanges) -> SessionUserResponse:
    """Change name and phone number immediately, and the e-mail address after the new address has confirmed it."""
    await limit_account_calls(call)
    state = call.state
    email = normalized(body.email) if body.email is not None else None
    password_hash = ""
    if email is not None and email != caller.email:
        await state.rate_limiter.hit("email change", str(caller.user_id), _EMAIL_CHANGES_PER_MINUTE)
        password_hash = await confirm_password(state.database, state.passwords, caller, body.current_password)
    async with state.database.transaction() as db:
        if body.name is not None:
            await profile.rename(db, caller, body.name)
        if "phone" in body.model_fields_set:
            await profile.change_phone(db, caller, body.phone)
        if email == caller.email:
            await email_change.cancel(db, caller)
        elif email is not None:
            await email_change.request(db, state.mail, caller, email, password_hash)
        return SessionUserResponse(await session_user(db, await sessions.account_of(db, caller), asked_organization(call)))


@endpoint(
    "POST",
    "/api/v1/auth/email/confirm",
    caller=public(),
    codes=("VALIDATION_ERROR", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
)
async def confirm_email(call: Call, db: Connection, body: EmailConfirmation) -> Message:
    """Complete a change of the e-mail address with the token that was mailed to the new address."""
    await limit_account_calls(call)
    await email_change.confirm(db, call.state.mail, body.token, call.client_ip)
    return Message("Your e-mail address was changed. Log in with it from now on.")


@endpoint(
    "PATCH",
    "/api/v1/auth/default-org",
    caller=session(),
    codes=(
        "VALIDATION_ERROR",
        "UNAUTHORIZED",
        "ORG_MEMBERSHIP_REQUIRED",
        "ORGANIZATION_NOT_FOUND",
        "INTERNAL_SERVER_ERROR",
    ),
)
async def choose_default_organization(caller: UserCaller, db: Connection, body: DefaultOrganization) -> SessionUserResponse:
    """Set the organisation that is selected after login: one of the caller's own, or any for SuperAdmins."""
    await membership.set_default_organization(db, caller, body.organization_id)
    return SessionUserResponse(await session_user(db, await sessions.account_of(db, caller)))
