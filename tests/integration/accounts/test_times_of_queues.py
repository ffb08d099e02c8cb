"""What a clock that was ahead has delayed is done soon after its correction."""

import asyncio
from datetime import timedelta
from uuid import UUID

from gridfleet.domains.notifications.channels.email import EmailChannel
from gridfleet.domains.notifications.channels.push import ExpoPush
from gridfleet.domains.notifications.delivery import NotificationWorker
from gridfleet.domains.notifications.models import Channel
from gridfleet.domains.notifications.queue import NotificationContent
from gridfleet.jobs.schedule import build_app
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.mail.delivery import FolderDelivery
from gridfleet.kernel.outbox import enqueue
from support.builders.notifications import notify_members
from support.builders.partner_site import partner_site
from support.clients.people import People
from support.servers.running_task import running

JOB = "INSERT INTO procrastinate_jobs (queue_name, task_name, args, scheduled_at) VALUES ('mail', %s, '{}', now() + %s)"


async def correct(people: People) -> None:
    app = build_app(people.service.state.settings, people.service.state.database)
    await app.tasks["vcp.correct_silence"](timestamp=0)


async def test_effects_and_jobs_that_are_due_too_late_are_due(people: People) -> None:
    delays = {"fresh": timedelta(days=1), "closing": timedelta(hours=1, seconds=10), "failed": timedelta(minutes=50)}
    async with people.service.state.database.transaction() as db:
        for kind, delay in delays.items():
            await enqueue(db, kind, {}, delay=delay)
        await db.execute("UPDATE outbox SET attempts = 1 WHERE kind = 'failed'")
        await db.execute(JOB, ("late", timedelta(days=1)))
        await db.execute(JOB, ("retried", timedelta(hours=1)))
    await correct(people)
    assert await people.execute("SELECT kind FROM outbox WHERE due_at <= now() ORDER BY kind") == [("failed",), ("fresh",)]
    assert await people.execute("SELECT task_name FROM procrastinate_jobs WHERE scheduled_at <= now()") == [("late",)]


async def test_a_key_whose_access_to_the_broker_ended_too_early_has_it_again(people: People) -> None:
    site = await partner_site(people.service.state.database)
    await site.execute("UPDATE partner_key SET amqp_slug = NULL, expires_at = now() + interval '1 day'")
    await correct(people)
    assert await site.rows("SELECT amqp_slug FROM partner_key") == [(site.sender.key.slug,)]


async def test_notifications_that_are_due_too_late_are_due_after_the_quiet_hours(people: People) -> None:
    ada, ben, eve = await people.person(), await people.person(), await people.person()
    org = (await people.organization(ORG_ADMIN=ada, OPERATOR=ben)).id
    other = (await people.organization(ORG_ADMIN=eve)).id
    now = utc_now()
    around = {"from": f"{now - timedelta(hours=1):%H:%M}", "to": f"{now + timedelta(hours=3):%H:%M}", "timeZone": "UTC"}
    for person in (ben, eve):
        answer = await people.call("PATCH", "/notifications/preferences", {"quietHours": around}, who=person)
        assert answer.status_code == 200
    database = people.service.state.database
    content = NotificationContent("Low battery", "body", {"severity": "WARNING"})
    async with database.transaction() as db:
        for organization in (org, other):
            await notify_members(db, organization, [Channel.EMAIL], content)
    end = (now + timedelta(hours=3)).replace(second=0, microsecond=0)
    for person, due_at in ((ada, now + timedelta(days=1)), (ben, end), (eve, now + timedelta(days=2))):
        await people.execute("UPDATE notification_log SET due_at = %s WHERE user_id = %s", due_at, person.id)

    await correct(people)

    async def of(user_id: UUID) -> tuple[object, ...]:
        [row] = await people.execute("SELECT status, attempts, due_at FROM notification_log WHERE user_id = %s", user_id)
        return tuple(row)

    assert await of(ben.id) == ("PENDING", 0, end)
    assert await people.execute("SELECT count(*) FROM notification_log WHERE due_at <= now()") == [(2,)]
    home = people.service.state.settings.home
    mail = EmailChannel(FolderDelivery(home / "mail", "Gridfleet <no-reply@example.com>"), "http://localhost")
    worker = NotificationWorker(database, {Channel.EMAIL: mail}, ExpoPush("http://127.0.0.1:1"))
    async with running(worker.run()), asyncio.timeout(30):
        while await people.execute("SELECT id FROM notification_log WHERE due_at < now() + interval '1 hour'"):
            await asyncio.sleep(0.1)
    assert (await of(ada.id))[0] == "SENT"
    assert await of(eve.id) == ("PENDING", 0, end)
