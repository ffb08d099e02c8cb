"""The contract's rows and the endpoints of the code, side by side."""

from typing import Any, Final

from gridfleet.api.http.endpoint import ENDPOINTS, Endpoint, import_handlers

Row = tuple[str, str]


def rows(contract: dict[str, Any]) -> dict[Row, dict[str, Any]]:
    """Contract rows by method and path."""
    return {(row["method"], row["path"]): row for row in contract["endpoints"]}


def built() -> dict[Row, Endpoint]:
    """Every endpoint of the code, additions too."""
    import_handlers()
    return dict(ENDPOINTS)


ABSENT_IS_FORBIDDEN: Final = frozenset(row for row in built() if row[1].startswith("/api/v1/vcp/sites/{siteId}"))
"""Rows that answer FORBIDDEN for a record that is not there, as for one that the caller may not see."""
