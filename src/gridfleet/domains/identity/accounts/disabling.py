"""SuperAdmins disable accounts, whose users are logged out at once and cannot log in, and enable them again."""

from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity import store as sessions_store
from gridfleet.domains.identity.accounts import store
from gridfleet.domains.identity.accounts.registry import get_user
from gridfleet.domains.identity.errors import LastSuperAdmin
from gridfleet.domains.identity.models import User
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Unauthorized

__all__ = ["disable", "enable"]


async def disable(db: Connection, caller: UserCaller, user_id: UUID) -> User:
    """Disable an account and end its sessions. Returns it, also if it was disabled before.

    Its memberships stay. API keys that the user created continue, because they belong to their organisations.

    Raises:
        UserNotFound: There is no such user.
        LastSuperAdmin: The account is the only SuperAdmin's that is enabled.
        Unauthorized: Another SuperAdmin has just disabled the caller.
    """
    # Two SuperAdmins who disable each other at the same time: the second waits, and is disabled when they continue.
    admins = await store.lock_enabled_super_admins(db)
    if caller.user_id not in admins:
        raise Unauthorized
    await get_user(db, user_id)
    if admins == {user_id}:
        raise LastSuperAdmin
    now = utc_now()
    # The account first: this waits for a login in progress, whose session is then revoked below.
    if await store.disable(db, user_id, now):
        await sessions_store.revoke_sessions(db, user_id, None, now)
        await store.delete_email_change(db, user_id)
        await store.delete_password_reset(db, user_id)
        await record(db, Event.USER_DISABLED, caller.as_actor, Subject.user(user_id))
    return await get_user(db, user_id)


async def enable(db: Connection, caller: UserCaller, user_id: UUID) -> User:
    """Enable an account, whose user can log in again. Returns it, also if it was not disabled. Raises UserNotFound."""
    await get_user(db, user_id)
    if await store.enable(db, user_id):
        await record(db, Event.USER_ENABLED, caller.as_actor, Subject.user(user_id))
    return await get_user(db, user_id)
