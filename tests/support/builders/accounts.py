"""Users and organisations for tests: accounts without the cost of a password hash, and sessions of these accounts."""

from uuid import UUID

from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.domains.identity.models import Account, Client
from gridfleet.domains.organizations import registry
from gridfleet.domains.organizations.models import Organization
from gridfleet.kernel.caller import Actor, ActorType, OrgRole, UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id

NO_PASSWORD = "!"
"""A stored hash that no password matches."""


async def add_user(
    database: Database, email: str | None = None, *, super_admin: bool = False, default_organization_id: UUID | None = None
) -> Account:
    """Return a new account without a usable password. `session_of` opens its sessions."""
    user_id = new_id()
    address = email or f"{user_id}@example.com"
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO user_account (id, email, name, password_hash, is_super_admin, default_organization_id)"
            " VALUES (%s, %s, 'Test User', %s, %s, %s)",
            (user_id, address, NO_PASSWORD, super_admin, default_organization_id),
        )
    return Account(user_id, address, "Test User", super_admin, default_organization_id, 1)


async def add_organization(database: Database, slug: str | None = None) -> Organization:
    """Return a new organisation without members."""
    async with database.transaction() as db:
        return await registry.create(db, Actor(ActorType.SYSTEM), "Test Organisation", slug or f"org-{new_id().hex}", None)


async def add_member(database: Database, organization_id: UUID, user_id: UUID, role: OrgRole) -> None:
    """Add a user to an organisation as a member with `role`."""
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO membership (id, organization_id, user_id, role) VALUES (%s, %s, %s, %s)",
            (new_id(), organization_id, user_id, role.name),
        )


def caller_of(user_id: UUID) -> UserCaller:
    """Return a user as the caller of a function that asks for one, with a session that is not stored."""
    return UserCaller(user_id, new_id(), f"{user_id}@example.com", "Test User", False, None)


async def session_of(database: Database, tokens: AccessTokens, account: Account) -> str:
    """Return the access token of a new session of an account made by `add_user`."""
    async with database.transaction() as db:
        opened = await sessions.open_session(db, tokens, account, NO_PASSWORD, Client("127.0.0.1", None))
    assert opened is not None
    return opened.access_token


async def super_admin_token(database: Database, tokens: AccessTokens) -> str:
    """Return an access token of a new SuperAdmin, who may act in every organisation."""
    return await session_of(database, tokens, await add_user(database, super_admin=True))
