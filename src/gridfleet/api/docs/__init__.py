"""`/docs`: Swagger UI for the OpenAPI document, from an installed package and without external resources."""

from pathlib import Path
from typing import Final

from swagger_ui_bundle import swagger_ui_path  # type: ignore[import-untyped]

from gridfleet.api.http import POLICY, Asset, Call, page, page_file

_HERE: Final = Path(__file__).parent
_POLICY: Final = f"{POLICY}; img-src data:"


@page("/docs", response_content_types=("text/html",))
async def docs_page(call: Call) -> Asset:
    """Return the page to try the API."""
    return page_file(call, _HERE / "page.html", _POLICY)


@page("/docs/page.js", response_content_types=("text/javascript",))
async def docs_script(call: Call) -> Asset:
    """Return the script that starts Swagger UI."""
    return page_file(call, _HERE / "page.js", _POLICY)


@page("/docs/swagger-ui.js", response_content_types=("text/javascript",))
async def swagger_ui_script(call: Call) -> Asset:
    """Return the script of Swagger UI."""
    return page_file(call, swagger_ui_path / "swagger-ui-bundle.js", _POLICY)


@page("/docs/swagger-ui.css", response_content_types=("text/css",))
async def swagger_ui_style(call: Call) -> Asset:
    """Return the style sheet of Swagger UI."""
    return page_file(call, swagger_ui_path / "swagger-ui.css", _POLICY)
