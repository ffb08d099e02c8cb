"""Mails leave with the change that causes them, reach a real mail server, and are tried again while it is away."""

import asyncio
import email
import email.policy
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiosmtplib
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from procrastinate.jobs import Job

from gridfleet.domains.plants.lifecycle import ERASE_TELEMETRY
from gridfleet.jobs.accounts import MailRetry
from gridfleet.jobs.middleware import job_middleware
from gridfleet.jobs.schedule import run_jobs
from gridfleet.kernel import metrics
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.jobs import defer
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.content import MailAction, MailContent
from gridfleet.kernel.mail.delivery import FolderDelivery, MailRefused, SmtpDelivery
from gridfleet.kernel.mail.message import Mail
from gridfleet.kernel.mail.queue import SEND_MAIL
from gridfleet.kernel.security.certificates import Authority
from support.clients.people import People
from support.servers.api_service import ApiService, api_service
from support.servers.free_ports import free_ports
from support.servers.postbox import mails_to, text_of, token_in, work_off
from support.servers.running_task import running

CONTENT = MailContent(
    "Häuser & <Zäune>", ("Grüße & <Küsse>.", "x" * 200), "Weil's so ist.", MailAction("Öffnen", "/a?token=" + "a1" * 32)
)


def mail(to: str = "ada@example.com") -> Mail:
    return Mail(new_id(), to, CONTENT, "https://fleet.example.com", utc_now())


@dataclass
class MailServer:
    """A real SMTP server that keeps what it is sent; `answer` decides what it says to a recipient."""

    port: int
    answer: Callable[[str], str] = lambda _: "250 OK"
    received: list[EmailMessage] = field(default_factory=list)
    logins: list[tuple[str, bool]] = field(default_factory=list)

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:  # noqa: N802
        said = self.answer(address)
        if said.startswith("250"):
            envelope.rcpt_tos.append(address)
        return said

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        content = envelope.content
        assert isinstance(content, bytes)
        parsed = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(parsed, EmailMessage)
        self.received.append(parsed)
        return "250 OK"

    def login(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        right = (data.login, data.password) == (b"fleet", b"p@ss word")
        self.logins.append((data.login.decode(), session.ssl is not None))
        return AuthResult(success=right, handled=False)


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    made = MailServer(*free_ports(1))
    controller = Controller(made, hostname="127.0.0.1", port=made.port, authenticator=made.login, auth_require_tls=False)
    controller.start()
    yield made
    controller.stop()


async def test_a_mail_arrives_whole(server: MailServer) -> None:
    sent = mail()
    await SmtpDelivery(f"smtp://127.0.0.1:{server.port}", "Gridfleet <no-reply@fleet.example.com>").deliver(sent)
    [received] = server.received
    assert (received["To"], received["From"]) == ("ada@example.com", "Gridfleet <no-reply@fleet.example.com>")
    assert received["Subject"] == "Häuser & <Zäune>"
    assert received["Message-ID"] == f"<{sent.id}@fleet.example.com>"
    assert received["Auto-Submitted"] == "auto-generated"
    assert token_in(received) == "a1" * 32
    assert "Grüße & <Küsse>." in text_of(received)
    page = text_of(received, "html")
    assert "<p>Grüße &amp; &lt;Küsse&gt;.</p>" in page
    assert "<script" not in page
    assert "<img" not in page


async def test_credentials_are_used_and_wrong_ones_tried_again(server: MailServer) -> None:
    await SmtpDelivery(f"smtp://fleet:p%40ss%20word@127.0.0.1:{server.port}", "a@b.example").deliver(mail())
    assert server.logins == [("fleet", False)]
    with pytest.raises(aiosmtplib.SMTPAuthenticationError):
        await SmtpDelivery(f"smtp://fleet:wrong@127.0.0.1:{server.port}", "a@b.example").deliver(mail())
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("url", "start_tls"),
    [
        ("smtp://fleet:secret@mail.example.com", True),
        ("smtp://fleet:secret@127.0.0.1", None),
        ("smtp://mail.example.com", None),
        ("smtps://fleet:secret@mail.example.com", False),
    ],
)
def test_a_password_never_travels_in_clear_to_another_machine(url: str, start_tls: bool | None) -> None:
    assert SmtpDelivery(url, "a@b.example").start_tls is start_tls


@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_is_used_where_offered_and_its_certificate_must_be_good(
    home: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    authority = Authority.create()
    issued = authority.issue_server(["127.0.0.1"])
    (home / "server.pem").write_text(issued.certificate_pem + issued.key_pem)
    (home / "ca.pem").write_text(authority.certificate_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "server.pem")
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(home / "ca.pem"))
    server = MailServer(*free_ports(1))
    controller = Controller(
        server, hostname="127.0.0.1", port=server.port, tls_context=context, authenticator=server.login, auth_require_tls=True
    )
    controller.start()
    try:
        delivery = SmtpDelivery(f"smtp://fleet:p%40ss%20word@127.0.0.1:{server.port}", "a@b.example")
        if trusted:
            await delivery.deliver(mail())
            assert server.logins == [("fleet", True)]
        else:
            with pytest.raises((aiosmtplib.SMTPException, OSError)):
                await delivery.deliver(mail())
            assert server.received == []
    finally:
        controller.stop()


@pytest.mark.parametrize(("said", "gone"), [("550 no such user", True), ("451 later", False)])
async def test_what_is_refused_for_good_is_not_tried_again(server: MailServer, said: str, gone: bool) -> None:
    server.answer = lambda _: said
    with pytest.raises(MailRefused if gone else aiosmtplib.SMTPRecipientsRefused) as refusal:
        await SmtpDelivery(f"smtp://127.0.0.1:{server.port}", "a@b.example").deliver(mail())
    job = Job(id=1, queue="default", lock=None, queueing_lock=None, task_name="mail.send")
    assert (MailRetry().get_retry_decision(exception=refusal.value, job=job) is None) == gone


async def test_a_refused_address_is_no_failure_of_the_job(database: Database) -> None:
    """One mistyped address raised the alert of failing jobs for hours, if no other mail was sent."""
    job = Job(id=1, queue="default", lock=None, queueing_lock=None, task_name="mail.send")

    def counted() -> dict[str, float]:
        samples = metrics.JOBS.collect()[0].samples
        of_mails = [one for one in samples if one.name.endswith("_total") and one.labels["name"] == "mail.send"]
        return {one.labels["outcome"]: one.value for one in of_mails}

    async def run(error: Exception) -> None:
        async def fail() -> None:
            raise error

        context: Any = SimpleNamespace(job=job)
        worker: Any = None
        with pytest.raises(type(error)):
            await job_middleware(database)(fail, context, worker)

    before = counted()
    await run(MailRefused("550 no such user"))
    assert counted() == before | {"refused": before.get("refused", 0) + 1}
    await run(OSError())
    assert counted()["failed"] == before.get("failed", 0) + 1


def test_tries_are_spread_over_a_day() -> None:
    waits, now = [], utc_now()
    for attempts in range(40):
        job = Job(id=1, queue="default", lock=None, queueing_lock=None, task_name="mail.send", attempts=attempts)
        decision = MailRetry().get_retry_decision(exception=OSError(), job=job)
        if decision is None:
            break
        assert decision.retry_at is not None
        waits.append(round((decision.retry_at - now).total_seconds()))
    assert waits[:4] == [5, 10, 20, 40]
    assert max(waits) <= 3600
    assert 12 * 3600 < sum(waits) < 36 * 3600


async def test_files_are_for_their_owners_eyes_alone(home: Path) -> None:
    nasty = mail("/etc/p'asswd{1}@example.com")
    await FolderDelivery(home / "mail", "Gridfleet <no-reply@localhost>").deliver(nasty)
    await FolderDelivery(home / "mail", "Gridfleet <no-reply@localhost>").deliver(nasty)
    [path] = list((home / "mail").iterdir())
    assert path.suffix == ".eml"
    assert "/" not in path.name
    assert (path.stat().st_mode & 0o777, (home / "mail").stat().st_mode & 0o777) == (0o600, 0o700)
    assert "token=" + "a1" * 32 in path.read_text(), "links are whole, for grep and eyes"


@pytest.fixture
async def smtp_service(server: MailServer, database_url: str, home: Path) -> AsyncIterator[ApiService]:
    url = f"smtp://127.0.0.1:{server.port}"
    async with api_service(database_url, home, smtp_url=url, mail_from="Fleet <fleet@example.com>") as running:
        yield running


async def test_a_mail_server_that_hangs_holds_no_other_job_up(database_url: str, home: Path) -> None:
    hanging: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: hanging.append(writer), "127.0.0.1", 0)
    url = f"smtp://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, api_service(database_url, home, smtp_url=url, rate_limits="off") as service:
        people, state = People(service), service.state
        boss = await people.person()
        org = await people.organization(ORG_ADMIN=boss)
        for number in range(6):
            await people.call("POST", "/invitations", {"email": f"{number}@example.com"}, who=boss, org=org.id)
        async with running(run_jobs(state.settings, state.database)):
            try:
                async with asyncio.timeout(20):
                    while len(hanging) < 4:
                        await asyncio.sleep(0.05)
                    async with state.database.transaction() as db:
                        await defer(db, ERASE_TELEMETRY, {"timestamp": 0})
                    while await people.execute("SELECT id FROM procrastinate_jobs WHERE task_name = %s", ERASE_TELEMETRY):
                        await asyncio.sleep(0.05)
                assert len(await people.execute("SELECT id FROM procrastinate_jobs WHERE task_name = %s", SEND_MAIL)) == 6
            finally:
                for writer in hanging:
                    writer.close()


async def test_an_invitation_leaves_by_smtp_with_a_link_that_works(server: MailServer, smtp_service: ApiService) -> None:
    people = People(smtp_service)
    boss = await people.person()
    org = await people.organization(ORG_ADMIN=boss)
    await people.call("POST", "/invitations", {"email": "new@example.com"}, who=boss, org=org.id)
    assert server.received == []
    await work_off(smtp_service.state)
    [received] = server.received
    assert received["From"] == "Fleet <fleet@example.com>"
    url = next(word for word in text_of(received).split() if word.startswith("http://localhost:8080/"))
    assert (await smtp_service.client.get(url)).headers["content-type"].startswith("text/html")
    assert await people.execute("SELECT id FROM procrastinate_jobs") == [], "a sent mail leaves nothing behind"


async def test_a_mail_waits_for_its_server_and_shows_no_token_meanwhile(server: MailServer, smtp_service: ApiService) -> None:
    people = People(smtp_service)
    boss = await people.person()
    org = await people.organization(ORG_ADMIN=boss)
    server.answer = lambda _: "451 later"
    await people.call("POST", "/invitations", {"email": "new@example.com"}, who=boss, org=org.id)
    await work_off(smtp_service.state)
    # At the beginning of a minute, jobs that run each minute are there too.
    [(status, attempts, text)] = await people.execute(
        "SELECT status::text, attempts, j::text FROM procrastinate_jobs j WHERE task_name = %s", SEND_MAIL
    )
    assert (status, attempts) == ("todo", 1)
    assert "token" not in text
    assert "new@example.com" not in text
    server.answer = lambda _: "250 OK"
    await people.execute("UPDATE procrastinate_jobs SET scheduled_at = now()")
    await work_off(smtp_service.state)
    assert len(server.received) == 1


async def test_a_request_that_fails_sends_no_mail(people: People) -> None:
    from gridfleet.domains.identity.accounts import email_change
    from gridfleet.kernel.caller import UserCaller

    state = people.service.state
    ada = await people.person("ada@example.com")
    caller = UserCaller(ada.id, new_id(), "ada@example.com", "Ada", False, None)
    [(password_hash,)] = await people.execute("SELECT password_hash FROM user_account")

    async def fail() -> None:
        async with state.database.transaction() as db:
            await email_change.request(db, state.mail, caller, "new@example.com", str(password_hash))
            assert len(await (await db.execute("SELECT id FROM procrastinate_jobs")).fetchall()) == 2
            raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError, match="rolled back"):
        await fail()
    assert await people.execute("SELECT id FROM procrastinate_jobs") == []


async def test_a_killed_worker_loses_no_mail(people: People) -> None:
    boss = await people.person()
    org = await people.organization(ORG_ADMIN=boss)
    await people.call("POST", "/invitations", {"email": "new@example.com"}, who=boss, org=org.id)
    # What a worker leaves that is killed while it sends: a job that no worker does.
    await people.execute("UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL")
    async with asyncio.timeout(60):  # a worker with nothing to do may end before its periodic jobs are queued
        while not (mails := await mails_to(people.service.state, "new@example.com")):
            pass
    assert len(mails) == 1
