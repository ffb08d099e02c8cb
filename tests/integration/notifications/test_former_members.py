"""Notifications that still wait when their member is removed, or when an address changes hands."""

import asyncio
from datetime import timedelta
from pathlib import Path

from gridfleet.domains.notifications.channels.email import EmailChannel
from gridfleet.domains.notifications.channels.push import ExpoPush
from gridfleet.domains.notifications.channels.sms import SmsChannel
from gridfleet.domains.notifications.delivery import NotificationWorker
from gridfleet.domains.notifications.logs import list_deliveries
from gridfleet.domains.notifications.models import Channel, NotificationLog
from gridfleet.domains.notifications.push_tokens.registration import register_token
from gridfleet.domains.notifications.queue import NotificationContent
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Database
from gridfleet.kernel.mail.delivery import FolderDelivery
from gridfleet.kernel.pagination import Paging
from support.builders.accounts import add_member, add_organization, add_user, caller_of
from support.builders.notifications import notify_members
from support.servers.expo_server import expo_server
from support.servers.postbox import delivered
from support.servers.running_task import running

UNWANTED = "the user is no longer an ORG_ADMIN or OPERATOR of the organisation, no longer has this address, or does not want it"
TOKEN = "ExpoPushToken[bbbbbbbbbbbbbbbbbbbbbb]"


async def test_former_members_are_not_notified(database: Database, home: Path) -> None:
    """Notifications may wait for hours, while the mail server is away or thousands of others are sent before."""
    organization, elsewhere = await add_organization(database), await add_organization(database)
    member, lowered, removed = [await add_user(database) for _ in range(3)]
    for user in (member, lowered, removed):
        await add_member(database, organization.id, user.id, OrgRole.OPERATOR)
    await add_member(database, elsewhere.id, removed.id, OrgRole.OPERATOR)
    async with database.transaction() as db:
        for which in (organization, elsewhere):
            content = NotificationContent(which.slug, "bat1.soc is 9 %", {"organizationId": str(which.id)})
            await notify_members(db, which.id, [Channel.EMAIL], content)
        of_user = "WHERE organization_id = %s AND user_id = %s"
        await db.execute(f"DELETE FROM membership {of_user}", (organization.id, removed.id))
        await db.execute(f"UPDATE membership SET role = 'VIEWER' {of_user}", (organization.id, lowered.id))

    mail = EmailChannel(FolderDelivery(home / "mail", "Gridfleet <no-reply@example.com>"), "http://localhost")
    worker = NotificationWorker(
        database, {Channel.EMAIL: mail}, ExpoPush("http://127.0.0.1:1"), waits=[timedelta(seconds=0.05)]
    )
    async with running(worker.run()):
        logs = await _settled(database)

    sent = {user.id: [mail["Subject"] for mail in delivered(home, user.email)] for user in (member, lowered, removed)}
    assert sent == {member.id: [organization.slug], lowered.id: [], removed.id: [elsewhere.slug]}
    assert {(log.user_id, log.error) for log in logs if log.status == "FAILED"} == {
        (user.id, UNWANTED) for user in (lowered, removed)
    }


async def test_addresses_of_other_users_are_not_notified(database: Database, home: Path) -> None:
    organization, stranger = await add_organization(database), await add_user(database)
    keeps, gave = await add_user(database), await add_user(database)
    for user in (keeps, gave):
        await add_member(database, organization.id, user.id, OrgRole.OPERATOR)
    async with database.transaction() as db:
        await db.execute("UPDATE user_account SET phone = '+420123456789' WHERE id = %s", (gave.id,))
        await register_token(db, caller_of(gave.id), TOKEN, "ios")
        content = NotificationContent("Low battery", "bat1.soc is 9 %", {"organizationId": str(organization.id)})
        await notify_members(db, organization.id, list(Channel), content)
        await register_token(db, caller_of(stranger.id), TOKEN, "ios")
        await db.execute(
            "UPDATE user_account SET phone = '+420987654321', email = 'other@example.com' WHERE id = %s", (gave.id,)
        )

    mail = EmailChannel(FolderDelivery(home / "mail", "Gridfleet <no-reply@example.com>"), "http://localhost")
    with expo_server() as expo:
        push = ExpoPush(expo.url)
        channels = {Channel.PUSH: push, Channel.EMAIL: mail, Channel.SMS: SmsChannel(None)}
        async with running(NotificationWorker(database, channels, push).run()):
            logs = await _settled(database)

    assert expo.messages == []
    assert [len(delivered(home, user.email)) for user in (keeps, gave)] == [1, 0]
    assert sorted((log.channel, log.error) for log in logs if log.user_id == gave.id) == [
        (channel, UNWANTED) for channel in sorted(Channel)
    ]


async def _settled(database: Database) -> list[NotificationLog]:
    async with asyncio.timeout(30):
        while True:
            async with database.transaction() as db:
                logs = (await list_deliveries(db, Paging(1, 10))).data
            if all(log.status != "PENDING" for log in logs):
                return logs
            await asyncio.sleep(0.02)
