"""Mails queued with the change that causes them: a rolled-back request sends none.

A queued mail may contain a login token, of which the tables store only the hash. Therefore queued mails are encrypted.
"""

import base64
from typing import Final

import msgspec
from procrastinate.types import JSONDict

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedJobs
from gridfleet.kernel.db.jobs import MAILS, defer
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.content import MailContent
from gridfleet.kernel.mail.message import Mail
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["QUEUED_MAILS", "SEND_MAIL", "MailQueue", "open_mail"]

SEND_MAIL: Final = "mail.send"
"""Name of the task that sends one mail."""

QUEUED_MAILS: Final = EncryptedJobs("mail", ("content",), task=SEND_MAIL, id_argument="mail_id")
"""The encrypted argument of queued mails."""


class MailQueue:
    """Queue of the mails that domains send."""

    def __init__(self, keyring: Keyring, base_url: str) -> None:
        """Prepare the queue.

        Args:
            keyring: Encrypts the content of mails.
            base_url: Prefix of links in mails, without a trailing slash.
        """
        self._keyring = keyring
        self._base_url = base_url

    async def put(self, db: Connection, to: str, content: MailContent) -> None:
        """Queue a mail to an address. It is sent after the commit."""
        mail = Mail(new_id(), to, content, self._base_url, utc_now())
        encrypted = self._keyring.encrypt(msgspec.json.encode(mail), table="mail", column="content", row_id=mail.id)
        arguments: JSONDict = {
            "mail_id": str(mail.id),
            "key_version": self._keyring.current_version,
            "sealed": base64.b64encode(encrypted).decode(),
        }
        await defer(db, SEND_MAIL, arguments, queue=MAILS)


def open_mail(keyring: Keyring, mail_id: str, key_version: int, sealed: str) -> Mail:
    """Decrypt the mail in a queued job's arguments.

    Raises:
        UnknownKeyVersion: The keyring lacks the key version.
        DecryptionFailed: The mail cannot be decrypted.
    """
    content = keyring.decrypt(base64.b64decode(sealed), key_version, table="mail", column="content", row_id=mail_id)
    return msgspec.json.decode(content, type=Mail)
