"""Nesting is measured without recursion, whatever a text contains."""

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.protocol.json_depth import MAX_DEPTH, cut_below, is_too_deep

VALUES = st.recursive(
    st.none() | st.booleans() | st.text() | st.sampled_from(['"', "\\", '["', '\\"[', "]}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def nested(levels: int, value: Any) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@given(VALUES, st.integers(0, 2 * MAX_DEPTH))
def test_depth_is_that_of_the_value(value: Any, levels: int) -> None:
    deep = nested(levels, value)
    body = json.dumps(deep).encode()
    assert is_too_deep(body) == (depth(deep) > MAX_DEPTH)
    cut = json.loads(cut_below(body))
    assert depth(cut) == min(depth(deep), MAX_DEPTH)
    assert depth(deep) > MAX_DEPTH or cut == deep


def test_members_beside_deep_ones_stay() -> None:
    body = b'{"a":1,"deep":' + b"[" * 30_000 + b"]" * 30_000 + b',"b":{"c":[2]}}'
    cut = json.loads(cut_below(body))
    assert (cut["a"], cut["b"], depth(cut)) == (1, {"c": [2]}, MAX_DEPTH)


@pytest.mark.parametrize("unit", [b'"', b'\\"', b'"[', b'["', b"\\", b'"\\', b"[", b"]", b"{}", b'["]"'])
def test_every_text_is_measured_in_linear_time(unit: bytes) -> None:
    body = b"[" + unit * (256 * 1024 // len(unit))
    begun = time.process_time()
    is_too_deep(body)
    cut_below(body)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("unit", [b"[],", b'["",{}],'])
def test_measuring_takes_little_more_than_decoding(unit: bytes) -> None:
    """Everything else in the process waits meanwhile."""
    body = b"[" + unit * (64 * 1024 // len(unit)) + b"0]"

    def seconds(work: Callable[[bytes], object]) -> float:
        found = []
        for _ in range(5):
            begun = time.process_time()
            work(body)
            found.append(time.process_time() - begun)
        return min(found)

    assert seconds(is_too_deep) < 8 * seconds(msgspec.json.decode)
