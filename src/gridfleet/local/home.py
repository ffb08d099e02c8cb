"""A lock that lets only one command at a time use the home folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["HomeInUse", "held"]


class HomeInUse(RuntimeError):
    """Another command uses the home folder; the text names its process."""


@contextlib.contextmanager
def held(home: Path) -> Iterator[None]:
    """Lock the home folder for this process; create it if it is missing.

    The operating system releases the lock when the process ends, also when it is killed.

    Raises:
        HomeInUse: Another process holds the lock.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HomeInUse(f"a `gridfleet` command already runs in {home} ({_holder(file)})") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return f"process {file.read().strip() or 'unknown'}"
