"""Limit on the nesting of JSON, checked without recursion.

JSON parsers and encoders recurse. The depth at which Python's recursion limit stops them depends on the stack of their caller.
If one step can read a message and a later step cannot write it, every attempt to process the message fails. Therefore the depth
of a message is measured before it is parsed.
"""

import re
from array import array
from itertools import accumulate
from typing import Final

__all__ = ["MAX_DEPTH", "cut_below", "is_too_deep"]

MAX_DEPTH: Final = 32
"""Levels of arrays and objects in a message, including the outermost."""

# Possessive quantifiers and an optional closing quote keep the scan linear for strings that are never closed.
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"?'
_TOKEN: Final = re.compile(_STRING + rb"|[\[{]|[\]}]", re.DOTALL)
_STRINGS: Final = re.compile(_STRING, re.DOTALL)
_BRACKETS: Final = b"[{]}"
_STEPS: Final = bytes.maketrans(_BRACKETS, array("b", [1, 1, -1, -1]).tobytes())
_NO_BRACKETS: Final = bytes(set(range(256)).difference(_BRACKETS))


def is_too_deep(body: bytes) -> bool:
    """Return whether arrays and objects in a JSON text are nested deeper than `MAX_DEPTH` levels."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return False
    # No loop of Python's own: a text of nothing but brackets would take ten times as long.
    steps = array("b", _STRINGS.sub(b"", body).translate(_STEPS, _NO_BRACKETS))
    return max(accumulate(steps), default=0) > MAX_DEPTH


def cut_below(body: bytes) -> bytes:
    """Return a JSON text with null in place of each array and object nested deeper than `MAX_DEPTH` levels."""
    if not is_too_deep(body):
        return body
    kept: list[bytes] = []
    level = start = 0
    for match in _TOKEN.finditer(body):
        step = _step(match[0])
        level += step
        if step > 0 and level == MAX_DEPTH + 1:
            kept += (body[start : match.start()], b"null")
            start = len(body)
        elif step < 0 and level == MAX_DEPTH:
            start = match.end()
    return b"".join((*kept, body[start:]))


def _step(token: bytes) -> int:
    return {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token, 0)
