"""Mails put on the queue with the change that causes them: a request that is rolled back sends none.

A waiting mail may carry a token that lets its reader in, while the tables keep only the token's hash; so the queue holds
mails encrypted.
"""

import base64
from typing import Final

import msgspec
from procrastinate.types import JSONDict

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedJobs
from gridfleet.kernel.db.jobs import defer
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.mail.letter import Letter
from gridfleet.kernel.mail.message import Mail
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["QUEUED_MAILS", "SEND_MAIL", "MailQueue", "open_mail"]

SEND_MAIL: Final = "mail.send"
"""The task that sends one mail."""

QUEUED_MAILS: Final = EncryptedJobs("mail", ("content",), task=SEND_MAIL, id_argument="mail_id")
"""What is encrypted of waiting mails."""


class MailQueue:
    """Where domains put their letters."""

    def __init__(self, keyring: Keyring, base_url: str) -> None:
        """`base_url`: where links in mails lead, without a slash at its end."""
        self._keyring = keyring
        self._base_url = base_url

    async def put(self, db: Connection, to: str, letter: Letter) -> None:
        """Queues a letter to an address, to be sent once the transaction has been committed."""
        mail = Mail(new_id(), to, letter, self._base_url, utc_now())
        sealed = self._keyring.encrypt(msgspec.json.encode(mail), table="mail", column="content", row_id=mail.id)
        arguments: JSONDict = {
            "mail_id": str(mail.id),
            "key_version": self._keyring.current_version,
            "sealed": base64.b64encode(sealed).decode(),
        }
        # After everything else: a server that hangs would keep all of a worker's hands from what is due by the clock.
        await defer(db, SEND_MAIL, arguments, priority=-1)


def open_mail(keyring: Keyring, mail_id: str, key_version: int, sealed: str) -> Mail:
    """The mail of a queued job's arguments. Raises UnknownKeyVersion, DecryptionFailed."""
    content = keyring.decrypt(base64.b64decode(sealed), key_version, table="mail", column="content", row_id=mail_id)
    return msgspec.json.decode(content, type=Mail)
