"""Queued notifications reach a push service, a mail server and an SMS gateway that speak the real protocols."""

import asyncio
import contextlib
import socketserver
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MessageHandler
from aiosmtpd.smtp import SMTP, Envelope, Session
from psycopg.errors import QueryCanceled

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.channels.email import EmailChannel
from gridfleet.domains.notifications.channels.outcome import Outcome
from gridfleet.domains.notifications.channels.push import ExpoPush
from gridfleet.domains.notifications.channels.sms import SmsChannel
from gridfleet.domains.notifications.delivery import NotificationWorker
from gridfleet.domains.notifications.logs import list_deliveries
from gridfleet.domains.notifications.models import Channel, NotificationLog, NotificationStatus, Outgoing
from gridfleet.domains.notifications.push_tokens.registration import delete_token, register_token
from gridfleet.domains.notifications.queue import NotificationContent
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.delivery import SmtpDelivery
from gridfleet.kernel.pagination import Paging
from support.builders.accounts import add_member, add_organization, add_user, caller_of
from support.builders.notifications import notify_members
from support.servers.expo_server import ExpoServer, expo_server
from support.servers.free_ports import free_ports
from support.servers.running_task import running

CONTENT = NotificationContent(
    "CRITICAL: Low battery", "bat1.soc of North is 9 %\nMeasured now.", {"alertId": "a", "severity": "CRITICAL"}
)
TOKEN = "ExponentPushToken[aaaaaaaaaaaaaaaaaaaaaa]"
OTHER = "ExpoPushToken[bbbbbbbbbbbbbbbbbbbbbb]"


@pytest.fixture
def expo() -> Iterator[ExpoServer]:
    with expo_server() as server:
        yield server


async def add_staff(
    database: Database, organization_id: UUID, role: OrgRole, *, token: str | None = None, phone: str | None = None
) -> UUID:
    """A member, with a device and a phone if given."""
    user = await add_user(database)
    await add_member(database, organization_id, user.id, role)
    async with database.transaction() as db:
        if token is not None:
            await register_token(db, caller_of(user.id), token, "ios")
        await db.execute("UPDATE user_account SET phone = %s WHERE id = %s", (phone, user.id))
    return user.id


async def queue(database: Database, organization_id: UUID, *channels: Channel) -> int:
    async with database.transaction() as db:
        return await notify_members(db, organization_id, channels, CONTENT)


@asynccontextmanager
async def delivering(
    database: Database, expo: ExpoServer, *, smtp: str = "smtp://127.0.0.1:1", sms: str | None = None, wait: float = 0.05
) -> AsyncIterator[None]:
    """The worker with short waits."""
    push = ExpoPush(expo.url, "expo-access-token")
    worker = NotificationWorker(
        database,
        {
            Channel.PUSH: push,
            Channel.EMAIL: EmailChannel(SmtpDelivery(smtp, "Gridfleet <no-reply@example.com>"), "http://localhost"),
            Channel.SMS: SmsChannel(sms),
        },
        push,
        waits=[timedelta(seconds=wait)],
        receipt_after=timedelta(seconds=wait),
    )
    async with running(worker.run()):
        yield


async def logs(database: Database) -> list[NotificationLog]:
    async with database.transaction() as db:
        return (await list_deliveries(db, Paging(1, 100))).data


async def until(
    database: Database, holds: Callable[[list[NotificationLog]], bool], seconds: float = 15
) -> list[NotificationLog]:
    async with asyncio.timeout(seconds):
        while True:
            found = await logs(database)
            if holds(found):
                return found
            await asyncio.sleep(0.02)


def settled(found: list[NotificationLog]) -> bool:
    return all(log.status is not NotificationStatus.PENDING for log in found)


async def test_a_push_reaches_admins_and_operators_alone(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    await add_staff(database, organization.id, OrgRole.OPERATOR, token=OTHER)
    await add_staff(database, organization.id, OrgRole.VIEWER, token="ExpoPushToken[viewer]")
    await add_staff(database, (await add_organization(database)).id, OrgRole.ORG_ADMIN, token="ExpoPushToken[stranger]")
    assert await queue(database, organization.id, Channel.PUSH) == 2
    assert {log.status for log in await logs(database)} == {NotificationStatus.PENDING}

    async with delivering(database, expo):
        found = await until(database, settled)

    assert {(log.status, log.error) for log in found} == {(NotificationStatus.SENT, None)}
    assert all(log.sent_at is not None for log in found)
    assert expo.requests == [2]
    assert expo.headers[0]["authorization"] == "Bearer expo-access-token"
    assert {message["to"] for message in expo.messages} == {TOKEN, OTHER}
    message = expo.messages[0]
    assert (message["title"], message["body"], message["priority"]) == (CONTENT.subject, CONTENT.body, "high")
    assert message["data"]["alertId"] == "a"


async def test_a_rolled_back_change_sends_nothing(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    with contextlib.suppress(RuntimeError):
        async with database.transaction() as db:
            await notify_members(db, organization.id, [Channel.PUSH], CONTENT)
            raise RuntimeError("rolled back")
    async with delivering(database, expo):
        await asyncio.sleep(0.3)
    assert (await logs(database), expo.requests) == ([], [])


async def test_a_device_that_is_gone_is_dropped_and_the_others_are_notified(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    await add_staff(database, organization.id, OrgRole.OPERATOR, token=OTHER)
    expo.errors[TOKEN] = "DeviceNotRegistered"
    await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo):
        found = await until(database, settled)
    assert sorted((log.status, log.error) for log in found) == [
        (NotificationStatus.FAILED, f"DeviceNotRegistered: {TOKEN} failed"),
        (NotificationStatus.SENT, None),
    ]
    assert await queue(database, organization.id, Channel.PUSH) == 1


async def test_a_receipt_may_say_that_the_device_is_gone(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    expo.receipt_errors[TOKEN] = "DeviceNotRegistered"
    await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo):
        await until(database, lambda found: found[0].status is NotificationStatus.FAILED)
    assert await queue(database, organization.id, Channel.PUSH) == 0


async def test_a_service_that_is_away_is_tried_five_times(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    expo.failing_requests = 3
    await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo):
        await until(database, settled)
        assert len(expo.requests) == 4
        expo.failing_requests = 100
        await queue(database, organization.id, Channel.PUSH)
        found = await until(database, settled)
    assert len(expo.requests) == 9
    assert found[0].status is NotificationStatus.FAILED
    assert "503" in str(found[0].error)


async def test_organisations_take_turns(database: Database) -> None:
    """A flood of alerts in one organisation does not delay the notifications of another."""
    flooding, quiet = await add_organization(database), await add_organization(database)
    for organization in (flooding, quiet):
        await add_staff(database, organization.id, OrgRole.ORG_ADMIN)
    for organization in [*[flooding] * 12, quiet, quiet]:
        content = CONTENT._replace(metadata={"organizationId": str(organization.id)})
        async with database.transaction() as db:
            await notify_members(db, organization.id, [Channel.EMAIL], content)
    claimed: list[list[str]] = []
    for _ in range(4):
        async with database.transaction() as db:
            found = await store.claim(db, Channel.EMAIL, 5, timedelta(minutes=1), "")
        claimed.append([one.metadata["organizationId"] for one in found])
    assert [len(some) for some in claimed] == [5, 5, 4, 0]
    assert claimed[0].count(str(quiet.id)) == 2, "it has two, and every second turn"


async def test_a_turn_comes_although_many_organisations_have_waited_longer(database: Database) -> None:
    """The mails of one claim are fewer than the organisations with a flood of alerts."""
    flooding, quiet = [await add_organization(database) for _ in range(7)], await add_organization(database)
    for organization in (*flooding, quiet):
        await add_staff(database, organization.id, OrgRole.ORG_ADMIN)
    for organization in [*flooding * 10, quiet]:
        content = CONTENT._replace(metadata={"organizationId": str(organization.id)})
        async with database.transaction() as db:
            await notify_members(db, organization.id, [Channel.EMAIL], content)
    sent: list[str] = []

    class Sender:
        most = 5

        async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
            sent.extend(one.metadata["organizationId"] for one in deliveries)
            return [Outcome()] * len(deliveries)

    async with running(NotificationWorker(database, {Channel.EMAIL: Sender()}, ExpoPush("http://127.0.0.1:9")).run()):
        await until(database, settled)
    assert sent.index(str(quiet.id)) < 10
    for organization in flooding:
        assert sent.count(str(organization.id)) == 10


async def test_messages_that_may_not_travel_together_travel_alone(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    await add_staff(database, organization.id, OrgRole.OPERATOR, token=OTHER)
    expo.together_refused = True
    await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo):
        found = await until(database, settled)
    assert expo.requests == [2, 1, 1]
    assert {log.status for log in found} == {NotificationStatus.SENT}


async def test_one_token_of_another_project_costs_few_requests(database: Database, expo: ExpoServer) -> None:
    """One request for each of a hundred messages could take longer than a call may, and all would be sent again."""
    organization = await add_organization(database)
    tokens = [f"ExpoPushToken[{number}]" for number in range(40)]
    user_id = await add_staff(database, organization.id, OrgRole.ORG_ADMIN)
    async with database.transaction() as db:
        for token in tokens:
            await register_token(db, caller_of(user_id), token, "ios")
    expo.lonely_token = tokens[13]
    await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo):
        found = await until(database, settled)
    assert {log.status for log in found} == {NotificationStatus.SENT}
    assert sorted(message["to"] for message in expo.messages) == sorted(tokens)
    assert len(expo.requests) <= 13


@pytest.mark.parametrize("names_projects", [True, False])
async def test_one_organisations_tokens_of_two_projects_delay_no_other(
    database: Database, expo: ExpoServer, names_projects: bool
) -> None:
    mixed, other = await add_organization(database), await add_organization(database)
    user_id = await add_staff(database, mixed.id, OrgRole.ORG_ADMIN)
    async with database.transaction() as db:
        for number in range(50):
            await register_token(db, caller_of(user_id), f"ExpoPushToken[{number}]", "ios")
            expo.projects[f"ExpoPushToken[{number}]"] = f"@mixed/{number % 2}"
    await add_staff(database, other.id, OrgRole.ORG_ADMIN, token=OTHER)
    expo.projects[OTHER] = "@other/app"
    expo.seconds, expo.names_projects = 0.2, names_projects
    for organization in (mixed, other):
        await queue_as_of(database, organization.id, Channel.PUSH)
    async with delivering(database, expo, wait=60):
        found = await until(database, settled, 60)
    assert {log.status for log in found} == {NotificationStatus.SENT}
    assert sorted(message["to"] for message in expo.messages) == sorted(expo.projects)
    # The other organisation's message waits for one request.
    assert sorted(expo.requests[:4] if names_projects else expo.requests[:3]) == (
        [1, 25, 25, 51] if names_projects else [1, 50, 51]
    )


async def queue_as_of(database: Database, organization_id: UUID, *channels: Channel) -> int:
    """Queues a notification that names its organisation, as those of alerts do."""
    content = CONTENT._replace(metadata={"organizationId": str(organization_id)})
    async with database.transaction() as db:
        return await notify_members(db, organization_id, channels, content)


async def test_the_messages_whose_outcome_is_known_in_time_are_not_sent_again(expo: ExpoServer) -> None:
    expo.together_refused, expo.hanging_token = True, TOKEN
    messages = [
        Outgoing(new_id(), Channel.PUSH, token, "Low battery", "", {}, 1, utc_now(), None, True, None, new_id())
        for token in (TOKEN, OTHER)
    ]
    hanging, sent = await ExpoPush(expo.url, seconds=3).send(messages)
    assert hanging == Outcome("the push service did not respond in time")
    assert sent.error is None


class Mailbox(MessageHandler):
    """Keeps what comes, after refusing the first few mails for now."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals
        self.mails: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the library's name
        if self.refusals:
            self.refusals -= 1
            return "451 try again later"
        self.handle_message(self.prepare_message(session, envelope))
        return "250 OK"

    def handle_message(self, message: Any) -> None:
        self.mails.append(message)


async def test_a_mail_gets_through_once_the_server_takes_it(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.OPERATOR)
    mailbox = Mailbox(refusals=2)
    (port,) = free_ports(1)
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        await queue(database, organization.id, Channel.EMAIL)
        async with delivering(database, expo, smtp=f"smtp://127.0.0.1:{port}"):
            (log,) = await until(database, settled)
    finally:
        controller.stop()
    assert (log.status, log.error) == (NotificationStatus.SENT, None)
    (mail,) = mailbox.mails
    assert mail["Subject"] == CONTENT.subject
    assert "bat1.soc of North is 9 %" in mail.get_payload()[0].get_payload()


class SlowMailbox(Mailbox):
    """A mail server that takes long to check the recipients of one domain."""

    def __init__(self) -> None:
        super().__init__(refusals=0)
        self.asked = 0

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, rcpt_options: list[str]
    ) -> str:
        if address.endswith("@slow.example.com"):
            self.asked += 1
            await asyncio.sleep(10)
        envelope.rcpt_tos.append(address)
        return "250 OK"


async def test_a_recipient_that_the_mail_server_hangs_on_fails_alone(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other mails of the batch were sent, counted as failed, and sent again, up to five times."""
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.SEND_SECONDS", 2.0)
    monkeypatch.setattr("gridfleet.kernel.mail.delivery.DELIVERY_SECONDS", 0.5)
    organization = await add_organization(database)
    for _ in range(3):
        await add_staff(database, organization.id, OrgRole.OPERATOR)
    slow = await add_staff(database, (other := await add_organization(database)).id, OrgRole.OPERATOR)
    async with database.transaction() as db:
        await db.execute("UPDATE user_account SET email = 'someone@slow.example.com' WHERE id = %s", (slow,))
    mailbox = SlowMailbox()
    (port,) = free_ports(1)
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        async with database.transaction() as db:  # one batch
            await notify_members(db, other.id, [Channel.EMAIL], CONTENT)
            await notify_members(db, organization.id, [Channel.EMAIL], CONTENT)
        async with delivering(database, expo, smtp=f"smtp://127.0.0.1:{port}", wait=3600):
            found = await until(database, lambda found: all(log.error or log.sent_at for log in found))
    finally:
        controller.stop()
    assert mailbox.asked == 1
    assert sorted(log.status for log in found) == ["PENDING", "SENT", "SENT", "SENT"]
    assert len(mailbox.mails) == 3


@contextlib.contextmanager
def sms_gateway() -> Iterator[tuple[str, list[str]]]:
    """A gateway that takes messages by HTTP, and the paths it was called with."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            paths.append(self.path)
            self.send_response(500 if len(paths) == 1 else 200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server: socketserver.BaseServer = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"json://127.0.0.1:{server.server_address[1]}/sms/{{phone}}", paths
    finally:
        server.shutdown()
        server.server_close()


async def test_an_error_does_not_show_where_the_mail_server_is() -> None:
    """Each member of an organisation sees the errors of its deliveries."""
    channel = EmailChannel(SmtpDelivery(f"smtp://127.0.0.1:{free_ports(1)[0]}", "no-reply@example.com"), "http://localhost")
    mail = Outgoing(new_id(), Channel.EMAIL, "ann@example.com", "Low battery", "", {}, 1, utc_now(), None, True, None, new_id())
    [outcome] = await channel.send([mail])
    assert outcome.error == "SMTPConnectError: the mail was not delivered"
    assert not outcome.final


async def test_a_text_message_goes_to_members_with_a_phone(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    await add_staff(database, organization.id, OrgRole.OPERATOR)
    assert await queue(database, organization.id, Channel.SMS) == 1
    with sms_gateway() as (url, paths):
        async with delivering(database, expo, sms=url):
            (log,) = await until(database, settled)
    assert log.status is NotificationStatus.SENT
    assert len(paths) == 2
    assert "420123456789" in paths[1]


async def test_without_a_gateway_text_messages_fail_with_a_word_about_it(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    await queue(database, organization.id, Channel.SMS)
    async with delivering(database, expo):
        (log,) = await until(database, settled)
    assert "GRIDFLEET_SMS_URL" in str(log.error)


async def test_a_user_gets_a_hundred_text_messages_a_day(database: Database, expo: ExpoServer) -> None:
    organization, other = await add_organization(database), await add_organization(database)
    await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    for _ in range(101):
        await queue(database, organization.id, Channel.SMS)
    with sms_gateway() as (url, paths):
        async with delivering(database, expo, sms=url):
            await until(database, lambda found: len(found) == 100 and settled(found), 60)
            await add_staff(database, other.id, OrgRole.OPERATOR, phone="+420987654321")
            await queue(database, other.id, Channel.SMS)
            await until(database, lambda found: settled(found) and found[0].sent_at is not None)
    async with database.transaction() as db:
        found = (await list_deliveries(db, Paging(1, 100))).data + (await list_deliveries(db, Paging(2, 100))).data
    assert len(found) == 102
    assert [log.error for log in found if log.status is not NotificationStatus.SENT] == ["too many text messages within a day"]
    # The gateway refuses its first message, which is sent again.
    assert len([path for path in paths if "420123456789" in path]) == 101
    assert len([path for path in paths if "420987654321" in path]) == 1


async def texted(database: Database, expo: ExpoServer) -> list[str | None]:
    """The errors of all text messages after their delivery, in order; None of a sent one."""
    with sms_gateway() as (url, _):
        async with delivering(database, expo, sms=url):
            found = await until(database, settled)
    return sorted((log.error for log in found), key=str)


async def test_users_with_the_same_number_share_its_limit(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No user confirms a number, and an administrator invites any number of users."""
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.MAX_TEXTS_A_DAY", 3)
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.SHARE_OF_NUMBER_A_DAY", 1)
    first, second = await add_organization(database), await add_organization(database)
    for organization in (first, second):
        await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    for organization in (first, second, first):
        await queue_as_of(database, organization.id, Channel.SMS)
    assert await texted(database, expo) == [None] * 3
    await queue_as_of(database, second.id, Channel.SMS)
    assert await texted(database, expo) == [None] * 3 + ["too many text messages within a day"]


async def text_after(
    database: Database, expo: ExpoServer, first: Iterable[UUID], second: Iterable[UUID], *, is_sent_before: bool
) -> dict[UUID, list[str | None]]:
    """Queue text messages as of organisations, send them, and return the errors of each: None for a message that was sent.

    The first ones are sent before the second ones are queued if `is_sent_before`.
    """
    for organization_id in first:
        await queue_as_of(database, organization_id, Channel.SMS)
    if is_sent_before:
        await texted(database, expo)
    for organization_id in second:
        await queue_as_of(database, organization_id, Channel.SMS)
    await texted(database, expo)
    errors = defaultdict[UUID, list[str | None]](list)
    async with database.transaction() as db:
        for log in (await list_deliveries(db, Paging(1, 100))).data:
            errors[UUID(log.metadata["organizationId"])].append(log.error)
    return errors


@pytest.mark.parametrize("is_sent_before", [True, False])
async def test_an_organisation_cannot_use_up_the_share_of_another_at_a_number(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch, is_sent_before: bool
) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.MAX_TEXTS_A_DAY", 3)
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.SHARE_OF_NUMBER_A_DAY", 2)
    hostile, other = await add_organization(database), await add_organization(database)
    for organization in (hostile, hostile, other):
        await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    # Two text messages each, of which the last one is refused.
    errors = await text_after(database, expo, [hostile.id] * 2, [other.id] * 3, is_sent_before=is_sent_before)
    refused = {one: Counter(found)["too many text messages within a day"] for one, found in errors.items()}
    assert sum(map(len, errors.values())) == 7
    assert refused[other.id] == 1
    assert refused[hostile.id] >= 1


@pytest.mark.parametrize("is_sent_before", [True, False])
async def test_an_organisation_cannot_use_up_the_text_messages_of_another_to_the_same_user(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch, is_sent_before: bool
) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.MAX_TEXTS_A_DAY", 3)
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.SHARE_OF_NUMBER_A_DAY", 2)
    hostile, other = await add_organization(database), await add_organization(database)
    user_id = await add_staff(database, hostile.id, OrgRole.OPERATOR, phone="+420123456789")
    await add_member(database, other.id, user_id, OrgRole.OPERATOR)
    errors = await text_after(database, expo, [hostile.id] * 5, [other.id] * 3, is_sent_before=is_sent_before)
    assert errors[other.id].count(None) == 2
    assert errors[hostile.id].count(None) in (2, 3)


async def test_all_users_share_a_limit_of_test_messages_by_text(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organisation can invite further users each day, and each has ten of its own."""
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.MAX_TEST_TEXTS_A_DAY", 3)
    organization = await add_organization(database)
    for number in range(5):
        await add_staff(database, organization.id, OrgRole.OPERATOR, phone=f"+42012345678{number}")
    await queue(database, organization.id, Channel.SMS)
    await queue_as_of(database, organization.id, Channel.SMS)
    assert await texted(database, expo) == [None] * 8 + ["too many text messages within a day"] * 2


async def test_users_with_the_same_number_share_its_limit_in_one_claim(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.MAX_TEXTS_A_DAY", 3)
    organization = await add_organization(database)
    for _ in range(2):
        await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    for _ in range(2):
        await queue(database, organization.id, Channel.SMS)
    assert await texted(database, expo) == [None] * 3 + ["too many text messages within a day"]


@pytest.mark.parametrize("is_sent_before", [True, False])
async def test_the_users_of_an_organisation_share_its_limit(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch, is_sent_before: bool
) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.delivery.MAX_TEXTS_A_DAY_OF_ORGANIZATION", 3)
    organization, other = await add_organization(database), await add_organization(database)
    for number in range(2):
        await add_staff(database, organization.id, OrgRole.OPERATOR, phone=f"+42012345678{number}")
    await add_staff(database, other.id, OrgRole.OPERATOR, phone="+420987654321")
    content = NotificationContent("Low battery", "", {"organizationId": str(organization.id)})
    for _ in range(2):
        async with database.transaction() as db:
            await notify_members(db, organization.id, [Channel.SMS], content)
        if is_sent_before:
            await texted(database, expo)
    await queue(database, other.id, Channel.SMS)
    assert await texted(database, expo) == [None] * 4 + ["too many text messages within a day"]


async def test_a_token_belongs_to_the_user_who_registered_it_last_and_only_that_user_deletes_it(database: Database) -> None:
    first, second = await add_user(database), await add_user(database)
    async with database.transaction() as db:
        one = await register_token(db, caller_of(first.id), TOKEN, "ios")
        two = await register_token(db, caller_of(second.id), TOKEN, None)
        assert (one.id, two.user_id, two.platform) == (two.id, second.id, None)
        await delete_token(db, caller_of(first.id), TOKEN)
        await delete_token(db, caller_of(second.id), OTHER)
        assert await (await db.execute("SELECT count(*) FROM push_token")).fetchone() == (1,)
        await delete_token(db, caller_of(second.id), TOKEN)
        assert await (await db.execute("SELECT count(*) FROM push_token")).fetchone() == (0,)


async def test_two_workers_deliver_each_notification_once(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    for _ in range(30):
        await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo), delivering(database, expo):
        await until(database, settled)
    assert len({message["data"]["notificationId"] for message in expo.messages}) == len(expo.messages) == 30


class HangingChannel:
    """A gateway that takes deliveries and never answers."""

    most = 5

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        self.asked.set()
        await asyncio.Event().wait()
        return []


async def test_a_gateway_that_hangs_holds_up_its_own_channel_alone(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN, phone="+420123456789")
    await queue(database, organization.id, Channel.SMS)
    hanging = HangingChannel()
    push = ExpoPush(expo.url)
    async with running(NotificationWorker(database, {Channel.PUSH: push, Channel.SMS: hanging}, push).run()):
        async with asyncio.timeout(10):
            await hanging.asked.wait()
        await queue(database, organization.id, Channel.PUSH)
        # The one that hangs is given up after half a minute.
        found = await until(database, lambda found: any(log.status is NotificationStatus.SENT for log in found))
    assert {(log.channel, log.status) for log in found} == {
        (Channel.PUSH, NotificationStatus.SENT),
        (Channel.SMS, NotificationStatus.PENDING),
    }


async def test_a_statement_that_fails_holds_up_its_own_channel_alone(
    database: Database, expo: ExpoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    next_due, failed = store.next_due, asyncio.Event()

    async def failing(db: Connection, channel: Channel) -> float | None:
        if channel is Channel.EMAIL:
            failed.set()
            raise QueryCanceled("canceling statement due to statement timeout")
        return await next_due(db, channel)

    monkeypatch.setattr(store, "next_due", failing)
    async with delivering(database, expo):
        async with asyncio.timeout(10):
            await failed.wait()
        await asyncio.sleep(0.2)
        await queue(database, organization.id, Channel.PUSH)
        await until(database, settled)


@pytest.mark.parametrize("piece", [b" ", b" " * 65536])
async def test_a_push_service_whose_response_has_no_end_fails_the_message(expo: ExpoServer, piece: bytes) -> None:
    expo.endless = piece
    push = ExpoPush(expo.url)
    message = Outgoing(new_id(), Channel.PUSH, TOKEN, "Low battery", "", {}, 1, utc_now(), None, True, None, new_id())
    [outcome] = await push.send([message])
    assert not expo.read_to_the_end
    assert "it has more than" in str(outcome.error)
    assert not outcome.final
    with pytest.raises(Exception, match="it has more than"):
        await push.receipts(["ticket"])


async def test_receipts_that_make_no_sense_do_not_stop_the_deliveries(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN, token=TOKEN)
    expo.receipts_body = {"data": {"ticket-0": None}}
    await queue(database, organization.id, Channel.PUSH)
    async with delivering(database, expo):
        async with asyncio.timeout(10):
            while not expo.receipts_asked:
                await asyncio.sleep(0.02)
        await queue(database, organization.id, Channel.PUSH)
        await until(database, settled)
    assert len(expo.messages) == 2


async def test_an_empty_queue_is_not_due_at_once(database: Database) -> None:
    """Its worker would look twenty times a second."""
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN)
    async with database.transaction() as db:
        assert await store.next_due(db, Channel.EMAIL) is None
        assert await store.next_receipt_due(db) is None
    await queue(database, organization.id, Channel.EMAIL)
    async with database.transaction() as db:
        assert await store.next_due(db, Channel.EMAIL) == 0
        assert await store.next_due(db, Channel.PUSH) is None


async def test_a_delivery_keeps_what_caused_it(database: Database) -> None:
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.ORG_ADMIN)
    with at_work("test", {"request_id": "the-cause"}):
        await queue(database, organization.id, Channel.EMAIL)
    await queue(database, organization.id, Channel.EMAIL)
    async with database.transaction() as db:
        due = await store.claim(db, Channel.EMAIL, 5, timedelta(seconds=5), "")
    assert [delivery.cause and delivery.cause["request_id"] for delivery in due] in (["the-cause", None], [None, "the-cause"])


async def test_only_the_newest_devices_of_a_user_are_notified(database: Database) -> None:
    """Every alert is a delivery for each device: inventing devices without end would be a flood for all organisations."""
    organization, user = await add_organization(database), await add_user(database)
    await add_member(database, organization.id, user.id, OrgRole.OPERATOR)
    tokens = [f"ExpoPushToken[{number}]" for number in range(53)]
    for token in tokens:
        async with database.transaction() as db:
            await register_token(db, caller_of(user.id), token, None)
    async with database.transaction() as db:
        assert await notify_members(db, organization.id, [Channel.PUSH], CONTENT) == 50
        cursor = await db.execute("SELECT token FROM push_token WHERE user_id = %s", (user.id,))
        assert {row[0] for row in await cursor.fetchall()} == set(tokens[3:])


async def test_a_message_that_cannot_be_sent_fails_alone(database: Database, expo: ExpoServer) -> None:
    """Nothing that is queued is known to do this: the channel is made to choke on one address."""
    organization = await add_organization(database)
    poison = "ExpoPushToken[poison]"
    for token in (TOKEN, poison, OTHER):
        await add_staff(database, organization.id, OrgRole.OPERATOR, token=token)
    await queue(database, organization.id, Channel.PUSH)

    class Choking(ExpoPush):
        async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
            if any(delivery.address == poison for delivery in deliveries):
                raise KeyError("poison")
            return await super().send(deliveries)

    push = Choking(expo.url)
    async with running(NotificationWorker(database, {Channel.PUSH: push}, push).run()):
        found = await until(database, settled)

    assert sorted((log.status.value, log.error) for log in found) == [
        ("FAILED", "KeyError: 'poison'"),
        ("SENT", None),
        ("SENT", None),
    ]
    assert sorted(message["to"] for message in expo.messages) == sorted([TOKEN, OTHER])


@pytest.mark.parametrize(
    "ticket",
    [7, None, [], {"status": "ok", "id": 5}, {"status": "error", "details": {"error": {}}}, {"status": "ok", "id": "a\0b"}],
    ids=str,
)
async def test_a_strange_ticket_is_the_matter_of_its_own_message(database: Database, expo: ExpoServer, ticket: object) -> None:
    """Neither are the others sent again, nor is their outcome lost."""
    organization = await add_organization(database)
    for token in (TOKEN, OTHER):
        await add_staff(database, organization.id, OrgRole.OPERATOR, token=token)
    await queue(database, organization.id, Channel.PUSH)
    expo.tickets[OTHER] = ticket

    async with delivering(database, expo):
        found = await until(database, settled)

    assert sorted(log.status.value for log in found) == ["FAILED", "SENT"]
    assert [message["to"] for message in expo.messages].count(TOKEN) == 1


@pytest.mark.parametrize(
    "body", [[], 7, None, "x", {"errors": 7}, {"errors": [None]}, {"errors": ["x"]}, {"data": {}}, {"data": []}], ids=str
)
async def test_an_answer_that_cannot_be_read_is_retried(database: Database, expo: ExpoServer, body: object) -> None:
    """A proxy may answer for the push service."""
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.OPERATOR, token=TOKEN)
    await queue(database, organization.id, Channel.PUSH)
    expo.bodies = [body]

    async with delivering(database, expo):
        (log,) = await until(database, settled)

    assert (log.status, log.error) == (NotificationStatus.SENT, None)
    assert expo.requests == [1, 1]


async def test_a_strange_receipt_is_the_matter_of_its_own_message(database: Database, expo: ExpoServer) -> None:
    organization = await add_organization(database)
    for token in (TOKEN, OTHER):
        await add_staff(database, organization.id, OrgRole.OPERATOR, token=token)
    await queue(database, organization.id, Channel.PUSH)
    expo.receipt_errors = {TOKEN: "DeviceNotRegistered", OTHER: "a\0b"}

    async with delivering(database, expo):
        await until(database, lambda found: all(log.status is NotificationStatus.FAILED for log in found))


class SlowGateway:
    """Answers when the test says so."""

    most = 5

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.tries: list[int] = []

    async def send(self, deliveries: Sequence[Outgoing]) -> list[Outcome]:
        self.tries += [delivery.attempts for delivery in deliveries]
        self.asked.set()
        return [await self.outcome] * len(deliveries)


@pytest.mark.parametrize("is_later", [True, False])
async def test_a_worker_that_is_late_changes_nothing(database: Database, expo: ExpoServer, is_later: bool) -> None:
    """A delivery that one worker holds for too long is tried by another one, and only that try counts."""
    organization = await add_organization(database)
    await add_staff(database, organization.id, OrgRole.OPERATOR, phone="+420123456789")
    late, current = SlowGateway(), SlowGateway()

    async def fail_late() -> None:
        late.outcome.set_result(Outcome("the gateway refused", final=True))
        await queue(database, organization.id, Channel.SMS)  # the worker comes to this one when it is done with the first
        async with asyncio.timeout(10):
            while len(late.tries) < 2:
                await asyncio.sleep(0.02)

    async with contextlib.AsyncExitStack() as workers:
        await queue(database, organization.id, Channel.SMS)
        push = ExpoPush(expo.url)
        tasks = []
        for gateway in (late, current):
            tasks.append(asyncio.create_task(NotificationWorker(database, {Channel.SMS: gateway}, push).run()))
            workers.push_async_callback(asyncio.wait, [tasks[-1]])
            workers.callback(tasks[-1].cancel)
            async with asyncio.timeout(10):
                await gateway.asked.wait()
            async with database.transaction() as db:
                await db.execute("UPDATE notification_log SET due_at = now() WHERE attempts = 1")
        if not is_later:
            await fail_late()
        current.outcome.set_result(Outcome())
        await until(database, lambda found: found[-1].status is not NotificationStatus.PENDING)
        if is_later:
            tasks[1].cancel()
            await fail_late()
        [*_, log] = await logs(database)
    assert (log.status, log.error) == (NotificationStatus.SENT, None)
