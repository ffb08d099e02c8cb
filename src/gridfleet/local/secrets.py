"""Secrets of a one-machine install, stored below `home/secrets`.

They are generated at the first start and readable only by their owner.
"""

import secrets
from collections.abc import Callable
from pathlib import Path

from gridfleet.kernel.private_files import ensure_private_folder, write_private
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["ensure_local_secrets", "local_secret"]


def ensure_local_secrets(home: Path, *, with_keyring: bool = True) -> None:
    """Generate missing secrets: the internal listener's secret path, the keyring, the broker account's password.

    With GRIDFLEET_KEYS there is no keyring here: a command without the variable would use one that decrypts nothing.
    """
    folder = ensure_private_folder(home / "secrets")
    _ensure(folder / "internal_secret", lambda: secrets.token_urlsafe(32))
    if with_keyring:
        _ensure(folder / "keys", Keyring.generate)
    _ensure(folder / "broker_password", lambda: secrets.token_urlsafe(32))


def local_secret(home: Path, name: str) -> str:
    """Return a secret that `ensure_local_secrets` has generated.

    Raises:
        FileNotFoundError: There was no first start yet.
    """
    return (home / "secrets" / name).read_text().strip()


def _ensure(path: Path, make: Callable[[], str]) -> None:
    if not path.exists() or not path.read_text().strip():
        write_private(path, make() + "\n")
