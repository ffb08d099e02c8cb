"""The details of an event about a changed record: what was changed, from what to what."""

from collections.abc import Iterable
from typing import Any

import msgspec
from pydantic.alias_generators import to_camel

__all__ = ["differences"]


def differences(before: msgspec.Struct, after: msgspec.Struct, members: Iterable[str]) -> dict[str, Any]:
    """Return the members that differ, by their names in the API: `[before, after]`, or "changed" for objects and lists.

    Objects and lists are left out because they may be large, and may hold what users keep secret.
    """
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in members}
    return {
        to_camel(name): "changed" if isinstance(pair[1], dict | list) else msgspec.to_builtins(list(pair))
        for name, pair in pairs.items()
        if pair[0] != pair[1]
    }
