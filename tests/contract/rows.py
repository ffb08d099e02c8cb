"""The machine-readable contract, and the endpoints built so far, side by side."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gridfleet.api._http.endpoint import ENDPOINTS, Endpoint
from gridfleet.api._http.registry import import_handlers

Row = tuple[str, str]

ROOT: Final = Path(__file__).parents[2]
CONTRACT: Final = ROOT.parent / "shared" / "contract" / "endpoints.yaml"


def load_contract() -> dict[str, Any]:
    """The contract; skips the module where it is not beside the repository."""
    if not CONTRACT.exists():
        pytest.skip("the contract is not beside this checkout", allow_module_level=True)
    loaded: dict[str, Any] = yaml.safe_load(CONTRACT.read_text())
    return loaded


def rows(contract: dict[str, Any]) -> dict[Row, dict[str, Any]]:
    """Contract rows by method and path."""
    return {(row["method"], row["path"]): row for row in contract["endpoints"]}


def built() -> dict[Row, Endpoint]:
    """Every endpoint of the code, additions too."""
    import_handlers()
    return dict(ENDPOINTS)


ABSENT_IS_FORBIDDEN: Final = frozenset(row for row in built() if row[1].startswith("/api/v1/vcp/sites/{siteId}"))
"""Rows that answer FORBIDDEN for a record that is not there, as for one that the caller may not see."""
