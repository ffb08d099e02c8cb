"""The caller's own sessions: listing them, ending one, ending all."""

from uuid import UUID

from gridfleet.api.auth.login import clear_session_cookies
from gridfleet.api.http import Call, Message, endpoint, session
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.models import SessionInfo
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection


@endpoint("GET", "/api/v1/auth/sessions", caller=session(), codes=("UNAUTHORIZED", "INTERNAL_SERVER_ERROR"), addition=True)
async def list_sessions(caller: UserCaller, db: Connection) -> list[SessionInfo]:
    """List the caller's newest 1,000 open sessions with the address and program that opened them, newest first."""
    return await sessions.list_sessions(db, caller)


@endpoint(
    "DELETE",
    "/api/v1/auth/sessions/{id}",
    caller=session(),
    codes=("INVALID_UUID", "NOT_FOUND", "UNAUTHORIZED", "INTERNAL_SERVER_ERROR"),
    addition=True,
)
async def end_session(call: Call, caller: UserCaller, db: Connection, id: UUID) -> Message:
    """End one of the caller's sessions and its access token immediately. The current session is allowed too."""
    await sessions.revoke(db, caller, id)
    if id == caller.session_id:
        clear_session_cookies(call)
    return Message("The session was ended.")


@endpoint("POST", "/api/v1/auth/logout-all", caller=session(), codes=("UNAUTHORIZED", "INTERNAL_SERVER_ERROR"))
async def logout_everywhere(call: Call, caller: UserCaller, db: Connection) -> Message:
    """End every session of the caller immediately, including the current one, and delete their push devices."""
    await sessions.end_all(db, caller)
    clear_session_cookies(call)
    return Message("You are logged out everywhere.")
