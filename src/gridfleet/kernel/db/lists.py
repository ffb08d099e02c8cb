"""Parameters that are lists, which psycopg dumps value by value in Python."""

import math
import re
from datetime import UTC, datetime
from types import NoneType
from typing import Any, Final
from uuid import UUID

import msgspec
from psycopg.abc import Buffer
from psycopg.types.array import ListDumper

__all__ = ["QuickListDumper"]

_OTHER_ESCAPE: Final = re.compile(rb'\\[^"\\]').search
"""An escape that JSON has and the text of an array has not."""
_INT64: Final = 1 << 63


class QuickListDumper(ListDumper):
    """Dumps lists of ids, times, numbers and texts as JSON arrays, whose elements an array in PostgreSQL writes alike.

    It takes a tenth of the time of the parent class, which dumps all other lists.
    """

    def dump(self, obj: list[Any]) -> Buffer | None:
        """Return the text of the array."""
        kinds = set(map(type, obj)) - {NoneType}
        if len(kinds) == 1 and _is_alike(kinds.pop(), obj):
            text = msgspec.json.encode(obj)
            if not _OTHER_ESCAPE(text):
                return b"{%b}" % text[1:-1]
        return super().dump(obj)


def _is_alike(kind: type, values: list[Any]) -> bool:
    """Return whether JSON can represent the values as PostgreSQL reads them: for example, JSON has no infinity."""
    if kind is float:
        return all(value is None or math.isfinite(value) for value in values)
    if kind is int:
        return all(value is None or -_INT64 <= value < _INT64 for value in values)
    if kind is datetime:  # offsets with seconds, which times of long ago have, are rounded in JSON
        return all(value is None or value.tzinfo is UTC for value in values)
    return kind is UUID or issubclass(kind, str)
