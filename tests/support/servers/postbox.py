"""Mails of a service under test: queued by the service, delivered into its home folder by the real worker."""

import email
import email.policy
import re
from email.message import EmailMessage
from pathlib import Path

from gridfleet.api.state import AppState
from gridfleet.jobs.schedule import build_app


async def work_off(state: AppState) -> None:
    """Run every due job, as the jobs process does."""
    app = build_app(state.settings, state.database)
    async with app.open_async():
        await app.run_worker_async(wait=False, install_signal_handlers=False, delete_jobs="successful", listen_notify=False)


async def mails_to(state: AppState, address: str) -> list[EmailMessage]:
    """Return every mail to an address so far, oldest first."""
    await work_off(state)
    return delivered(state.settings.home, address)


def delivered(home: Path, address: str) -> list[EmailMessage]:
    """Return the mails to an address in a home folder, oldest first."""
    mails = []
    for path in sorted((home / "mail").glob("*.eml")):
        mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        if mail["To"] == address:
            mails.append(mail)
    return mails


def text_of(mail: EmailMessage, kind: str = "plain") -> str:
    """Return the text of a mail, plain or HTML."""
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def token_in(mail: EmailMessage) -> str:
    """Return the token of the mail's link, which is the same in both forms."""
    [plain] = re.findall(r"https?://\S+token=([0-9a-f]{64})\s", text_of(mail))
    assert set(re.findall(r"token=([0-9a-f]+)", text_of(mail, "html"))) == {plain}
    return str(plain)
