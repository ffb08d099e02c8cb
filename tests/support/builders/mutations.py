"""Mutations of valid messages as from a hostile or faulty sender, in their structure and in their bytes."""

import copy
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

STRANGE: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 0.1, -0.0, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30, 1e308, -1e308, 5e-324,
    "", " ", "0", "null", "\x00", "\ud800", "\u202e", "é" * 40, "x" * 5_000, "../../etc/passwd", "%00", "'; --", "{{7*7}}",
    "2026-02-30T25:61:61Z", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+23:59", "2026-11-20T10:00:00", "NaN", "1e999",
    [], {}, [[]], [None] * 200, {"": ""}, {"a": {"b": [{}]}}, {"__proto__": {}}, list(range(50)),
)  # fmt: skip
_RAW: Final = (
    b"", b"\x00", b"\xff\xfe", b"[" * 3_000, b'{"a":' * 1_500, b"9" * 6_000, b"1e999", b"-", b"NaN", b"Infinity", b'"\\ud800"',
    b"\xef\xbb\xbf{}", b"{}{}", b"\x1f\x8b\x08\x00", b"null", b"[]", b"{}", b'"', b"\\u0000",
)  # fmt: skip


def mutate_text(text: str, seed: int) -> str:
    """Return the text with one to four changes."""
    chance = random.Random(seed)
    characters = list(text)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(characters))
        strange = chance.choice(
            ["\x00", ".", "/", "#", "+", "*", "=", ",", "-", " ", "é", "\ud800", "\n", "A", "0", "..", "%2e"]
        )
        match chance.randrange(4):
            case 0:
                characters[at:at] = [strange]
            case 1:
                del characters[at : at + chance.randint(1, 3)]
            case 2:
                characters[at : at + 1] = [strange]
            case _:
                characters[at:at] = characters[: chance.randint(0, 40)] * chance.randint(1, 3)
    return "".join(characters)


def mutate_bytes(message: bytes, seed: int) -> bytes:
    """Return the bytes with one to four changes: flipped, cut, doubled, replaced."""
    chance = random.Random(seed)
    found = bytearray(message)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(found))
        match chance.randrange(5):
            case 0 if found:
                found[at % len(found)] ^= 1 << chance.randrange(8)
            case 1:
                del found[at : at + chance.randint(1, max(1, len(found) // 4))]
            case 2:
                found[at:at] = found[at // 2 : at]
            case 3:
                found[at : at + chance.randint(0, 8)] = chance.choice(_RAW)
            case _:
                found[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 6)))
    return bytes(found)


def mutate_json(content: Any, seed: int) -> bytes:
    """Return JSON with one to three members changed, removed, added or renamed. One time in four, its bytes are changed too."""
    chance = random.Random(seed)
    found = copy.deepcopy(content)
    for _ in range(chance.randint(1, 3)):
        found = _changed(found, chance)
    encoded = json.dumps(found).encode()
    return mutate_bytes(encoded, seed) if chance.randrange(4) == 0 else encoded


def _changed(content: Any, chance: random.Random) -> Any:
    places: list[Callable[[Any], None]] = []
    _collect(content, places, chance)
    if not places or chance.randrange(20) == 0:
        return copy.deepcopy(chance.choice(STRANGE))
    chance.choice(places)(copy.deepcopy(chance.choice(STRANGE)))
    return content


def _collect(value: Any, places: list[Callable[[Any], None]], chance: random.Random) -> None:
    """Append every possible change below a value to `places`, as a function of an unusual value."""
    if isinstance(value, dict):
        for key in list(value):
            places += [
                partial(value.__setitem__, key),
                partial(_remove, value, key),
                partial(_rename, value, key, key + chance.choice(["", "x", "\x00"])),
            ]
            _collect(value[key], places, chance)
        places.append(partial(value.__setitem__, "unknown"))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            places.append(partial(value.__setitem__, index))
            _collect(inner, places, chance)
        places += [value.append, partial(_double, value)]


def _remove(record: dict[str, Any], key: str, _: Any) -> None:
    record.pop(key, None)


def _rename(record: dict[str, Any], key: str, name: str, _: Any) -> None:
    record[name] = record.pop(key, None)


def _double(items: list[Any], _: Any) -> None:
    items.extend(copy.deepcopy(items))
