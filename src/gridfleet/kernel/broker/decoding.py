"""Decode message properties that another client has encoded strangely.

The broker passes properties and headers on as they came. pamqp (4.0.0) raises for some of them: text that is not UTF-8, times
beyond the year 9999, types that it does not have, tables nested a thousand times. aiormq then closes the connection, the broker
delivers the message again to the next one, and nothing behind it is consumed any more.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pamqp import decode

__all__ = ["tolerate_strange_properties"]

Decoded = tuple[int, Any]

_TIMESTAMP_BYTES: Final = 8


def tolerate_strange_properties() -> None:
    """Make pamqp decode what it cannot read as empty, for every connection of this process."""
    decode.METHODS["shortstr"] = _short_text
    decode.METHODS["timestamp"] = partial(_or_empty, decode.timestamp, lambda _: _TIMESTAMP_BYTES, None)
    decode.METHODS["table"] = partial(_or_empty, decode.field_table, _table_bytes, {})


def _short_text(value: bytes) -> tuple[int, str]:
    end = value[0] + 1
    return end, value[1:end].decode("utf-8", "replace")


def _table_bytes(value: bytes) -> int:
    return 4 + int.from_bytes(value[:4], "big")


def _or_empty(read: Callable[[bytes], Decoded], length: Callable[[bytes], int], empty: Any, value: bytes) -> Decoded:
    try:
        return read(value)
    except Exception:
        return length(value), empty
