"""Secrets of a one-machine install, stored below `home/secrets`.

They are generated at the first start and readable only by their owner.
"""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from gridfleet.kernel.security.keyring import Keyring

__all__ = ["ensure_local_secrets", "ensure_private_folder", "local_secret", "write_private"]


def ensure_local_secrets(home: Path) -> None:
    """Generate missing secrets: the internal listener's secret path, the keyring, the broker account's password."""
    folder = ensure_private_folder(home / "secrets")
    _ensure(folder / "internal_secret", lambda: secrets.token_urlsafe(32))
    _ensure(folder / "keys", Keyring.generate)
    _ensure(folder / "broker_password", lambda: secrets.token_urlsafe(32))


def local_secret(home: Path, name: str) -> str:
    """Return a secret that `ensure_local_secrets` has generated.

    Raises:
        FileNotFoundError: There was no first start yet.
    """
    return (home / "secrets" / name).read_text().strip()


def ensure_private_folder(folder: Path) -> Path:
    """Create the folder and its parents if missing, and make it accessible only to its owner. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace `path` atomically. It is never readable by others, and never incomplete even if the machine stops."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _ensure(path: Path, make: Callable[[], str]) -> None:
    if not path.exists() or not path.read_text().strip():
        write_private(path, make() + "\n")
