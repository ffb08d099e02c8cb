"""A letter on its way to somebody, and the internet message (RFC 5322) that it becomes."""

from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, default
from email.utils import parseaddr
from uuid import UUID

import msgspec

from gridfleet.kernel.mail.letter import Letter, as_html, as_text

__all__ = ["Mail", "compose"]


class Mail(msgspec.Struct, frozen=True):
    """A letter with its address and the public URL that its link starts with."""

    id: UUID
    to: str
    letter: Letter
    base_url: str
    written_at: datetime


def compose(mail: Mail, sender: str, *, plainly: bool = False) -> EmailMessage:
    """The message: text and HTML as alternatives. Sent twice, it has the same Message-ID, by which readers drop the second.

    `plainly` leaves both unencoded, with the lines of a text file, for eyes; a mail server needs neither.
    """
    message = EmailMessage(policy=default if plainly else SMTP)
    name, address = parseaddr(sender)
    message["From"] = Address(name, addr_spec=address)
    message["To"] = Address(addr_spec=mail.to)
    message["Subject"] = mail.letter.subject
    message["Date"] = mail.written_at
    message["Message-ID"] = f"<{mail.id}@{address.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    encoding = "8bit" if plainly else "quoted-printable"
    message.set_content(as_text(mail.letter, mail.base_url), cte=encoding)
    message.add_alternative(as_html(mail.letter, mail.base_url), subtype="html", cte=encoding)
    return message
