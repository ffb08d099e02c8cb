"""Every broken rule of signals and actions is named with its place; valid ones pass."""

from typing import Any

import msgspec
import pytest

from gridfleet.domains.device_templates.models import Action, Signal, SignalRole
from gridfleet.domains.device_templates.rules import action_complaints, signal_complaints
from gridfleet.domains.device_templates.system_templates import SYSTEM_TEMPLATES


@pytest.mark.parametrize(
    ("signals", "complaint"),
    [
        ([{"key": "a"}], "signals.0: must have exactly one of field (numeric) and bit (binary)"),
        ([{"key": "a", "field": "f", "bit": 1}], "signals.0: must have exactly one of field (numeric) and bit (binary)"),
        ([{"key": "a", "bit": 1}, {"key": "a", "bit": 2}], "signals.1.key: must be unique, 'a' is also signal 0"),
        ([{"key": "a", "bit": 1, "unit": "V"}], "signals.0.unit: only for a numeric signal"),
        ([{"key": "a", "field": "f", "word": "w"}], "signals.0.word: only for a binary signal"),
        ([{"key": "a", "field": "f", "scale": 0}], "signals.0.scale: must not be 0"),
        ([{"key": "a", "field": "f", "min": 2, "max": 1}], "signals.0.min: must not exceed max"),
        ([{"key": "a", "bit": 1, "role": "soc"}], "signals.0.role: only for a numeric signal"),
        (
            [{"key": "a", "field": "f", "unit": "%", "role": "pv_power"}],
            "signals.0.role: pv_power needs the unit W or kW or MW",
        ),
        ([{"key": "a", "field": "f", "unit": "kW", "role": "soc"}], "signals.0.role: soc needs the unit %"),
        (
            [{"key": "a", "field": "f", "unit": "kW", "role": "energy_charged"}],
            "signals.0.role: energy_charged needs the unit Wh or kWh or MWh",
        ),
        (
            [{"key": "a", "field": "f", "kind": "gauge", "role": "energy_imported"}],
            "signals.0.role: energy_imported needs the kind counter",
        ),
        (
            [{"key": "a", "field": "f", "kind": "counter", "role": "grid_power"}],
            "signals.0.role: grid_power needs the kind gauge",
        ),
        ([{"key": "a", "field": "f", "symbols": {"x": "Off"}}], "signals.0.symbols.x: must be named by a whole number"),
    ],
)
def test_a_broken_signal_is_named(signals: list[dict[str, Any]], complaint: str) -> None:
    assert list(signal_complaints(msgspec.convert(signals, list[Signal]))) == [complaint]


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ([{"name": "p", "type": "string", "min": 1}], "min: only for type number or integer"),
        ([{"name": "p", "type": "number", "min": 2, "max": 1}], "min: must not exceed max"),
        ([{"name": "p", "type": "number", "maxLength": 3}], "maxLength: only for type string"),
        ([{"name": "p", "type": "enum"}], "enum: is required for type enum, and not allowed for others"),
        ([{"name": "p", "type": "enum", "enum": ["a", "a"]}], "enum: values must be unique"),
    ],
)
def test_a_broken_parameter_is_named(params: list[dict[str, Any]], complaint: str) -> None:
    actions = msgspec.convert([{"action": "go", "params": params}], list[Action])

    assert list(action_complaints(actions)) == [f"actions.0.params.0.{complaint}"]


@pytest.mark.parametrize("role", list(SignalRole))
def test_a_role_needs_neither_unit_nor_kind(role: SignalRole) -> None:
    signals = msgspec.convert(
        [{"key": "a", "field": "f", "role": role}, {"key": "b", "field": "g", "role": role}], list[Signal]
    )

    assert list(signal_complaints(signals)) == []


def test_the_system_templates_have_every_role() -> None:
    roles = [signal["role"] for template in SYSTEM_TEMPLATES for signal in template.signals if "role" in signal]

    assert set(roles) == set(SignalRole)


def test_the_system_templates_are_valid_and_read_back_as_written() -> None:
    for template in SYSTEM_TEMPLATES:
        signals = msgspec.convert(template.signals, list[Signal])
        actions = msgspec.convert(template.actions, list[Action])
        assert [*signal_complaints(signals), *action_complaints(actions)] == []
        assert msgspec.to_builtins(signals) == template.signals
