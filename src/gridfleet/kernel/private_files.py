"""Files that only their owner can read."""

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ["ensure_private_folder", "write_private"]


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
