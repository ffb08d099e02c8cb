"""The compiled decoder against the rule it stands for: raw × scale + offset, bits of words, nothing invented."""

import math
from decimal import Decimal

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridfleet.domains.device_templates.decoder import SignalMap
from gridfleet.domains.device_templates.models import Signal
from gridfleet.domains.device_templates.system_templates import SYSTEM_TEMPLATES


def signal_map(*signals: dict[str, object]) -> SignalMap:
    return SignalMap(msgspec.convert(list(signals), list[Signal]))


numbers = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.just(10**400)
)
factors = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda value: value != 0)


def expected(raw: int | float | bool | None, scale: float, offset: float) -> object:
    try:
        value = None if raw is None else float(raw) * scale + offset
    except OverflowError:
        return None
    if value is None or not math.isfinite(value):
        return None
    if (scale, offset) == (1, 0):
        return value
    return pytest.approx(value, rel=0, abs=4 * math.ulp(max(abs(float(raw or 0) * scale), abs(offset))))


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), numbers), factors, st.floats(-1e3, 1e3))
def test_numeric_signals_are_scaled_one_by_one(fields: dict[str, float | None], scale: float, offset: float) -> None:
    decoder = signal_map(
        {"key": "first", "field": "a", "scale": scale, "offset": offset},
        {"key": "second", "field": "b"},
        {"key": "third", "field": "c"},
    )

    values = decoder.decode(fields)

    if not {"a", "b", "c"} & fields.keys():
        assert values is None
    else:
        assert values == [
            expected(fields.get("a"), scale, offset),
            expected(fields.get("b"), 1, 0),
            expected(fields.get("c"), 1, 0),
        ]
    assert decoder.undeclared(fields) == ("d" in fields)


decimals = st.builds(lambda digits, places: Decimal(digits).scaleb(-places), st.integers(-9_999, 9_999), st.integers(0, 6))


@given(st.integers(-(2**16), 2**16), decimals.filter(bool), decimals)
@example(413, Decimal("0.1"), Decimal(0))
@example(403, Decimal("0.1"), Decimal(-40))
def test_a_value_has_the_digits_of_the_decimals(raw: int, scale: Decimal, offset: Decimal) -> None:
    decoder = signal_map({"key": "k", "field": "f", "scale": float(scale), "offset": float(offset)})
    value = float(raw * scale + offset)
    assert decoder.decode({"f": raw}) == decoder.decode({"f": float(raw)}) == [value]
    two = signal_map({"key": "k", "field": "f", "scale": float(scale), "offset": float(offset)}, {"key": "x", "field": "x"})
    assert two.decode({"f": raw}) == [value, None]


def test_a_value_near_the_largest_double_is_kept() -> None:
    decoder = signal_map({"key": "k", "field": "f", "scale": 0.9})
    assert decoder.decode({"f": 1.7e308}) == [pytest.approx(1.53e308, rel=1e-12)]
    assert decoder.decode({"f": 10**308}) == [pytest.approx(9e307, rel=1e-12)]


@given(st.permutations([10**400, -(10**400), 1.5]))
def test_integers_beyond_a_double_are_missing_even_when_their_sum_is_small(values: list[float]) -> None:
    decoder = signal_map(*({"key": f"k{n}", "field": f"f{n}"} for n in range(3)))

    decoded = decoder.decode({f"f{n}": value for n, value in enumerate(values)})

    assert decoded == [expected(value, 1, 0) for value in values]


@given(st.integers(0, 2**64 - 1), st.integers(0, 63), st.booleans())
def test_a_bit_is_read_from_its_word(word: int, bit: int, invert: bool) -> None:
    decoder = signal_map({"key": "flag", "bit": bit, "word": "w", "invert": invert})

    assert decoder.decode({"w": word}) == [float((word >> bit & 1) != invert)]


@given(
    st.one_of(
        st.floats(max_value=-1e-9),
        st.integers(max_value=-1),
        st.integers(min_value=2**64),
        st.just(0.5),
        st.booleans(),
        st.none(),
    )
)
def test_what_is_no_word_yields_no_bits(word: float | None) -> None:
    assert signal_map({"key": "flag", "bit": 0}).decode({"status": word}) == [None]


def test_a_whole_float_is_a_word() -> None:
    assert signal_map({"key": "flag", "bit": 2}).decode({"status": 5.0}) == [1.0]


def test_metrics_name_the_values_in_their_order() -> None:
    decoder = signal_map(
        {"key": "fault", "bit": 1}, {"key": "energy", "field": "e", "unit": "kWh", "kind": "counter", "min": 0, "max": 9}
    )

    assert [(m.key, m.unit, m.counter, m.minimum, m.maximum) for m in decoder.metrics] == [
        ("energy", "kWh", True, 0, 9),
        ("fault", "", False, None, None),
    ]
    assert decoder.decode({"status": 2, "e": 4}) == [4, 1.0]


def test_every_system_template_decodes_its_own_fields() -> None:
    for template in SYSTEM_TEMPLATES:
        signals = msgspec.convert(template.signals, list[Signal])
        values = SignalMap(signals).decode({str(s.field): 1.5 for s in signals if isinstance(s.field, str)} | {"status": 0})
        assert values is not None
        assert None not in values
