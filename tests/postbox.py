"""Mails of a service under test: queued by it, delivered into its home by the real worker, read as a person reads them."""

import email
import email.policy
import re
from email.message import EmailMessage
from pathlib import Path

from gridfleet.api._http.state import AppState
from gridfleet.jobs.schedule import build_app


async def work_off(state: AppState) -> None:
    """Carries out every job that is due, as the jobs process would."""
    app = build_app(state.settings, state.database)
    async with app.open_async():
        await app.run_worker_async(wait=False, install_signal_handlers=False, delete_jobs="successful", listen_notify=False)


async def mails_to(state: AppState, address: str) -> list[EmailMessage]:
    """Every mail to an address so far, oldest first."""
    await work_off(state)
    return delivered(state.settings.home, address)


def delivered(home: Path, address: str) -> list[EmailMessage]:
    """Mails to an address that lie in a home folder, oldest first."""
    mails = []
    for path in sorted((home / "mail").glob("*.eml")):
        mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        if mail["To"] == address:
            mails.append(mail)
    return mails


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    """What a mail says, as plain text or as HTML."""
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def token_in(mail: EmailMessage) -> str:
    """The token of the mail's link, the same in both forms."""
    [plain] = re.findall(r"https?://\S+token=([0-9a-f]{64})\s", text_of(mail))
    assert set(re.findall(r"token=([0-9a-f]+)", text_of(mail, "html"))) == {plain}
    return str(plain)
