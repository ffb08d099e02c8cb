"""Mails as bytes: whatever names users choose, the headers are those of the service."""

import email
import email.policy
from datetime import UTC, datetime

import pytest

from gridfleet.domains.identity.emails import is_address
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.content import MailContent
from gridfleet.kernel.mail.message import Mail, compose

HEADERS = {"From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"}


@pytest.mark.parametrize("plainly", [True, False])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Häuser & <Zäune>", "Häuser & <Zäune>"),
        ("=?utf-8?q?=0d=0aBcc:_eve@example.com?=", "= ?utf-8?q?=0d=0aBcc:_eve@example.com?="),
        ("=?utf-8?q?=0d=0a=0d=0aPay_here?=", "= ?utf-8?q?=0d=0a=0d=0aPay_here?="),
        ("=?utf-8?q?=0d=0aBcc:_eve@example.com?= ü", "= ?utf-8?q?=0d=0aBcc:_eve@example.com?= ü"),
        ("=?utf-8?q?=ff?=ü", "= ?utf-8?q?=ff?=ü"),
        ("North\u2028Hall", "North Hall"),
        ("North\x85 \u2029Hall\r\nBcc: eve@example.com", "North Hall Bcc: eve@example.com"),
    ],
)
def test_a_name_in_the_subject_adds_no_header(name: str, shown: str, plainly: bool) -> None:
    content = MailContent(f"{name} invites you", (f"{name} invites you.",), "Because.")
    mail = Mail(new_id(), "ada@example.com", content, "https://fleet.example.com", datetime.now(UTC))
    raw = compose(mail, "Gridfleet <no-reply@example.com>", plainly=plainly).as_bytes()
    message = email.message_from_bytes(raw, policy=email.policy.default)

    assert set(message.keys()) == HEADERS
    assert message["Subject"] == f"{shown} invites you"
    assert "Because." in message.get_body(("plain",)).get_content()  # type: ignore[attr-defined]


def test_an_address_that_no_header_can_hold_is_refused() -> None:
    assert not is_address("=?utf-8?q?ada?=@example.com")
    assert is_address("a=?b@example.com")
