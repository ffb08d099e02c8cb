"""The first SuperAdmin, who is needed to create other users."""

import re
import secrets
import string
from typing import Final

import msgspec

from gridfleet.domains.identity import store
from gridfleet.domains.identity.emails import is_address, normalized
from gridfleet.domains.identity.login import LOGIN_PASSWORD_CHARACTERS
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.outages import WrongSetting
from gridfleet.kernel.security.passwords import MAX_PASSWORD_CHARACTERS, Passwords

__all__ = [
    "DEFAULT_EMAIL",
    "FirstAdmin",
    "FirstAdminInvalid",
    "ensure_first_super_admin",
    "generate_password",
    "password_complaint",
]

DEFAULT_EMAIL: Final = "admin@gridfleet.local"
# Read from a terminal and typed by hand: no characters that look alike, none that a shell interprets.
_CLASSES: Final = ("abcdefghijkmnpqrstuvwxyz", "ABCDEFGHJKLMNPQRSTUVWXYZ", "23456789", "-_.+=")
_GENERATED_CHARACTERS: Final = 20
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


class FirstAdminInvalid(WrongSetting):
    """Address or password of the first SuperAdmin break a rule, which the text names."""


class FirstAdmin(msgspec.Struct, frozen=True):
    """The SuperAdmin that was created. `generated_password` is None if the caller chose one; never log it."""

    email: str
    generated_password: str | None

    def __repr__(self) -> str:
        return f"FirstAdmin(email={self.email!r})"


async def ensure_first_super_admin(db: Connection, email: str | None, password: str | None) -> FirstAdmin | None:
    """Create the first SuperAdmin. Returns None if there is a SuperAdmin already, also for an invalid address or password.

    An existing account with that e-mail address is made a SuperAdmin and gets this password.

    Raises:
        FirstAdminInvalid: A login with this address or password would be impossible.
    """
    if await store.lock_first_admin(db):
        return None
    address = normalized(email or DEFAULT_EMAIL)
    if not is_address(address):
        raise FirstAdminInvalid(f"the SuperAdmin's e-mail {address!r} is not an e-mail address")
    if password is not None and (complaint := password_complaint(password)):
        raise FirstAdminInvalid(f"the SuperAdmin's password: {complaint}")
    chosen = password or generate_password()
    passwords = Passwords(threads=1)
    try:
        await store.save_super_admin(db, new_id(), address, "Administrator", await passwords.hash(chosen))
    finally:
        passwords.close()
    return FirstAdmin(address, None if password else chosen)


def password_complaint(password: str) -> str | None:
    """Return a complaint if a user with this password could not log in; None if they could."""
    shortest = LOGIN_PASSWORD_CHARACTERS[0]
    if shortest <= len(password) <= MAX_PASSWORD_CHARACTERS and not _CONTROL.search(password):
        return None
    return f"a password must have {shortest} to {MAX_PASSWORD_CHARACTERS} characters and no control characters"


def generate_password() -> str:
    """Return 20 random characters with at least one lowercase letter, uppercase letter, digit and special character."""
    alphabet = "".join(_CLASSES)
    while True:
        password = "".join(secrets.choice(alphabet) for _ in range(_GENERATED_CHARACTERS))
        if all(set(password) & set(characters) for characters in _CLASSES) and password[0] in string.ascii_letters:
            return password
