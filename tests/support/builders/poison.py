"""Messages that are valid or almost valid JSON, with values that can break decoders, arithmetic or databases."""

import json
from typing import Any, Final

from hypothesis import strategies as st

_HUGE: Final = "9" * 400
_NUMBERS: Final = (
    _HUGE, f"-{_HUGE}", f"0.{_HUGE}", f"{_HUGE}.5", "1" + "0" * 308, "1" + "0" * 309, "5e-324", "-5e-324",
    "2.2250738585072011e-308", "1e308", "-1e308", "1.7976931348623157e308",
    "-1.7976931348623157e308", "1e309", "1e-400", "-0.0", "-0", "0e0",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "4294967296",
)  # fmt: skip
_TEXTS: Final = ("\\ud800", "\\udfff\\ud800", "\\u0000", "\\ufffe", "\\u202e", "%", "' OR 1=1 --", "é" * 300, "x" * 70_000)

numbers = st.sampled_from(_NUMBERS) | st.integers(-(10**400), 10**400).map(str) | st.floats(allow_nan=False).map(repr)
controls = st.builds(
    lambda code, escaped: f'"a{chr(92)}u{code:04x}b"' if escaped else f'"a{chr(code)}b"',
    st.sampled_from([*range(0x20), *range(0x7F, 0xA0)]),
    st.booleans(),
)
nested = st.builds(
    lambda depth, ends, inner: ends[0] * depth + inner + ends[1] * depth,
    st.integers(1, 2_000),
    st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")]),
    st.sampled_from(["1", "null", '"\\u0000"', _HUGE]),
)
texts = st.sampled_from(_TEXTS).map(lambda text: f'"{text}"')
poison = numbers | controls | nested | texts | st.sampled_from(["null", "true", "[]", "{}"])
"""Strategy for the text of one JSON value."""

cancelling = st.sampled_from([(_HUGE, f"-{_HUGE}"), ("1e308", "-1e308"), ("1.7976931348623157e308", "1.7976931348623157e308")])


@st.composite
def poisoned(draw: st.DrawFn, sample: dict[str, Any]) -> bytes:
    """Return a sample with one to three of its values, at any depth, replaced or added."""
    content = json.loads(json.dumps(sample))
    replaced: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        holder, place = draw(st.sampled_from([*_places(content), (content, "more")]))
        if isinstance(holder, dict) and "fields" in holder and draw(st.booleans()):
            pair = draw(cancelling)
            holder["fields"] = {"a": _mark(replaced, pair[0]), "b": _mark(replaced, pair[1])}
        else:
            holder[place] = _mark(replaced, draw(poison))
    text = json.dumps(content)
    for number, value in enumerate(replaced):
        text = text.replace(f'"@poison{number}@"', value)
    return text.encode("utf-8", "surrogatepass")


def _mark(replaced: list[str], value: str) -> str:
    replaced.append(value)
    return f"@poison{len(replaced) - 1}@"


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key or index) in the content."""
    items = list(content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ())
    return [(content, place) for place, _ in items] + [found for _, value in items for found in _places(value)]
