"""Content of a mail, independent of its layout.

Text and HTML of a mail are generated from the same record, so they cannot differ, and all text is escaped in one place.
"""

import html
import textwrap
from pathlib import Path
from string import Template
from typing import Final

import msgspec

__all__ = ["MailAction", "MailContent", "as_html", "as_text"]

_LAYOUT: Final = Template(Path(__file__).with_name("layout.html").read_text())
_WIDTH: Final = 72


class MailAction(msgspec.Struct, frozen=True):
    """An action for the reader: the text of the button, and the path of its link below the public URL."""

    label: str
    path: str


class MailContent(msgspec.Struct, frozen=True):
    """A mail's content.

    `reason` follows a separator: why the reader received the mail, and what to do if they did not cause it.
    """

    subject: str
    paragraphs: tuple[str, ...]
    reason: str
    action: MailAction | None = None


def as_text(content: MailContent, base_url: str) -> str:
    """Return the plain text. Links are on lines of their own and never broken."""
    parts = [_filled(paragraph) for paragraph in content.paragraphs]
    if content.action is not None:
        parts.append(f"{content.action.label}:\n{base_url}{content.action.path}")
    return "\n\n".join([*parts, f"-- \n{_filled(content.reason)}"]) + "\n"


def as_html(content: MailContent, base_url: str) -> str:
    """Return the mail as an HTML page without scripts, images or other external content.

    Args:
        content: The subject and texts, which are escaped.
        base_url: The public URL of the service, without a slash at the end. The path of the action is appended to it.
    """
    return _LAYOUT.substitute(
        subject=html.escape(content.subject),
        paragraphs="\n".join(f"<p>{html.escape(paragraph)}</p>" for paragraph in content.paragraphs),
        action=_button(content.action, base_url) if content.action is not None else "",
        reason=html.escape(content.reason),
    )


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _button(action: MailAction, base_url: str) -> str:
    url = html.escape(base_url + action.path)
    return (
        f'<p style="margin:28px 0"><a href="{url}" style="background:#0b6e4f;border-radius:6px;color:#fff;'
        f'display:inline-block;font-weight:600;padding:12px 22px;text-decoration:none">{html.escape(action.label)}</a></p>\n'
        f'<p style="color:#5b6770;font-size:13px">If the button does not work, open this address:<br>'
        f'<a href="{url}" style="color:#0b6e4f;word-break:break-all">{url}</a></p>'
    )
