"""Decode message properties that another client has encoded in a way that pamqp cannot read.

The broker forwards properties and headers unchanged. pamqp (4.0.1) raises for some of them: text that is not UTF-8, times
beyond the year 9999, unsupported types, deeply nested tables, flags that the broker ignores. aiormq then closes the connection,
the broker delivers the message again on the next one, and no message behind it is consumed any more.
"""

from typing import Any, Final

from pamqp import decode, header

__all__ = ["UNDECODABLE", "tolerate_undecodable_properties"]

UNDECODABLE: Final = "x-undecodable"
"""The only header of a message whose headers cannot be decoded; its value is the reason."""

_TIMESTAMP_BYTES: Final = 8
_FLAG_BYTES: Final = 2
_MOST_TABLE_BYTES: Final = 16_384
"""pamqp copies the rest of a table for each of its values: 100 kB of small values take seconds."""


def tolerate_undecodable_properties() -> None:
    """Make pamqp read undecodable values as empty or replaced, for every connection of this process."""
    decode.METHODS["shortstr"] = _short_text
    decode.METHODS["timestamp"] = _timestamp
    decode.METHODS["table"] = _table
    header.ContentHeader._get_flags = staticmethod(_flags)  # type: ignore[method-assign, assignment]


def _short_text(value: bytes) -> tuple[int, str]:
    end = value[0] + 1
    try:
        return end, value[1:end].decode()
    except UnicodeDecodeError:
        # Never longer than the original, because the text may have to be published again.
        return end, value[1:end].decode("utf-8", "replace").replace("\ufffd", "?")


def _timestamp(value: bytes) -> tuple[int, Any]:
    try:
        return decode.timestamp(value)
    except Exception:
        return _TIMESTAMP_BYTES, None


def _table(value: bytes) -> tuple[int, dict[str, Any]]:
    size = int.from_bytes(value[:4], "big")
    if size > _MOST_TABLE_BYTES:
        return 4 + size, {UNDECODABLE: f"more than {_MOST_TABLE_BYTES} bytes"}
    try:
        return decode.field_table(value)
    except Exception as error:
        return 4 + size, {UNDECODABLE: type(error).__name__}


def _flags(value: bytes) -> tuple[int, int]:
    """Return the length of the flags, and the flags.

    Only one word is read, because the broker ignores the bit that announces a second.
    """
    return _FLAG_BYTES, int.from_bytes(value[:_FLAG_BYTES], "big")
