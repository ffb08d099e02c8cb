"""The notifications of an organisation have a bound an hour: one must not fill the log and the mail relay of all."""

import contextlib
from collections.abc import Sequence
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import Channel, Severity
from gridfleet.domains.notifications.push_tokens.registration import register_token
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Database
from support.builders.accounts import add_member, add_organization, add_user, caller_of
from support.clients.executed_statements import executed_statements

BOUNDS = {Channel.PUSH: 40, Channel.EMAIL: 10, Channel.SMS: 10}


async def add_recipient(database: Database, organization_id: UUID, tokens: int) -> None:
    user = await add_user(database)
    await add_member(database, organization_id, user.id, OrgRole.OPERATOR)
    async with database.transaction() as db:
        for number in range(tokens):
            await register_token(db, caller_of(user.id), f"ExpoPushToken[{user.id.hex}{number}]", None)


def alerts(organization_id: UUID, severity: Severity, count: int, channels: Sequence[Channel]) -> list[Notification]:
    content = NotificationContent(severity, "body", {})
    return [Notification(organization_id, content, None, severity, channels)] * count


async def queued(database: Database, organization_id: UUID, channel: Channel) -> int:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT count(*) FROM notification_log JOIN membership USING (user_id) WHERE organization_id = %s AND channel = %s",
            (organization_id, channel),
        )
        [(count,)] = await cursor.fetchall()
    return count


async def test_the_transactions_of_an_hour_have_a_bound_together(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.queue.MOST_AN_HOUR", BOUNDS)
    crowded, small = await add_organization(database), await add_organization(database)
    await add_recipient(database, crowded.id, 15)
    await add_recipient(database, small.id, 1)
    channels = [Channel.PUSH, Channel.EMAIL]
    for _ in range(8):
        async with database.transaction() as db:
            await notify_each(db, alerts(crowded.id, Severity.CRITICAL, 2, channels))
    assert await queued(database, crowded.id, Channel.PUSH) == BOUNDS[Channel.PUSH]
    assert await queued(database, crowded.id, Channel.EMAIL) == BOUNDS[Channel.EMAIL]
    async with database.transaction() as db:
        with capture_logs() as logged:
            assert (
                await notify_each(
                    db, [*alerts(crowded.id, Severity.CRITICAL, 3, channels), *alerts(small.id, Severity.CRITICAL, 3, channels)]
                )
                == 6
            )
    assert [(entry["organization_id"], entry["channel"], entry["left_out"]) for entry in logged] == [
        (str(crowded.id), Channel.PUSH, 3),
        (str(crowded.id), Channel.EMAIL, 3),
    ]


async def test_alerts_of_low_severity_leave_half_of_the_hour_to_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.queue.MOST_AN_HOUR", BOUNDS)
    organization = await add_organization(database)
    await add_recipient(database, organization.id, 0)
    for severity, count in ((Severity.WARNING, 5), (Severity.EMERGENCY, 10)):
        for _ in range(12):
            async with database.transaction() as db:
                await notify_each(db, alerts(organization.id, severity, 1, [Channel.EMAIL]))
        assert await queued(database, organization.id, Channel.EMAIL) == count


async def test_the_last_room_of_an_hour_is_for_users_who_want_the_severity(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of other users took the room: the notification was counted, and reached no address."""
    monkeypatch.setattr("gridfleet.domains.notifications.queue.MOST_AN_HOUR", dict.fromkeys(Channel, 2))
    organization = await add_organization(database)
    for _ in range(8):
        await add_recipient(database, organization.id, 0)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO notification_preference (user_id, push, email, sms) SELECT user_id, '{}',"
            " CASE WHEN row_number() OVER (ORDER BY user_id) > 3 THEN '{CRITICAL}'::text[] ELSE '{}' END, '{}'"
            " FROM membership WHERE organization_id = %s",
            (organization.id,),
        )
    async with database.transaction() as db:
        assert await notify_each(db, alerts(organization.id, Severity.CRITICAL, 1, [Channel.EMAIL])) == 2
    assert await queued(database, organization.id, Channel.EMAIL) == 2


async def test_a_transaction_that_is_rolled_back_uses_none_of_the_hour(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ingest repeats a batch whose transaction failed."""
    monkeypatch.setattr("gridfleet.domains.notifications.queue.MOST_AN_HOUR", BOUNDS)
    organization = await add_organization(database)
    await add_recipient(database, organization.id, 0)
    ten = alerts(organization.id, Severity.CRITICAL, 10, [Channel.EMAIL])
    for _ in range(3):
        with contextlib.suppress(ZeroDivisionError):
            async with database.transaction() as db:
                await notify_each(db, ten)
                raise ZeroDivisionError
    async with database.transaction() as db:
        assert await notify_each(db, ten) == 10


async def test_the_next_due_mail_is_found_without_reading_older_push_messages(database: Database) -> None:
    """A statement that takes too long would stop the deliveries by this channel."""
    user = await add_user(database)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO notification_log (id, user_id, channel, address, subject, body, metadata, due_at)"
            " SELECT gen_random_uuid(), %s, CASE WHEN n > 20000 THEN 'EMAIL' ELSE 'PUSH' END, 'address', 'subject', 'body',"
            " '{}', now() - interval '1 day' + n * interval '1 s' FROM generate_series(1, 40000) AS n",
            (user.id,),
        )
    async with database.autocommit() as db:
        await db.execute("ANALYZE notification_log")
    async with database.transaction() as db:
        with executed_statements() as statements:
            assert await store.next_due(db, Channel.EMAIL) == 0
        cursor = await db.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statements[0]}", (Channel.EMAIL,))
        [([explained],)] = await cursor.fetchall()
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 20
