"""Preferences of users: what they are notified of, when notifications wait, the test message, and a user's own deliveries."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.channels.email import EmailChannel
from gridfleet.domains.notifications.channels.push import ExpoPush
from gridfleet.domains.notifications.delivery import NotificationWorker
from gridfleet.domains.notifications.models import Channel, QuietHours, Severity
from gridfleet.domains.notifications.preferences import queue_test
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.domains.notifications.quiet_hours import quiet_until
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.delivery import FolderDelivery
from support.clients.people import People, Person, refused
from support.servers.api_service import api_service
from support.servers.postbox import delivered
from support.servers.running_task import running

DEFAULT = {
    "push": ["INFO", "WARNING", "CRITICAL", "EMERGENCY"],
    "email": ["WARNING", "CRITICAL", "EMERGENCY"],
    "sms": ["CRITICAL", "EMERGENCY"],
    "quietHours": None,
    "updatedAt": None,
    "phone": None,
}
NIGHT = {"from": "22:00", "to": "07:00", "timeZone": "Europe/Vienna"}
TOKEN = "ExpoPushToken[cccccccccccccccccccccc]"


@pytest.fixture
async def people(database_url: str, home: Path) -> AsyncIterator[People]:
    async with api_service(database_url, home) as running_service:
        yield People(running_service)


async def prefer(people: People, who: Person, **changes: Any) -> dict[str, Any]:
    answer = await people.call("PATCH", "/notifications/preferences", changes, who=who)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def notify(people: People, org: UUID, *severities: Severity) -> int:
    notifications = [
        Notification(
            org,
            NotificationContent(f"{severity}", "body", {"organizationId": str(org), "severity": severity.value}),
            None,
            severity,
        )
        for severity in severities
    ]
    async with people.service.state.database.transaction() as db:
        return await notify_each(db, notifications)


async def deliveries(people: People, who: Person, query: str = "") -> list[dict[str, Any]]:
    answer = await people.call("GET", f"/notifications/deliveries?limit=100{query}", who=who)
    assert answer.json()["meta"]["total"] == len(answer.json()["data"])
    return list(answer.json()["data"])


async def test_preferences_begin_with_the_default_and_change_one_by_one(people: People) -> None:
    ada, ben = await people.person(), await people.person()
    assert (await people.call("GET", "/notifications/preferences", who=ada)).json() == DEFAULT
    assert await prefer(people, ada) == DEFAULT, "an empty change stores nothing"
    changed = await prefer(people, ada, email=["EMERGENCY", "INFO", "INFO"], sms=[])
    assert changed == {**DEFAULT, "email": ["INFO", "EMERGENCY"], "sms": [], "updatedAt": changed["updatedAt"]}
    changed = await prefer(people, ada, quietHours=NIGHT)
    assert changed["quietHours"] == {**NIGHT, "severities": ["INFO", "WARNING", "CRITICAL"]}
    assert changed["email"] == ["INFO", "EMERGENCY"]
    assert (await people.call("GET", "/notifications/preferences", who=ada)).json() == changed
    assert (await prefer(people, ada, quietHours=None))["quietHours"] is None
    assert (await people.call("GET", "/notifications/preferences", who=ben)).json() == DEFAULT
    events = [event["details"] for event in await people.events(of=ada.id) if event["event"] == "user.notifications_changed"]
    assert events == [{"changed": ["email", "sms"]}, {"changed": ["quietHours"]}, {"changed": ["quietHours"]}]


async def test_what_stays_the_same_is_no_change(people: People) -> None:
    """Each request was an audit event, which is kept for years."""
    ada = await people.person()
    first = await prefer(people, ada, push=DEFAULT["push"], quietHours=NIGHT)
    assert first["updatedAt"] is not None, "a user who chooses the default keeps it when a release changes it"
    assert await prefer(people, ada, push=DEFAULT["push"], quietHours=NIGHT) == first
    await prefer(people, ada, push=["EMERGENCY"], sms=DEFAULT["sms"], quietHours=NIGHT)
    events = [event["details"] for event in await people.events(of=ada.id) if event["event"] == "user.notifications_changed"]
    assert events == [{"changed": ["push", "quietHours"]}, {"changed": ["push"]}]


async def test_a_change_makes_the_newest_thousand_waiting_deliveries_due(people: People) -> None:
    """All of them were updated in the request, which held a connection and the preferences for which deliveries to all wait."""
    ada, ben = await people.person(), await people.person()
    for person in (ada, ben):
        await prefer(people, person, quietHours=NIGHT)
        await people.execute(
            "INSERT INTO notification_log (id, user_id, channel, address, subject, body, metadata, created_at, due_at)"
            " SELECT gen_random_uuid(), %s, 'EMAIL', 'a@example.com', n, '', '{}', now() - n * interval '1 s',"
            " now() + interval '6 hours' FROM generate_series(1, 5000) AS n",
            person.id,
        )
    await people.execute("UPDATE notification_log SET status = 'SENT', due_at = NULL WHERE subject::int <= 500")
    await prefer(people, ada, quietHours=None)
    due = await people.execute("SELECT user_id, subject::int FROM notification_log WHERE due_at <= now() ORDER BY subject::int")
    assert due == [(ada.id, number) for number in range(501, 1501)]


async def test_a_user_changes_preferences_thirty_times_a_minute(people: People) -> None:
    """The console sends one request for each of twelve check boxes."""
    ada, ben = await people.person(), await people.person()
    for _ in range(15):
        await prefer(people, ada, quietHours=NIGHT)
        await prefer(people, ada, quietHours=None)
    limited = await people.call("PATCH", "/notifications/preferences", {"quietHours": NIGHT}, who=ada)
    refused(limited, 429, "TOO_MANY_REQUESTS")
    assert 0 < int(limited.headers["retry-after"]) <= 60
    await prefer(people, ben, quietHours=NIGHT)


async def test_the_number_for_text_messages_is_that_of_the_profile(people: People) -> None:
    ada, ben = await people.person(), await people.person()
    assert (await people.call("PATCH", "/auth/me", {"phone": "+43123456789"}, who=ada)).status_code == 200
    assert (await people.call("GET", "/notifications/preferences", who=ada)).json() == {**DEFAULT, "phone": "+43123456789"}
    assert (await prefer(people, ada, sms=[]))["phone"] == "+43123456789"
    assert (await people.call("GET", "/notifications/preferences", who=ben)).json() == DEFAULT
    assert (await people.call("PATCH", "/auth/me", {"phone": None}, who=ada)).status_code == 200
    assert (await people.call("GET", "/notifications/preferences", who=ada)).json()["phone"] is None


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"push": ["LOUD"], "sms": None}, ["push.0", "sms"]),
        ({"push": ["INFO"] * 21}, ["push"]),
        ({"channels": []}, ["channels"]),
        ({"quietHours": {}}, ["quietHours.from", "quietHours.to", "quietHours.timeZone"]),
        ({"quietHours": {**NIGHT, "to": "22:00"}}, ["quietHours.to"]),
        ({"quietHours": {"from": "24:00", "to": "7:00", "timeZone": "../etc/passwd"}}, ["quietHours.from", "quietHours.to"]),
        ({"quietHours": {**NIGHT, "timeZone": "europe/vienna", "severities": None}}, ["quietHours.timeZone"]),
    ],
)
async def test_bad_preferences_name_every_error(people: People, body: dict[str, Any], errors: list[str]) -> None:
    details = refused(
        await people.call("PATCH", "/notifications/preferences", body, who=await people.person()), 400, "VALIDATION_ERROR"
    )
    found = [detail.partition(":")[0] for detail in details]
    assert set(errors) <= set(found), details


async def test_each_member_is_notified_by_the_channels_that_they_want(people: People) -> None:
    ada, ben, eve = await people.person(), await people.person(), await people.person()
    org = (await people.organization(ORG_ADMIN=ada, OPERATOR=ben, VIEWER=eve)).id
    await prefer(people, ada, email=["INFO"], push=[])
    await prefer(people, eve, email=["INFO"])
    await people.call("POST", "/notifications/push-tokens", {"token": TOKEN}, who=ada)
    await people.call("PATCH", "/auth/me", {"phone": "+43123456789"}, who=ben)
    assert await notify(people, org, *Severity) == 1 + 3 + 2
    assert [(one["channel"], one["subject"]) for one in await deliveries(people, ada)] == [("EMAIL", "INFO")]
    assert sorted((one["channel"], one["subject"]) for one in await deliveries(people, ben)) == [
        ("EMAIL", "CRITICAL"),
        ("EMAIL", "EMERGENCY"),
        ("EMAIL", "WARNING"),
        ("SMS", "CRITICAL"),
        ("SMS", "EMERGENCY"),
    ]
    assert await deliveries(people, eve) == [], "a VIEWER is not notified"


async def test_what_a_user_no_longer_wants_or_not_now_is_not_sent(people: People, home: Path) -> None:
    """Both are decided when a delivery is due, because it may have waited for hours."""
    ada, ben, eve = await people.person(), await people.person(), await people.person()
    org = (await people.organization(ORG_ADMIN=ada, OPERATOR=ben)).id
    other = (await people.organization(ORG_ADMIN=eve)).id
    now = utc_now()
    around = {"from": f"{now - timedelta(hours=1):%H:%M}", "to": f"{now + timedelta(hours=2):%H:%M}", "timeZone": "UTC"}
    await prefer(people, eve, quietHours=around)
    for where in (org, other):
        await notify(people, where, Severity.WARNING, Severity.EMERGENCY)
    await prefer(people, ben, email=["WARNING"])
    database = people.service.state.database
    mail = EmailChannel(FolderDelivery(home / "mail", "Gridfleet <no-reply@example.com>"), "http://localhost")
    worker = NotificationWorker(database, {Channel.EMAIL: mail}, ExpoPush("http://127.0.0.1:1"))
    async with running(worker.run()):
        async with asyncio.timeout(60):
            while await people.execute("SELECT id FROM notification_log WHERE due_at < now() + interval '1 hour'"):
                await asyncio.sleep(0.1)
    sent = {who.id: sorted(mail["Subject"] for mail in delivered(home, who.email)) for who in (ada, ben, eve)}
    assert sent == {ada.id: ["EMERGENCY", "WARNING"], ben.id: ["WARNING"], eve.id: ["EMERGENCY"]}
    [unwanted] = await deliveries(people, ben, "&status=FAILED")
    assert "does not want it" in unwanted["error"]
    [held] = await deliveries(people, eve, "&status=PENDING")
    assert held["subject"] == "WARNING"
    [(due_at, attempts)] = await people.execute(
        "SELECT due_at, attempts FROM notification_log WHERE user_id = %s AND status = 'PENDING'", eve.id
    )
    end = (now + timedelta(hours=2)).replace(second=0, microsecond=0)
    assert (due_at, attempts) == (end, 0), "at the end of the quiet hours, with all tries left"


async def test_what_waits_for_the_end_of_quiet_hours_is_sent_when_these_are_ended_or_moved(people: People, home: Path) -> None:
    ada, ben, eve = await people.person(), await people.person(), await people.person()
    org = (await people.organization(ORG_ADMIN=ada, OPERATOR=ben)).id
    other = (await people.organization(ORG_ADMIN=eve)).id
    now = utc_now()
    hours = [f"{now + timedelta(hours=hours):%H:%M}" for hours in (-1, 4, 8)]
    around = {"from": hours[0], "to": hours[1], "timeZone": "UTC"}
    for person in (ada, ben, eve):
        await prefer(people, person, quietHours=around, push=[])
    for where in (org, other):
        await notify(people, where, Severity.WARNING)
    mail = EmailChannel(FolderDelivery(home / "mail", "Gridfleet <no-reply@example.com>"), "http://localhost")
    worker = NotificationWorker(people.service.state.database, {Channel.EMAIL: mail}, ExpoPush("http://127.0.0.1:1"))
    async with running(worker.run()), asyncio.timeout(60):
        while await people.execute("SELECT id FROM notification_log WHERE due_at < now() + interval '1 hour'"):
            await asyncio.sleep(0.1)
        await prefer(people, ada, quietHours=None)
        await prefer(people, ben, quietHours={"from": hours[1], "to": hours[2], "timeZone": "UTC"})
        await prefer(people, eve, push=["INFO"])
        for person in (ada, ben):
            while not delivered(home, person.email):
                await asyncio.sleep(0.1)
    assert not delivered(home, eve.email)


async def test_a_zone_that_is_unknown_delays_no_notification(people: People, home: Path) -> None:
    """A release may have other time zones than the one that stored it. The error ended all channels at each start."""
    ada, ben = await people.person(), await people.person()
    org = (await people.organization(ORG_ADMIN=ada, OPERATOR=ben)).id
    now = utc_now()
    around = {"from": f"{now - timedelta(hours=1):%H:%M}", "to": f"{now + timedelta(hours=2):%H:%M}", "timeZone": "UTC"}
    await prefer(people, ada, quietHours=around)
    zone = '{"timeZone": "Nowhere/None"}'
    database = people.service.state.database
    async with database.transaction() as db:
        await db.execute("UPDATE notification_preference SET quiet_hours = quiet_hours || %s::jsonb", (zone,))
    await notify(people, org, Severity.WARNING)
    mail = EmailChannel(FolderDelivery(home / "mail", "Gridfleet <no-reply@example.com>"), "http://localhost")
    worker = NotificationWorker(database, {Channel.EMAIL: mail}, ExpoPush("http://127.0.0.1:1"))
    async with running(worker.run()), asyncio.timeout(30):
        for person in (ada, ben):
            # A total that is counted by status is not that of the list while the worker changes it.
            while "SENT" not in {delivery["status"] for delivery in await deliveries(people, person)}:
                await asyncio.sleep(0.1)


async def test_a_delivery_whose_quiet_hours_end_now_is_not_claimed_at_once(people: People) -> None:
    """By the clock of the database, which may be ahead, the end may have passed. The worker claimed it without a pause."""
    ada = await people.person()
    org = (await people.organization(ORG_ADMIN=ada)).id
    await prefer(people, ada, quietHours={**NIGHT, "severities": list(Severity)})
    await notify(people, org, Severity.WARNING)
    async with people.service.state.database.transaction() as db:
        [claimed] = await store.claim(db, Channel.EMAIL, 10, timedelta(minutes=1), "")
        row = await (await db.execute("SELECT clock_timestamp()")).fetchone()
        await store.delay_until(db, claimed, utc_now() - timedelta(minutes=1))
    assert row is not None
    [(due_at, attempts)] = await people.execute("SELECT due_at, attempts FROM notification_log WHERE channel = 'EMAIL'")
    assert (timedelta(seconds=1) <= due_at - row[0] < timedelta(seconds=30), attempts) == (True, 0)


async def test_a_test_message_reaches_ones_own_addresses_alone(people: People) -> None:
    ada, ben = await people.person(), await people.person()
    await people.organization(ORG_ADMIN=ada, OPERATOR=ben)
    await prefer(people, ada, email=[], quietHours={**NIGHT, "severities": list(Severity)})
    sent = await people.call("POST", "/notifications/test", {"channel": "EMAIL"}, who=ada)
    assert sent.status_code == 201
    [delivery] = sent.json()
    assert (delivery["userId"], delivery["channel"], delivery["status"]) == (str(ada.id), "EMAIL", "PENDING")
    assert await deliveries(people, ada) == [delivery]
    assert await deliveries(people, ben) == []
    rows = await people.execute("SELECT address FROM notification_log WHERE user_id = %s", ada.id)
    assert rows == [(ada.email,)]
    for channel, word in (("PUSH", "device"), ("SMS", "phone")):
        [detail] = refused(
            await people.call("POST", "/notifications/test", {"channel": channel}, who=ada), 400, "VALIDATION_ERROR"
        )
        assert word in detail
    refused(await people.call("POST", "/notifications/test", {"channel": "FAX"}, who=ada), 400, "VALIDATION_ERROR")
    for _ in range(2):
        await people.call("POST", "/notifications/test", {"channel": "EMAIL"}, who=ada)
    limited = await people.call("POST", "/notifications/test", {"channel": "EMAIL"}, who=ada)
    refused(limited, 429, "TOO_MANY_REQUESTS")
    assert int(limited.headers["retry-after"]) > 0
    assert (await people.call("POST", "/notifications/test", {"channel": "EMAIL"}, who=ben)).status_code == 201
    tested = [event["details"] for event in await people.events(of=ada.id) if event["event"] == "user.notifications_tested"]
    assert tested == [{"channel": "EMAIL"}] * 3


@pytest.mark.parametrize(("channel", "most", "other"), [("SMS", 10, "EMAIL"), ("EMAIL", 20, "SMS"), ("PUSH", 20, "EMAIL")])
async def test_a_user_sends_some_test_messages_by_a_channel_a_day(people: People, channel: str, most: int, other: str) -> None:
    """They are no part of the hourly limits of an organisation. A text message costs money, and reaches any phone."""
    ada, state = await people.person(), people.service.state
    await people.call("PATCH", "/auth/me", {"phone": "+43123456789"}, who=ada)
    await people.call("POST", "/notifications/push-tokens", {"token": TOKEN}, who=ada)
    caller = UserCaller(ada.id, new_id(), ada.email, "Ada", False, None)
    for _ in range(most):
        async with state.database.transaction() as db:
            await queue_test(db, caller, Channel(channel))
    limited = await people.call("POST", "/notifications/test", {"channel": channel}, who=ada)
    refused(limited, 429, "TOO_MANY_REQUESTS")
    assert 80_000 < int(limited.headers["retry-after"]) <= 86_400
    assert (await people.call("POST", "/notifications/test", {"channel": other}, who=ada)).status_code == 201


async def test_ones_own_deliveries_are_filtered(people: People) -> None:
    ada = await people.person()
    org = (await people.organization(ORG_ADMIN=ada)).id
    await people.call("PATCH", "/auth/me", {"phone": "+43123456789"}, who=ada)
    await notify(people, org, Severity.INFO, Severity.WARNING, Severity.CRITICAL)
    await people.execute("UPDATE notification_log SET status = 'SENT', due_at = NULL WHERE channel = 'SMS'")
    assert [one["channel"] for one in await deliveries(people, ada, "&channel=SMS")] == ["SMS"]
    assert {one["channel"] for one in await deliveries(people, ada, "&status=PENDING")} == {"EMAIL"}
    assert await deliveries(people, ada, "&channel=EMAIL&status=SENT") == []
    assert len(await deliveries(people, ada, "&from=2026-01-01T00:00:00Z")) == 3
    assert await deliveries(people, ada, "&to=2026-01-01T00:00:00Z") == []
    for query in ("channel=FAX", "status=DONE", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "userId=5", "limit=0"):
        refused(await people.call("GET", f"/notifications/deliveries?{query}", who=ada), 400, "VALIDATION_ERROR")
    refused(await people.call("GET", "/notifications/deliveries"), 401, "UNAUTHORIZED")


ZONES = ["UTC", "Europe/Vienna", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]
TIMES = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))


@given(
    st.sampled_from(ZONES),
    TIMES,
    TIMES,
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))
    | st.datetimes(datetime(2026, 3, 28), datetime(2026, 3, 30), timezones=st.just(UTC))
    | st.datetimes(datetime(2026, 10, 24), datetime(2026, 10, 26), timezones=st.just(UTC)),
)
def test_quiet_hours_end_when_the_clock_of_their_zone_says_so(zone: str, start: str, end: str, now: datetime) -> None:
    free = (datetime.strptime(start, "%H:%M") - datetime.strptime(end, "%H:%M")) % timedelta(days=1)
    assume(free >= timedelta(hours=2))  # clocks that are set forward may leave out a shorter time altogether
    hours = QuietHours(start, end, zone, list(Severity))

    def is_quiet(moment: datetime) -> bool:
        clock = f"{moment.astimezone(ZoneInfo(zone)):%H:%M}"
        return start <= clock < end if start < end else clock >= start or clock < end

    until = quiet_until(hours, now)
    assert (until is not None) == is_quiet(now)
    if until is not None:
        assert now < until <= now + timedelta(hours=25)
        assert not is_quiet(until)
        # Up to the end they hold without a gap, but for the hour that clocks leave out or repeat.
        minutes = int((until - now).total_seconds()) // 60
        assert sum(not is_quiet(now + timedelta(minutes=minute)) for minute in range(minutes)) <= 60


@pytest.mark.parametrize(
    ("zone", "end", "ended"),
    [
        ("Europe/Vienna", "02:30", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
        ("Africa/Cairo", "00:45", datetime(2026, 4, 23, 22, 0, tzinfo=UTC)),
    ],
)
def test_quiet_hours_whose_end_is_left_out_end_when_the_clocks_change(zone: str, end: str, ended: datetime) -> None:
    hours = QuietHours("20:00", end, zone, list(Severity))
    assert quiet_until(hours, ended - timedelta(minutes=40)) == ended
