"""What the simulator writes is what the service's decoder reads."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.device_templates.decoder import SignalMap
from gridfleet.domains.device_templates.models import Signal as TemplateSignal
from gridfleet.domains.device_templates.system_templates import SYSTEM_TEMPLATES, SystemTemplate
from gridfleet.simulator.signals import Signal, SignalWriter

factors = st.sampled_from([None, 1.0, 0.1, 0.001, 10.0, -1.0])


@st.composite
def signal_lists(draw: st.DrawFn) -> list[dict[str, object]]:
    numeric = draw(st.lists(st.tuples(factors, st.none() | st.floats(-100, 100)), max_size=5))
    binary = draw(
        st.lists(
            st.tuples(st.integers(0, 63), st.sampled_from(["status", "alarms"]), st.booleans()),
            max_size=6,
            unique_by=lambda bit: bit[:2],
        )
    )
    signals: list[dict[str, object]] = []
    for index, (scale, offset) in enumerate(numeric):
        signal: dict[str, object] = {"key": f"n{index}", "field": f"raw.{index}"}
        signals.append(signal | ({"scale": scale} if scale else {}) | ({"offset": offset} if offset is not None else {}))
    for index, (bit, word, invert) in enumerate(binary):
        signals.append({"key": f"b{index}", "bit": bit, "word": word, "invert": invert})
    return signals


@given(signal_lists(), st.data())
def test_the_decoder_gives_back_the_expected_values(signals: list[dict[str, object]], data: st.DataObject) -> None:
    values: dict[str, float | bool] = {
        str(signal["key"]): data.draw(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)) if "field" in signal else st.booleans())
        for signal in signals
    }
    decoder = SignalMap(msgspec.convert(signals, list[TemplateSignal]))

    encoded = SignalWriter(msgspec.convert(signals, list[Signal])).encode(values)

    decoded = decoder.decode(encoded.fields)
    if decoded is not None:
        found = {metric.key: value for metric, value in zip(decoder.metrics, decoded, strict=True)}
        assert found == encoded.expected
        for key, value in values.items():
            assert found[key] == pytest.approx(float(value), abs=1e-4)


@pytest.mark.parametrize("template", SYSTEM_TEMPLATES, ids=lambda template: template.name)
def test_values_that_are_not_known_are_left_out(template: SystemTemplate) -> None:
    writer = SignalWriter(msgspec.convert(template.signals, list[Signal]))

    encoded = writer.encode({"unheard_of": 1.0})

    assert set(encoded.fields) == {"status"}
    assert set(encoded.expected.values()) == {0.0}
