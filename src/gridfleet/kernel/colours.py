"""Decide whether output is coloured."""

import os
from typing import TextIO

__all__ = ["are_unwanted", "is_coloured"]


def are_unwanted() -> bool:
    """Return whether NO_COLOR is set (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def is_coloured(stream: TextIO) -> bool:
    """Return whether to colour the output to a stream: True for a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not are_unwanted()
