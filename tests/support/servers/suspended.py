"""Processes that hang."""

import contextlib
from collections.abc import Iterator

import psutil

__all__ = ["suspended"]


@contextlib.contextmanager
def suspended(parent: psutil.Process) -> Iterator[None]:
    """Suspend a process and its children until the block ends."""
    processes = [parent, *parent.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
