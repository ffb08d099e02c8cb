"""The home folder, held by one command at a time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["HomeInUse", "held"]


class HomeInUse(RuntimeError):
    """Another command works in the home folder; the text says which process."""


@contextlib.contextmanager
def held(home: Path) -> Iterator[None]:
    """Holds the home for us alone, made when missing; the system lets go of it when we die, however we die.

    Raises HomeInUse.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HomeInUse(f"`gridfleet up` already runs in {home} ({_holder(file)})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return f"process {file.read().strip() or 'unknown'}"
