"""UUIDv7 identifiers (RFC 9562). They are ordered by time, so primary keys are appended at one end of their index."""

import os
import re
import time
from datetime import datetime
from typing import Final
from uuid import UUID

__all__ = ["CONTROL", "first_id_at", "look_up_text", "new_id", "parse_uuid"]

_CANONICAL: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def new_id() -> UUID:
    """Return a UUIDv7: 48 bits of Unix milliseconds, 12 bits of their fraction, 62 random bits (RFC 9562, 6.2, method 3).

    Ids that a process creates one after the other ascend, also those of one millisecond, unless the clock is set back.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    value = milliseconds << 80
    value |= 0x7 << 76
    value |= (nanoseconds << 12) // 1_000_000 << 64
    value |= 0b10 << 62
    value |= int.from_bytes(os.urandom(8), "big") >> 2
    return UUID(int=value)


def first_id_at(moment: datetime) -> UUID:
    """Return a lower bound: ids created before `moment` are smaller, later ones are not."""
    return UUID(int=int(moment.timestamp() * 1_000) << 80)


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID if the text has the canonical form of 36 characters, else None."""
    return UUID(text) if _CANONICAL.fullmatch(text) else None


def look_up_text(text: str) -> str:
    """Replace characters that PostgreSQL cannot store by U+FFFD, so that a look-up with the text finds nothing."""
    return CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
