"""Parameters of commands against the action that declares them."""

import math
from typing import Any

import msgspec
import pytest

from gridfleet.domains.device_templates.models import Action
from gridfleet.domains.device_templates.parameters import parameter_complaints

ACTION = msgspec.convert(
    {
        "action": "run",
        "params": [
            {"name": "power_kw", "type": "number", "unit": "kW", "min": -10, "max": 10.5},
            {"name": "steps", "type": "integer", "min": 1, "max": 9, "required": False},
            {"name": "soft", "type": "boolean", "required": False},
            {"name": "note", "type": "string", "maxLength": 5, "required": False},
            {"name": "mode", "type": "enum", "enum": ["eco", "full"], "required": False},
            {"name": "energy_wh", "type": "number", "unit": "Wh", "max": 1_234_568, "required": False},
        ],
    },
    Action,
)


def complaints(**params: Any) -> list[str]:
    return list(parameter_complaints(ACTION, {"power_kw": 1, **params}))


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"power_kw": -10},
        {"power_kw": 10.5},
        {"power_kw": 0.0},
        {"steps": 1},
        {"steps": 9},
        {"soft": False},
        {"note": ""},
        {"note": "äöü§∞"},
        {"mode": "eco"},
    ],
)
def test_what_fits_is_taken(params: dict[str, Any]) -> None:
    assert complaints(**params) == []


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"power_kw": "5"}, "params.power_kw: must be a number"),
        ({"power_kw": True}, "params.power_kw: must be a number"),
        ({"power_kw": None}, "params.power_kw: must be a number"),
        ({"power_kw": math.nan}, "params.power_kw: must be a number"),
        ({"power_kw": math.inf}, "params.power_kw: must be a number"),
        ({"power_kw": -10.1}, "params.power_kw: must be at least -10 kW"),
        ({"power_kw": 11}, "params.power_kw: must be at most 10.5 kW"),
        ({"energy_wh": 1_234_569}, "params.energy_wh: must be at most 1234568 Wh"),
        ({"power_kw": 10**400}, "params.power_kw: must be between -9007199254740991 and 9007199254740991"),
        ({"steps": 1.0}, "params.steps: must be a whole number"),
        ({"steps": False}, "params.steps: must be a whole number"),
        ({"steps": 0}, "params.steps: must be at least 1"),
        ({"soft": 1}, "params.soft: must be true or false"),
        ({"note": 5}, "params.note: must be a string"),
        ({"note": "six___"}, "params.note: must have at most 5 characters"),
        ({"mode": "ECO"}, "params.mode: must be one of eco, full"),
        ({"mode": ["eco"]}, "params.mode: must be one of eco, full"),
        ({"speed": 1}, "params.speed: is no parameter of run"),
    ],
)
def test_what_does_not_is_named(params: dict[str, Any], complaint: str) -> None:
    assert complaints(**params) == [complaint]


def test_every_complaint_is_listed() -> None:
    found = list(parameter_complaints(ACTION, {"steps": "x", "soft": "y", "z" * 100: 1}))

    assert found == [
        "params.steps: must be a whole number",
        "params.soft: must be true or false",
        f"params.{'z' * 64}: is no parameter of run",
        "params.power_kw: is required",
    ]
