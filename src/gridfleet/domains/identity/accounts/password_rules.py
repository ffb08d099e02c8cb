"""Rules for passwords at registration (spec, Authentication, 6)."""

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["NEW_CHARACTERS", "REGISTRATION_CHARACTERS", "registration_complaints"]

REGISTRATION_CHARACTERS: Final = (8, 72)
"""Minimum and maximum length of a password at registration."""

NEW_CHARACTERS: Final = (12, 256)
"""Minimum and maximum length of a changed password. The length alone makes it strong."""

_CLASSES: Final = (
    (re.compile("[a-z]"), "a lowercase letter"),
    (re.compile("[A-Z]"), "an uppercase letter"),
    (re.compile("[0-9]"), "a digit"),
)


def registration_complaints(password: str) -> Iterator[str]:
    """Yield the rules that the password breaks, in words. A special character is anything but a letter, digit or space."""
    for pattern, name in _CLASSES:
        if not pattern.search(password):
            yield f"password: must contain {name}"
    if all(character.isalnum() or character.isspace() for character in password):
        yield "password: must contain a special character (neither letter, digit nor space)"
