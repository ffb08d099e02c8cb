"""`/docs`: Swagger UI for the OpenAPI document, from an installed package and without external resources."""

from functools import cache
from pathlib import Path
from typing import Final

from swagger_ui_bundle import swagger_ui_path  # type: ignore[import-untyped]

from gridfleet.api.http import Asset, Call, endpoint, public

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'none';"
    " base-uri 'none'; frame-ancestors 'none'; report-uri /api/v1/csp-report"
)


@endpoint("GET", "/docs", caller=public(), codes=(), answer=str, answer_content_types=("text/html",), addition=True)
async def docs_page(call: Call) -> Asset:
    """The page itself."""
    return _asset(call, _HERE / "page.html", "text/html; charset=utf-8")


@endpoint(
    "GET", "/docs/page.js", caller=public(), codes=(), answer=str, answer_content_types=("text/javascript",), addition=True
)
async def docs_script(call: Call) -> Asset:
    """The script that starts Swagger UI."""
    return _asset(call, _HERE / "page.js", "text/javascript; charset=utf-8")


@endpoint(
    "GET",
    "/docs/swagger-ui.js",
    caller=public(),
    codes=(),
    answer=str,
    answer_content_types=("text/javascript",),
    addition=True,
)
async def swagger_ui_script(call: Call) -> Asset:
    """Swagger UI."""
    return _asset(call, swagger_ui_path / "swagger-ui-bundle.js", "text/javascript; charset=utf-8")


@endpoint(
    "GET", "/docs/swagger-ui.css", caller=public(), codes=(), answer=str, answer_content_types=("text/css",), addition=True
)
async def swagger_ui_style(call: Call) -> Asset:
    """The style sheet of Swagger UI."""
    return _asset(call, swagger_ui_path / "swagger-ui.css", "text/css; charset=utf-8")


def _asset(call: Call, file: Path, content_type: str) -> Asset:
    call.set_header("content-security-policy", _POLICY)
    call.set_header("cache-control", "no-cache")
    return Asset(content_type, _content(file))


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()
