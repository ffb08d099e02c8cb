"""The logged-in user, and logout."""

from gridfleet.api.auth.login import clear_session_cookies
from gridfleet.api.auth.session_user import SessionUserResponse, asked_organization, session_user
from gridfleet.api.http import Call, Message, endpoint, session
from gridfleet.domains.identity import sessions
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection


@endpoint("GET", "/api/v1/auth/me", caller=session(), codes=("UNAUTHORIZED", "INTERNAL_SERVER_ERROR"))
async def get_me(call: Call, caller: UserCaller, db: Connection) -> SessionUserResponse:
    """Return the user of the session.

    With `x-org-id`, `currentOrganization` and `featureFlags` are about that organisation, if the user may act in it.
    """
    return SessionUserResponse(await session_user(db, await sessions.account_of(db, caller), asked_organization(call)))


@endpoint("POST", "/api/v1/auth/logout", caller=session(), codes=("UNAUTHORIZED", "INTERNAL_SERVER_ERROR"))
async def logout(call: Call, caller: UserCaller, db: Connection) -> Message:
    """End the session and its access token immediately."""
    await sessions.end(db, caller)
    clear_session_cookies(call)
    return Message("You are logged out.")
