"""E-mail addresses: unique without regard to case, stored lower-case."""

import re
from typing import Final

__all__ = ["is_address", "normalized"]

_ADDRESS: Final = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)*")
_MAX_CHARACTERS: Final = 254


def normalized(email: str) -> str:
    """The form that is stored and compared."""
    return email.strip().lower()


def is_address(text: str) -> bool:
    """Whether it can be an address at all; only a mail that arrives proves more."""
    return len(text) <= _MAX_CHARACTERS and _ADDRESS.fullmatch(text) is not None
