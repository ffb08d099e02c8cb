"""The import paths of the last release still work, with a warning."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        (
            "gridfleet.device",
            "gridfleet.sdk.plant",
            {"Device": "PlantClient", "DeviceError": "PlantClientError", "Package": "Package"},
        ),
        (
            "gridfleet.partner",
            "gridfleet.sdk.partner",
            {"Order": "CommandKind", "OrderRefused": "CommandRefused", "EventKind": "EventKind"},
        ),
    ],
)
def test_an_old_path_leads_to_the_new_names(old: str, new: str, names: dict[str, str]) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=new):
        former = importlib.import_module(old)
    for name, now in names.items():
        assert getattr(former, name) is getattr(importlib.import_module(new), now)
