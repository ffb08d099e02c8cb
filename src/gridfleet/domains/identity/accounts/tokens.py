"""One-time tokens that are sent by mail: 64 hex digits, of which only the hash is stored."""

import hashlib
import secrets
from typing import Final, NamedTuple

__all__ = ["MAIL_TOKEN_CHARACTERS", "MailToken", "digest", "make_token"]

MAIL_TOKEN_CHARACTERS: Final = 64


class MailToken(NamedTuple):
    """A new token in plain text, for the mail, and its hash, for the table."""

    text: str
    digest: bytes

    def __repr__(self) -> str:
        return "MailToken()"


def make_token() -> MailToken:
    """Return a token of 256 random bits."""
    text = secrets.token_hex(MAIL_TOKEN_CHARACTERS // 2)
    return MailToken(text, digest(text))


def digest(text: str) -> bytes:
    """Return the SHA-256 of a token or another text. A slow hash would add nothing to 256 random bits."""
    return hashlib.sha256(text.encode()).digest()
