"""E-mail addresses: unique without regard to case, stored lower-case."""

import re
from typing import Final

__all__ = ["is_address", "normalized"]

_LOCAL: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(
    rf"(?=[^@]{{1,64}}@)(?!=\?){_LOCAL}(?:\.{_LOCAL})*@(?:{_LABEL}\.)+[A-Za-z][A-Za-z0-9-]{{0,61}}[A-Za-z0-9]"
)
_MAX_CHARACTERS: Final = 254


def normalized(email: str) -> str:
    """Return the form that is stored and compared."""
    return email.strip().lower()


def is_address(text: str) -> bool:
    """Return whether the text has the form of an address (a dotted domain, ASCII). Only a delivered mail proves more.

    A local part that begins like an encoded word (`=?`) is refused, because it cannot be written into a header.
    """
    return len(text) <= _MAX_CHARACTERS and _ADDRESS.fullmatch(text) is not None
