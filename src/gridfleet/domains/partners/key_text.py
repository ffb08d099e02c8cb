"""The text of an API key: `gf_live_`, 32 random characters, and a checksum of 6.

The checksum detects typing errors and saves a query for texts that were never issued; it is no protection. Only the SHA-256
of the text is stored: 190 random bits need no slow hash.
"""

import secrets
import string
import zlib
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple

__all__ = ["MARK", "SHOWN_CHARACTERS", "KeyText", "broker_digest_of", "digest_of", "make_key"]

MARK: Final = "gf_live_"
"""The beginning of every key."""

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 32
_CHECK: Final = 6
SHOWN_CHARACTERS: Final = 16
"""Number of characters at the beginning of a key that identify it."""

_LEGACY_LENGTHS: Final = range(20, 201)


class KeyText(NamedTuple):
    """A new key: its text, which is stored nowhere, the prefix that identifies it, and the SHA-256 of the whole text."""

    text: str
    prefix: str
    digest: bytes


def make_key() -> KeyText:
    """Return a new random key."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    text = MARK + random + _check(random)
    return KeyText(text, text[:SHOWN_CHARACTERS], sha256(text.encode()).digest())


def digest_of(text: str) -> bytes | None:
    """Return the digest by which a key is looked up; None for a text that cannot be a key."""
    random, check = text[len(MARK) : -_CHECK], text[-_CHECK:]
    if not text.startswith(MARK) or len(random) != _RANDOM or not text.isascii():
        return None
    return sha256(text.encode()).digest() if compare_digest(check, _check(random)) else None


def broker_digest_of(text: str) -> bytes | None:
    """Return the digest by which a key is looked up at the broker, where imported keys may have any form.

    None for a text that cannot be a key.
    """
    if text.startswith(MARK):
        return digest_of(text)
    printable = text.isascii() and text.isprintable()
    return sha256(text.encode()).digest() if printable and len(text) in _LEGACY_LENGTHS else None


def _check(random: str) -> str:
    """Return the CRC-32 in base 62, six digits."""
    rest, digits = zlib.crc32(random.encode()), ""
    for _ in range(_CHECK):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
