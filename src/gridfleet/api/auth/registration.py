"""New accounts, created by a SuperAdmin or by an invited user."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

import msgspec
from pydantic import Field, StringConstraints

from gridfleet.api.auth.limits import limit_account_calls
from gridfleet.api.auth.login import AuthResponse, welcome
from gridfleet.api.http import Call, Email, Input, Message, Pattern, endpoint, public, super_admin
from gridfleet.domains.identity.accounts import registry
from gridfleet.domains.identity.accounts.password_rules import REGISTRATION_CHARACTERS, registration_complaints
from gridfleet.domains.identity.models import Client, UserRole
from gridfleet.domains.organizations.errors import InvitationTokenMissing
from gridfleet.domains.organizations.invitations import acceptance
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection

_SHORTEST, _LONGEST = REGISTRATION_CHARACTERS

Name = Annotated[str, Field(min_length=2, max_length=100)]
Password = Annotated[str, StringConstraints(min_length=_SHORTEST, max_length=_LONGEST, strip_whitespace=False)]


class Registration(Input):
    """An account to create."""

    email: Email
    name: Name
    password: Password

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each rule that the password violates."""
        return registration_complaints(self.password)


InvitationToken = Annotated[
    str,
    Field(max_length=128),
    Pattern("^[0-9a-f]{64}$", "must be 64 lowercase hex digits"),
]


class InvitationCheck(Input):
    """An invitation to check."""

    token: InvitationToken


class InvitedRegistration(Input):
    """Account data of an invited user, with the token of the mail."""

    name: Name
    password: Password
    token: InvitationToken

    def complaints(self) -> Iterator[str]:
        """Yield a complaint for each rule that the password violates."""
        return registration_complaints(self.password)


class RegisteredUser(msgspec.Struct, frozen=True):
    """The new account."""

    id: UUID
    email: str
    name: str
    role: UserRole


class RegistrationResponse(msgspec.Struct, frozen=True):
    """The response `{user}`."""

    user: RegisteredUser


class ConfirmQuery(Input):
    """The token of the invitation."""

    token: str


class ConfirmResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The result of the confirmation, and the path of the next page."""

    message: str
    redirect_path: str


@endpoint(
    "POST",
    "/api/v1/auth/register",
    caller=super_admin(),
    codes=(
        "VALIDATION_ERROR",
        "UNAUTHORIZED",
        "SUPER_ADMIN_REQUIRED",
        "EMAIL_ALREADY_REGISTERED",
        "TOO_MANY_REQUESTS",
        "INTERNAL_SERVER_ERROR",
    ),
    success=201,
)
async def register(call: Call, caller: UserCaller, db: Connection, body: Registration) -> RegistrationResponse:
    """Create an account that is not yet a member of an organisation."""
    await limit_account_calls(call)
    password_hash = await call.state.passwords.hash(body.password)
    account = await registry.register(db, caller.as_actor, body.email, body.name, password_hash)
    return RegistrationResponse(RegisteredUser(account.id, account.email, account.name, account.role))


@endpoint(
    "POST",
    "/api/v1/auth/register/invite",
    caller=public(),
    codes=(
        "VALIDATION_ERROR",
        "INVITATION_NOT_FOUND",
        "INVITATION_EXPIRED",
        "INVITATION_ALREADY_ACCEPTED",
        "EMAIL_ALREADY_REGISTERED",
    ),
    success=201,
)
async def register_invited(call: Call, body: InvitedRegistration) -> AuthResponse:
    """Create an account with an invitation's token, add it to the invitation's organisation, and open a session."""
    await limit_account_calls(call)
    state = call.state
    client = Client(call.client_ip, call.user_agent)
    opened = await acceptance.register_invited(
        state.database, state.passwords, state.access_tokens, body.token, body.name, body.password, client
    )
    return await welcome(call, opened)


@endpoint(
    "POST",
    "/api/v1/auth/check-invitation",
    caller=public(),
    codes=("VALIDATION_ERROR", "INVITATION_NOT_FOUND", "INVITATION_EXPIRED", "INVITATION_ALREADY_ACCEPTED"),
    addition=True,
)
async def check_invitation(call: Call, db: Connection, body: InvitationCheck) -> Message:
    """Check whether an invitation can still be used, without using it."""
    await limit_account_calls(call)
    await acceptance.check(db, body.token)
    return Message("The invitation can be accepted.")


@endpoint(
    "GET",
    "/api/v1/auth/confirm-accept",
    caller=public(),
    codes=(
        "INVITATION_TOKEN_MISSING",
        "INVITATION_EXPIRED",
        "INVITATION_NOT_FOUND",
        "INVITATION_ALREADY_ACCEPTED",
        "INTERNAL_SERVER_ERROR",
    ),
    bad_input="INVITATION_TOKEN_MISSING",
    has_effect=True,
)
async def confirm_accept(call: Call, db: Connection, query: ConfirmQuery) -> ConfirmResponse:
    """Accept an invitation. A user with an account becomes a member; others continue with the registration."""
    await limit_account_calls(call)
    if not query.token:
        raise InvitationTokenMissing
    accepted = await acceptance.accept(db, query.token, call.client_ip)
    if accepted.joined:
        return ConfirmResponse("You have joined the organisation. Log in to go on.", "/login")
    return ConfirmResponse("The invitation is accepted. Register to go on.", f"/complete-registration?token={query.token}")
