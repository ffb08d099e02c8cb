"""Which replies of a mail server end a mail, with an SMTP client that receives them at once."""

from typing import Any

import aiosmtplib
import pytest

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.content import MailContent
from gridfleet.kernel.mail.delivery import MailRefused, SmtpDelivery
from gridfleet.kernel.mail.message import Mail

TO = "ada@example.com"


async def refusal(monkeypatch: pytest.MonkeyPatch, step: str, error: aiosmtplib.SMTPException) -> BaseException:
    async def succeed(*_: Any) -> None:
        pass

    async def fail(*_: Any) -> None:
        raise error

    for name in ("connect", "send_message"):
        monkeypatch.setattr(aiosmtplib.SMTP, name, fail if name == step else succeed)
    mail = Mail(new_id(), TO, MailContent("Hello", ("Text.",), "Because."), "https://fleet.example.com", utc_now())
    with pytest.raises(Exception) as refused:
        await SmtpDelivery("smtp://127.0.0.1:1", "a@b.example").deliver(mail)
    return refused.value


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("connect", aiosmtplib.SMTPConnectResponseError(554, "no service for you")),
        ("connect", aiosmtplib.SMTPHeloError(550, "unknown host")),
        ("connect", aiosmtplib.SMTPAuthenticationError(535, "wrong password")),
        ("send_message", aiosmtplib.SMTPSenderRefused(530, "authentication required", "a@b.example")),
        ("send_message", aiosmtplib.SMTPSenderRefused(553, "not your address", "a@b.example")),
        ("send_message", aiosmtplib.SMTPDataError(451, "later")),
        ("send_message", aiosmtplib.SMTPRecipientsRefused([aiosmtplib.SMTPRecipientRefused(451, "later", TO)])),
    ],
)
async def test_a_mail_is_kept_until_the_settings_are_right(
    monkeypatch: pytest.MonkeyPatch, step: str, error: aiosmtplib.SMTPException
) -> None:
    assert await refusal(monkeypatch, step, error) is error


@pytest.mark.parametrize(
    "error",
    [
        aiosmtplib.SMTPDataError(554, "spam"),
        aiosmtplib.SMTPRecipientsRefused([aiosmtplib.SMTPRecipientRefused(550, "no such user", TO)]),
    ],
)
async def test_a_refused_recipient_or_content_ends_a_mail(
    monkeypatch: pytest.MonkeyPatch, error: aiosmtplib.SMTPException
) -> None:
    assert isinstance(await refusal(monkeypatch, "send_message", error), MailRefused)
