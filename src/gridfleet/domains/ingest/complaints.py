"""Error texts that name the invalid member of a message."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

__all__ = ["listed", "with_field_named"]

_UNNAMED: Final = "[...]`"
"""The end of a msgspec error that leaves out the key of a mapping."""
_STEP: Final = re.compile(r"\[(\d+)\]|\.(\w+)")
_OTHERWISE_WRONG: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError)
"""Errors of a second parse: msgspec stopped at the first error, so the rest may be invalid JSON or repeat a member."""


def with_field_named(complaint: str, raw: bytes | msgspec.Raw) -> str:
    """Add the name of the first invalid field to an error about a value of `fields`, because a device has hundreds."""
    if not complaint.endswith(_UNNAMED):
        return complaint
    # Not by a regular expression: the error may quote a text as long as the message, with thousands of places to begin at.
    before, _, end = complaint.rpartition("`$")
    path = end.removesuffix(_UNNAMED)
    try:
        value: Any = msgspec.json.decode(raw)
        for index, member in _STEP.findall(path):
            value = value[int(index)] if index else value[member]
        name = next(name for name, value in value.items() if not isinstance(value, int | float | None))
    except (*_OTHERWISE_WRONG, StopIteration):
        return complaint
    return f"{before}`${path}.{name}`"


def listed(names: Sequence[str]) -> str:
    """Return the names joined with commas. Names that do not fit in the detail of a refusal are only counted."""
    text, shown = names[0], 1
    while shown < len(names) and len(text) + len(names[shown]) + 2 <= _MOST_LISTED:
        text, shown = f"{text}, {names[shown]}", shown + 1
    return text if shown == len(names) else f"{text} and {len(names) - shown:,} more"


_MOST_LISTED: Final = 380
