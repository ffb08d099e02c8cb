"""Login and refresh. Both return an access token and the session user, and set both cookies."""

from typing import Annotated, Final

import msgspec
from pydantic import AfterValidator, Field, StringConstraints

from gridfleet.api.access.guards import SESSION_COOKIE
from gridfleet.api.auth.limits import limit_account_calls
from gridfleet.api.auth.session_user import SessionUser, asked_organization, session_user
from gridfleet.api.http import Call, Email, Input, endpoint, public
from gridfleet.domains.identity import login as identity_login
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.access_tokens import ACCESS_TOKEN_LIFETIME
from gridfleet.domains.identity.emails import normalized
from gridfleet.domains.identity.models import Client, OpenedSession

__all__ = ["AuthResponse", "clear_session_cookies", "welcome"]

REFRESH_COOKIE: Final = "gridfleet_refresh"
REFRESH_COOKIE_PATH: Final = "/api/v1/auth"
SESSION_COOKIE_PATH: Final = "/"

_SHORTEST, _LONGEST = identity_login.LOGIN_PASSWORD_CHARACTERS


def _long_enough(password: str) -> str:
    if len(password) < _SHORTEST:
        raise ValueError(f"must have at least {_SHORTEST} characters")
    return password


class Login(Input):
    """Login credentials. A password over the limit can be valid, so its length is refused only after the hash check fails."""

    email: Email
    password: Annotated[
        str,
        StringConstraints(strip_whitespace=False),
        Field(json_schema_extra={"minLength": _SHORTEST, "maxLength": _LONGEST}),
        AfterValidator(_long_enough),
    ]


class AuthResponse(msgspec.Struct, frozen=True):
    """A new access token of a session, and the session's user."""

    access_token: str
    user: SessionUser


@endpoint(
    "POST",
    "/api/v1/auth/login",
    caller=public(),
    codes=("VALIDATION_ERROR", "INVALID_CREDENTIALS", "ACCOUNT_LOCKED", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
)
async def login(call: Call, body: Login) -> AuthResponse:
    """Open a session."""
    state = call.state
    await state.rate_limiter.hit("login address", call.client_network, state.settings.login_per_address_per_minute)
    await state.rate_limiter.hit("login account", normalized(body.email), state.settings.login_per_account_per_minute)
    opened = await identity_login.log_in(
        state.database,
        state.passwords,
        state.access_tokens,
        body.email,
        body.password,
        Client(call.client_ip, call.user_agent),
    )
    return await welcome(call, opened)


@endpoint(
    "POST",
    "/api/v1/auth/refresh",
    caller=public(),
    codes=("REFRESH_TOKEN_INVALID", "TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR"),
)
async def refresh_session(call: Call) -> AuthResponse:
    """Extend the session of the refresh cookie and rotate the cookie."""
    await limit_account_calls(call)
    state = call.state
    token = call.cookies.get(REFRESH_COOKIE)
    return await welcome(call, await sessions.refresh(state.database, state.access_tokens, token, call.client_ip))


def clear_session_cookies(call: Call) -> None:
    """Delete both token cookies in the browser."""
    call.clear_cookie(REFRESH_COOKIE, path=REFRESH_COOKIE_PATH)
    call.clear_cookie(SESSION_COOKIE, path=SESSION_COOKIE_PATH)


async def welcome(call: Call, opened: OpenedSession) -> AuthResponse:
    """Return the response for a session: an access token in the body, and both cookies for browsers."""
    async with call.state.database.transaction() as db:
        user = await session_user(db, opened.account, asked_organization(call))
    refresh_seconds, access_seconds = int(sessions.LIFETIME.total_seconds()), int(ACCESS_TOKEN_LIFETIME.total_seconds())
    call.set_cookie(REFRESH_COOKIE, opened.refresh_token, path=REFRESH_COOKIE_PATH, max_age=refresh_seconds)
    call.set_cookie(SESSION_COOKIE, opened.access_token, path=SESSION_COOKIE_PATH, max_age=access_seconds)
    call.no_store()
    return AuthResponse(opened.access_token, user)
