"""The secrets of a one-machine install, made on first start and kept below `home/secrets`, readable by the owner alone."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from gridfleet.kernel.security.keyring import Keyring

__all__ = ["ensure_local_secrets", "ensure_private_folder", "local_secret", "write_private"]


def ensure_local_secrets(home: Path) -> None:
    """Makes what is missing: the internal listener's secret path, the keyring, the broker account's password."""
    folder = ensure_private_folder(home / "secrets")
    _ensure(folder / "internal_secret", lambda: secrets.token_urlsafe(32))
    _ensure(folder / "keys", Keyring.generate)
    _ensure(folder / "broker_password", lambda: secrets.token_urlsafe(32))


def local_secret(home: Path, name: str) -> str:
    """A secret made by `ensure_local_secrets`. Raises FileNotFoundError before the first start."""
    return (home / "secrets" / name).read_text().strip()


def ensure_private_folder(folder: Path) -> Path:
    """The folder, made with its parents when missing, entered by its owner alone."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Replaces `path` whole, never readable by others, never half written even if the machine stops."""
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
