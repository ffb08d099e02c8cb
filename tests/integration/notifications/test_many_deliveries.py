"""The notifications of one transaction have a bound: ingest queues them while the messages of all plants wait."""

from gridfleet.domains.notifications.logs import trim_deliveries
from gridfleet.domains.notifications.models import Channel
from gridfleet.domains.notifications.push_tokens.registration import register_token
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Database
from support.builders.accounts import add_member, add_organization, add_user, caller_of


async def test_the_last_of_too_many_notifications_are_left_out(database: Database) -> None:
    crowded, small = await add_organization(database), await add_organization(database)
    for organization, users, tokens in ((crowded, 20, 50), (small, 1, 1)):
        for _ in range(users):
            user = await add_user(database)
            await add_member(database, organization.id, user.id, OrgRole.OPERATOR)
            async with database.transaction() as db:
                for number in range(tokens):
                    await register_token(db, caller_of(user.id), f"ExpoPushToken[{user.id.hex}{number}]", None)
    notifications = [
        Notification(organization.id, NotificationContent(f"{number}", "body", {}), None, None, [Channel.PUSH, Channel.EMAIL])
        for number in range(30)
        for organization in (crowded, small)
    ]
    async with database.transaction() as db:
        assert await notify_each(db, notifications) == 10_000 + 30 * 20 + 30 + 30
        cursor = await db.execute(
            "SELECT DISTINCT subject::int FROM notification_log JOIN membership USING (user_id)"
            " WHERE channel = 'PUSH' AND organization_id = %s ORDER BY 1",
            (crowded.id,),
        )
        assert [row[0] for row in await cursor.fetchall()] == list(range(10))


async def test_old_deliveries_are_deleted_in_short_transactions(database: Database) -> None:
    """One statement that took too long, or met one locked delivery, deleted none, again each day."""
    organization, user = await add_organization(database), await add_user(database)
    await add_member(database, organization.id, user.id, OrgRole.OPERATOR)
    content = NotificationContent("old", "body", {})
    notifications = [Notification(organization.id, content, None, None, [Channel.EMAIL])] * 1_500
    async with database.transaction() as db:
        await notify_each(db, notifications)
        await db.execute("UPDATE notification_log SET status = 'SENT', due_at = NULL, created_at = now() - interval '91 days'")
        await notify_each(db, notifications[:1])
    async with database.transaction() as held:
        await held.execute("SELECT FROM notification_log ORDER BY created_at LIMIT 1 FOR UPDATE")
        assert await trim_deliveries(database) == 1_499
    assert await trim_deliveries(database) == 1
    assert await trim_deliveries(database) == 0
