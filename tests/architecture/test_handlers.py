"""A handler stands in the module that its URL names."""

import pytest

from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers

import_handlers()


def module_of(path: str) -> str:
    """The module or package below `gridfleet.api` that serves a path. The root leads to the console."""
    first = path.removeprefix("/api/v1").split("/")[1] or "console"
    return first.partition(".")[0].replace("-", "_")


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("/api/v1/plants/{id}", "plants"),
        ("/api/v1/device-templates", "device_templates"),
        ("/api/v1/openapi.json", "openapi"),
        ("/docs/page.js", "docs"),
        ("/", "console"),
    ],
)
def test_the_rule(path: str, module: str) -> None:
    assert module_of(path) == module


def test_handlers_stand_where_their_url_says() -> None:
    strays = [
        f"{endpoint.method} {endpoint.path} in {endpoint.handler.__module__}"
        for endpoint in ENDPOINTS.values()
        if not f"{endpoint.handler.__module__}.".startswith(f"gridfleet.api.{module_of(endpoint.path)}.")
    ]
    assert strays == []


def test_every_path_but_those_of_pages_is_versioned() -> None:
    pages = {path for _, path in ENDPOINTS if not path.startswith("/api/v1/")}
    assert {path.split("/")[1] for path in pages} == {"", "account", "console", "docs"}
