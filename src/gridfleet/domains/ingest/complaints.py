"""What is wrong with a message, in words that name the member."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

__all__ = ["listed", "with_field_named"]

_UNNAMED: Final = re.compile(r"`\$(\S*)\[\.\.\.\]`$")
"""Where msgspec leaves the key of a mapping out."""
_STEP: Final = re.compile(r"\[(\d+)\]|\.(\w+)")
_OTHERWISE_WRONG: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, AttributeError)
"""Reading stopped at the complaint: what follows may be no JSON, or have the same member twice."""


def with_field_named(complaint: str, raw: bytes | msgspec.Raw) -> str:
    """A complaint about a value of `fields`, with the name of the first field whose value is none: a device has hundreds."""
    found = _UNNAMED.search(complaint)
    if found is None:
        return complaint
    try:
        value: Any = msgspec.json.decode(raw)
        for index, member in _STEP.findall(found[1]):
            value = value[int(index)] if index else value[member]
        name = next(name for name, value in value.items() if not isinstance(value, int | float | None))
    except (*_OTHERWISE_WRONG, StopIteration):
        return complaint
    return complaint[: found.start()] + f"`${found[1]}.{name}`"


def listed(names: Sequence[str]) -> str:
    """Return the names in a line, as many as the detail of a refusal has room for, and how many more there are."""
    text, shown = names[0], 1
    while shown < len(names) and len(text) + len(names[shown]) + 2 <= _MOST_LISTED:
        text, shown = f"{text}, {names[shown]}", shown + 1
    return text if shown == len(names) else f"{text} and {len(names) - shown:,} more"


_MOST_LISTED: Final = 380
