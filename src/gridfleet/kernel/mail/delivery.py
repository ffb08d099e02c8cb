"""Delivery of mails: to a mail server, or into a folder for reading."""

import asyncio
import contextlib
import ipaddress
import re
from email.message import EmailMessage
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import aiosmtplib

from gridfleet.kernel.mail.message import Mail, compose
from gridfleet.kernel.private_files import ensure_private_folder, write_private
from gridfleet.kernel.security.server_trust import client_tls
from gridfleet.kernel.settings import Settings

__all__ = ["DELIVERY_SECONDS", "FolderDelivery", "MailDelivery", "MailRefused", "SmtpDelivery", "open_delivery"]

DELIVERY_SECONDS: Final = 25.0
"""Time for all commands of a mail together. It is shorter than that of a batch of notifications: after that, the mails
that the server has accepted would be sent again.
"""
_QUIT_SECONDS: Final = 1.0
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._@+-]")


class MailRefused(Exception):
    """The mail server refuses this mail permanently; a retry cannot succeed."""


class MailDelivery(Protocol):
    """A way to deliver mails."""

    async def deliver(self, mail: Mail) -> None:
        """Deliver a mail. Raises MailRefused for a permanent refusal; any other error can be retried."""


def open_delivery(settings: Settings) -> MailDelivery:
    """Return SMTP delivery if a server is configured, else delivery to files below `{home}/mail`."""
    if settings.smtp_url is not None:
        return SmtpDelivery(settings.smtp_url.get_secret_value(), settings.sender, settings.ca_file)
    return FolderDelivery(settings.home / "mail", settings.sender)


class SmtpDelivery:
    """Delivery by SMTP, with one connection for each mail.

    `smtps://` uses TLS from the start. `smtp://` uses STARTTLS if the server offers it, and requires it if a password would be
    sent to another machine.
    """

    def __init__(self, url: str, sender: str, authority: Path | None = None) -> None:
        """Prepare deliveries.

        Args:
            url: The server, with user name and password if it needs them.
            sender: The address that mails come from.
            authority: PEM file of authorities to trust beside those of the system, because a mail server is often hosted.
        """
        parts = urlsplit(url)
        self._sender = sender
        self._tls = client_tls(None)
        if authority is not None:
            self._tls.load_verify_locations(authority)
        self._host = parts.hostname or ""
        self._implicit_tls = parts.scheme == "smtps"
        self._port = parts.port or (465 if self._implicit_tls else 587 if parts.username else 25)
        self._username = unquote(parts.username) if parts.username else None
        self._password = unquote(parts.password) if parts.password else None

    async def deliver(self, mail: Mail) -> None:
        """Send the mail.

        Raises:
            MailRefused: The server permanently refuses the recipient or the content (5xx).
            aiosmtplib.SMTPException: Any other refusal. Greeting, login and sender depend on the settings, not on the mail:
                it is sent when they are corrected.
            OSError: The server cannot be reached.
        """
        message = compose(mail, self._sender)
        client = self._client(DELIVERY_SECONDS)
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                await client.connect()
                await client.send_message(message)
            with contextlib.suppress(aiosmtplib.SMTPException):  # the server has the mail
                await client.quit(timeout=_QUIT_SECONDS)
        except aiosmtplib.SMTPRecipientsRefused as error:
            if all(recipient.code >= 500 for recipient in error.recipients):
                raise MailRefused("the server refuses the recipient") from error
            raise
        except aiosmtplib.SMTPDataError as error:
            if error.code >= 500:
                raise MailRefused(f"the server refuses the mail with {error.code}") from error
            raise
        finally:
            client.close()

    async def try_login(self, seconds: float) -> None:
        """Connect, negotiate TLS and log in as for a mail, then disconnect. Raises like `deliver`."""
        async with self._client(seconds) as client:
            await client.noop()

    def _client(self, seconds: float) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname=self._host,
            port=self._port,
            username=self._username,
            password=self._password,
            use_tls=self._implicit_tls,
            start_tls=self.start_tls,
            tls_context=self._tls,
            timeout=seconds,
        )

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self._host}:{self._port}"

    @property
    def start_tls(self) -> bool | None:
        """Whether to use STARTTLS; None if the server decides."""
        if self._implicit_tls:
            return False
        return True if self._password is not None and not _is_loopback(self._host) else None


class FolderDelivery:
    """Delivery to files that mail programs can open. Only the owner can read them because they contain tokens."""

    def __init__(self, folder: Path, sender: str) -> None:
        self._folder = folder
        self._sender = sender

    async def deliver(self, mail: Mail) -> None:
        """Write `{time}-{address}-{start of the id}.eml`. A mail that is delivered twice replaces its file."""
        await asyncio.to_thread(self._write, mail, compose(mail, self._sender, plainly=True))

    def _write(self, mail: Mail, message: EmailMessage) -> None:
        moment = f"{mail.written_at:%Y%m%dT%H%M%S}.{mail.written_at.microsecond // 1000:03}Z"
        name = f"{moment}-{_UNSAFE.sub('_', mail.to)[:100]}-{mail.id.hex[-8:]}.eml"
        ensure_private_folder(self._folder)
        write_private(self._folder / name, message.as_bytes().decode())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
