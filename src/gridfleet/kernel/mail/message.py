"""An addressed mail, and its conversion to an internet message (RFC 5322)."""

from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, default
from email.utils import parseaddr
from uuid import UUID

import msgspec

from gridfleet.kernel.mail.content import MailContent, as_html, as_text

__all__ = ["Mail", "compose"]


class Mail(msgspec.Struct, frozen=True):
    """The content of a mail with its recipient and the public URL for its links."""

    id: UUID
    to: str
    content: MailContent = msgspec.field(name="letter")  # the name in queued mails
    base_url: str
    written_at: datetime


def compose(mail: Mail, sender: str, *, plainly: bool = False) -> EmailMessage:
    """Return the message with text and HTML as alternatives.

    Repeated messages have the same Message-ID, so mail programs drop duplicates. With `plainly`, both parts are unencoded and
    have the line ends of a text file, for human readers. A mail server does not need this.
    """
    message = EmailMessage(policy=default if plainly else SMTP)
    name, address = parseaddr(sender)
    message["From"] = Address(name, addr_spec=address)
    message["To"] = Address(addr_spec=mail.to)
    message["Subject"] = _one_line(mail.content.subject)
    message["Date"] = mail.written_at
    message["Message-ID"] = f"<{mail.id}@{address.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    encoding = "8bit" if plainly else "quoted-printable"
    message.set_content(as_text(mail.content, mail.base_url), cte=encoding)
    message.add_alternative(as_html(mail.content, mail.base_url), subtype="html", cte=encoding)
    return message


def _one_line(subject: str) -> str:
    """Return a subject as one line without encoded words.

    The email library decodes encoded words (RFC 2047) in a header that is set. An encoded line break in a user's name would
    then add a header or begin the body (CVE-2024-6923), and newer versions of Python refuse to write such a mail.
    """
    return " ".join(subject.split()).replace("=?", "= ?")
