"""Login, lockout and sessions on a real database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from gridfleet.api.error_catalogue import CATALOGUE
from gridfleet.domains.identity import bootstrap, housekeeping, lockout, login, sessions
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.domains.identity.errors import (
    AccountDisabled,
    AccountLocked,
    InvalidCredentials,
    RefreshTokenInvalid,
    RefreshTokenMalformed,
)
from gridfleet.domains.identity.login import log_in
from gridfleet.domains.identity.models import Client, OpenedSession
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.errors import CodedError, Unauthorized, ValidationFailed
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.security.passwords import Passwords
from support.builders.large_changes import end_large_changes

EMAIL = "ada@example.com"
PASSWORD = " Correct horse 1 "
CLIENT = Client("127.0.0.1", "pytest")


class Identity:
    """A service with one SuperAdmin, and what one does with it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.passwords = Passwords(threads=2)
        self.tokens = AccessTokens(Keyring.parse(Keyring.generate()))

    async def create(self, email: str = EMAIL, password: str = PASSWORD) -> None:
        async with self.database.transaction() as db:
            await bootstrap.ensure_first_super_admin(db, email, password)

    async def log_in(self, email: str = EMAIL, password: str = PASSWORD) -> OpenedSession:
        return await log_in(self.database, self.passwords, self.tokens, email, password, CLIENT)

    async def fails(self, email: str = EMAIL, password: str = "wrong password") -> type[CodedError]:
        with pytest.raises(CodedError) as refusal:
            await self.log_in(email, password)
        return refusal.type

    async def refresh(self, token: str | None) -> OpenedSession:
        return await sessions.refresh(self.database, self.tokens, token)

    async def caller(self, access_token: str) -> UserCaller:
        async with self.database.transaction() as db:
            return (await sessions.live_session(db, sessions.read_access_token(self.tokens, access_token))).caller

    async def execute(self, statement: str) -> int:
        async with self.database.transaction() as db:
            return (await db.execute(statement.encode())).rowcount

    async def pass_time(self, interval: timedelta) -> None:
        """Makes everything that happened so far lie further back."""
        back = f"interval '{interval.total_seconds()} seconds'"
        await self.execute(
            f"UPDATE login_failure SET locked_until = locked_until - {back},"
            f" failed_at = ARRAY(SELECT t - {back} FROM unnest(failed_at) AS t)"
        )
        await self.execute(f"UPDATE refresh_token SET rotated_at = rotated_at - {back}, expires_at = expires_at - {back}")
        await self.execute(f"UPDATE user_session SET expires_at = expires_at - {back}, revoked_at = revoked_at - {back}")


@pytest.fixture
async def identity(database: Database) -> AsyncIterator[Identity]:
    """The service with its first SuperAdmin."""
    made = Identity(database)
    await made.create()
    yield made
    made.passwords.close()


async def test_the_owner_logs_in_whatever_the_case_of_the_address(identity: Identity) -> None:
    opened = await identity.log_in(" ADA@Example.com ")
    caller = await identity.caller(opened.access_token)
    assert (opened.account.email, caller.email, caller.is_super_admin) == (EMAIL, EMAIL, True)


async def test_passwords_are_not_trimmed(identity: Identity) -> None:
    assert await identity.fails(password=PASSWORD.strip()) is InvalidCredentials


async def test_a_long_password_logs_in_and_a_wrong_long_one_is_bad_input(identity: Identity) -> None:
    long = "L0ng-" * 40
    await identity.execute("DELETE FROM user_account")
    await identity.create(password=long)
    await identity.log_in(password=long)
    assert await identity.fails(password=long + "x") is ValidationFailed
    assert await identity.fails(password="x" * 100_000) is ValidationFailed


@pytest.mark.parametrize("email", [EMAIL, "nobody@example.com"])
async def test_ten_failures_lock_known_and_unknown_addresses_alike(identity: Identity, email: str) -> None:
    assert [await identity.fails(email) for _ in range(10)] == [InvalidCredentials] * 10
    assert await identity.fails(email) is AccountLocked
    assert await identity.fails(email.upper(), PASSWORD) is AccountLocked
    await identity.pass_time(lockout.LOCK - timedelta(minutes=1))
    assert await identity.fails(email, PASSWORD) is AccountLocked
    await identity.pass_time(timedelta(minutes=1))
    assert await identity.fails(email) is InvalidCredentials


async def test_guesses_under_any_address_fill_no_audit_log(identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone can make them without limit, and events are kept for years. Those about accounts are all recorded."""
    monkeypatch.setattr(login, "MOST_UNKNOWN_A_MINUTE", 3)
    await identity.create()
    for number in range(5):
        for _ in range(lockout.LIMIT if number < 4 else 1):
            await identity.fails(f"nobody-{number}@example.com")
    for _ in range(lockout.LIMIT):
        assert await identity.fails() is InvalidCredentials
    async with identity.database.transaction() as db:
        cursor = await db.execute("SELECT event, subject_id IS NOT NULL, count(*) FROM audit_event GROUP BY 1, 2")
        counts = {(event, known): count for event, known, count in await cursor.fetchall()}
    assert counts == {
        ("user.login_failed", False): 3,
        ("user.locked", False): 3,
        ("user.login_failed", True): lockout.LIMIT,
        ("user.locked", True): 1,
    }


async def test_the_right_password_of_a_disabled_account_fills_no_audit_log(identity: Identity) -> None:
    await identity.execute("UPDATE user_account SET disabled_at = now()")
    assert await identity.fails(password=PASSWORD) is AccountDisabled
    added = await identity.execute(
        "INSERT INTO audit_event (id, event, actor_type, created_at) SELECT gen_random_uuid(), event, actor_type, created_at"
        " FROM audit_event, generate_series(1, 5999) WHERE event = 'user.login_failed'"
    )
    assert added == 5999
    assert await identity.fails(password=PASSWORD) is AccountDisabled
    assert await identity.execute("SELECT FROM audit_event WHERE event = 'user.login_failed'") == 6000


async def test_the_right_password_logs_in_once_the_lock_is_over(identity: Identity) -> None:
    for _ in range(11):
        await identity.fails()
    await identity.pass_time(lockout.LOCK)
    await identity.log_in()


async def test_only_failures_of_the_last_fifteen_minutes_count(identity: Identity) -> None:
    await identity.fails()
    await identity.pass_time(timedelta(minutes=10))
    for _ in range(8):
        await identity.fails()
    await identity.pass_time(timedelta(minutes=6))
    assert [await identity.fails() for _ in range(2)] == [InvalidCredentials] * 2
    assert await identity.fails() is AccountLocked, "eight and two within the window, though the first fell out of it"


async def test_success_forgets_failures(identity: Identity) -> None:
    for _ in range(9):
        await identity.fails()
    await identity.log_in()
    assert [await identity.fails() for _ in range(10)] == [InvalidCredentials] * 10


async def test_guesses_in_parallel_get_no_more_tries(identity: Identity) -> None:
    answers = await asyncio.gather(*(identity.fails() for _ in range(25)))
    assert answers.count(InvalidCredentials) == 10
    assert answers.count(AccountLocked) == 15


async def test_many_right_logins_at_once_all_succeed(identity: Identity) -> None:
    opened = await asyncio.gather(*(identity.log_in() for _ in range(15)))
    assert len({one.refresh_token for one in opened}) == 15


async def test_an_outdated_hash_is_made_anew(identity: Identity) -> None:
    from argon2 import PasswordHasher

    weak = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)
    await identity.execute(f"UPDATE user_account SET password_hash = '{weak}'")
    await asyncio.gather(*(identity.log_in() for _ in range(3)))
    assert await identity.execute(f"SELECT FROM user_account WHERE password_hash = '{weak}'") == 0
    await identity.log_in()


async def test_a_login_while_another_renews_the_hash(identity: Identity, monkeypatch: pytest.MonkeyPatch) -> None:
    from argon2 import PasswordHasher

    weak = PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash(PASSWORD)
    await identity.execute(f"UPDATE user_account SET password_hash = '{weak}'")
    matches = identity.passwords.matches

    async def matches_before_another_login(password: str, hashed: str | None) -> bool:
        monkeypatch.undo()
        right = await matches(password, hashed)
        await identity.log_in()
        return right

    monkeypatch.setattr(identity.passwords, "matches", matches_before_another_login)
    await identity.log_in()


async def test_refreshing_rotates(identity: Identity) -> None:
    opened = await identity.log_in()
    refreshed = await identity.refresh(opened.refresh_token)
    assert refreshed.refresh_token != opened.refresh_token
    first, second = await identity.caller(opened.access_token), await identity.caller(refreshed.access_token)
    assert first.session_id == second.session_id


async def test_two_tabs_refresh_at_the_same_time_and_both_go_on(identity: Identity) -> None:
    opened = await identity.log_in()
    tabs = await asyncio.gather(*(identity.refresh(opened.refresh_token) for _ in range(4)))
    await identity.pass_time(timedelta(minutes=14))
    for tab in tabs:
        await identity.refresh(tab.refresh_token)


async def test_a_late_tab_is_answered_although_another_refreshed_twice(identity: Identity) -> None:
    opened = await identity.log_in()
    again = await identity.refresh((await identity.refresh(opened.refresh_token)).refresh_token)
    await identity.pass_time(timedelta(seconds=8))
    late = await identity.refresh(opened.refresh_token)
    await identity.pass_time(timedelta(minutes=14))
    await identity.refresh(late.refresh_token)
    await identity.refresh(again.refresh_token)


@pytest.mark.parametrize("rotations", [1, 3])
async def test_a_rotated_token_that_comes_back_ends_the_session(identity: Identity, rotations: int) -> None:
    opened = newest = await identity.log_in()
    bystander = await identity.log_in()
    for _ in range(rotations):
        newest = await identity.refresh(newest.refresh_token)
    await identity.pass_time(sessions.ROTATION_TOLERANCE + timedelta(seconds=1))
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(opened.refresh_token)
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(newest.refresh_token)
    with pytest.raises(Unauthorized):
        await identity.caller(newest.access_token)
    await identity.caller(bystander.access_token)


async def test_a_token_that_was_rotated_while_the_clock_was_ahead_is_a_used_one(identity: Identity) -> None:
    """A copy of it gave new tokens until that time."""
    opened = await identity.log_in()
    newest = await identity.refresh(opened.refresh_token)
    await identity.execute("UPDATE refresh_token SET rotated_at = rotated_at + interval '2 hours'")
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(opened.refresh_token)
    with pytest.raises(Unauthorized):
        await identity.caller(newest.access_token)


async def test_sessions_end_after_thirty_idle_days(identity: Identity) -> None:
    opened = await identity.log_in()
    await identity.pass_time(timedelta(days=29))
    opened = await identity.refresh(opened.refresh_token)
    await identity.pass_time(timedelta(days=29))
    opened = await identity.refresh(opened.refresh_token)
    await identity.pass_time(timedelta(days=30, seconds=1))
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(opened.refresh_token)
    with pytest.raises(Unauthorized):
        await identity.caller(opened.access_token)


@pytest.mark.parametrize("token", [None, "", "x", "é" * 43, "A" * 44, "A" * 42 + "\n"])
async def test_malformed_refresh_tokens_are_bad_requests(identity: Identity, token: str | None) -> None:
    with pytest.raises(RefreshTokenMalformed) as refusal:
        await identity.refresh(token)
    assert (refusal.value.status, refusal.value.code) == (400, "REFRESH_TOKEN_INVALID")


async def test_unknown_refresh_tokens_are_unauthorized(identity: Identity) -> None:
    with pytest.raises(RefreshTokenInvalid) as refusal:
        await identity.refresh("A" * 43)
    assert (refusal.value.status, CATALOGUE[refusal.value.code].status) == (None, 401)


async def test_logout_ends_both_tokens_at_once_and_no_other_session(identity: Identity) -> None:
    opened, other = await identity.log_in(), await identity.log_in()
    caller = await identity.caller(opened.access_token)
    async with identity.database.transaction() as db:
        await sessions.end(db, caller)
    with pytest.raises(Unauthorized):
        await identity.caller(opened.access_token)
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(opened.refresh_token)
    await identity.caller(other.access_token)


async def test_raising_the_token_version_ends_every_session(identity: Identity) -> None:
    opened = await identity.log_in()
    await identity.execute("UPDATE user_account SET token_version = token_version + 1")
    with pytest.raises(Unauthorized):
        await identity.caller(opened.access_token)
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(opened.refresh_token)
    await identity.caller((await identity.log_in()).access_token)


async def test_another_deployments_token_is_refused(identity: Identity) -> None:
    opened = await identity.log_in()
    identity.tokens = AccessTokens(Keyring.parse(Keyring.generate()))
    with pytest.raises(Unauthorized):
        await identity.caller(opened.access_token)


async def test_tokens_are_not_stored_in_clear(identity: Identity) -> None:
    opened = await identity.log_in()
    assert await identity.execute(f"SELECT FROM refresh_token t WHERE t::text LIKE '%{opened.refresh_token}%'") == 0


async def test_housekeeping_forgets_what_no_longer_counts(identity: Identity) -> None:
    opened = await identity.log_in()
    await identity.refresh(opened.refresh_token)
    await identity.fails("nobody@example.com")
    await identity.pass_time(timedelta(days=32))
    kept = await identity.log_in()
    await housekeeping.sweep(identity.database)
    assert await identity.execute("SELECT FROM login_failure") == 0
    assert await identity.execute("SELECT FROM refresh_token") == 1
    assert await identity.execute("SELECT FROM user_session") == 1
    await identity.refresh(kept.refresh_token)


async def test_housekeeping_deletes_many_tokens_and_sessions_in_many_statements(identity: Identity) -> None:
    ended = await identity.log_in()
    await identity.execute(
        "INSERT INTO refresh_token SELECT sha256(n::text::bytea), s.id, s.expires_at"
        " FROM user_session s, generate_series(1, 25000) n"
    )
    await identity.execute(
        "INSERT INTO user_session SELECT (jsonb_populate_record(s, jsonb_build_object('id', gen_random_uuid()))).*"
        " FROM user_session s, generate_series(1, 25000)"
    )
    await identity.execute("UPDATE user_session SET revoked_at = now() - interval '2 days'")
    kept = await identity.log_in()
    for table in ("refresh_token", "user_session"):
        await end_large_changes(identity.database, table, 20_000)

    await housekeeping.sweep(identity.database)

    assert await identity.execute("SELECT FROM refresh_token") == 1
    assert await identity.execute("SELECT FROM user_session") == 1
    await identity.refresh(kept.refresh_token)
    with pytest.raises(RefreshTokenInvalid):
        await identity.refresh(ended.refresh_token)


async def test_the_first_super_admin_is_made_once_even_by_two_starting_processes(database: Database) -> None:
    async def start() -> bootstrap.FirstAdmin | None:
        async with database.transaction() as db:
            return await bootstrap.ensure_first_super_admin(db, None, None)

    made = [admin for admin in await asyncio.gather(start(), start(), start()) if admin is not None]
    assert [admin.email for admin in made] == ["admin@gridfleet.local"]
    password = made[0].generated_password
    assert password is not None
    assert password not in repr(made[0])
    identity = Identity(database)
    await identity.log_in(made[0].email, password)
    identity.passwords.close()


@pytest.mark.parametrize(
    ("email", "password"), [("nonsense", None), (None, "short"), (None, "x" * 257), (None, "tab\tpassword"), ("a@b", None)]
)
async def test_a_super_admin_who_could_not_log_in_is_refused(
    database: Database, email: str | None, password: str | None
) -> None:
    async with database.transaction() as db:
        with pytest.raises(ValueError, match="SuperAdmin"):
            await bootstrap.ensure_first_super_admin(db, email, password)


async def test_the_password_is_not_checked_if_there_is_a_super_admin(identity: Identity) -> None:
    """After the first start, containers get any word as the password."""
    async with identity.database.transaction() as db:
        assert await bootstrap.ensure_first_super_admin(db, None, "x") is None
        assert await bootstrap.ensure_first_super_admin(db, "nonsense", None) is None


async def test_an_existing_account_is_raised_to_super_admin(identity: Identity) -> None:
    await identity.execute("UPDATE user_account SET is_super_admin = false")
    old = await identity.log_in()
    await identity.create(password="another password")
    with pytest.raises(Unauthorized):
        await identity.caller(old.access_token)
    caller = await identity.caller((await identity.log_in(password="another password")).access_token)
    assert caller.is_super_admin
