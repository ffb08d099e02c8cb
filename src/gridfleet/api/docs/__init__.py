"""`/docs`: a page to read and try the API, built from the OpenAPI document, without external resources."""

from pathlib import Path
from typing import Final

from gridfleet.api.http import Asset, Call, endpoint, public

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none';"
    " report-uri /api/v1/csp-report"
)


@endpoint("GET", "/docs", caller=public(), codes=(), answer=str, answer_content_types=("text/html",), addition=True)
async def docs_page(call: Call) -> Asset:
    """The page itself."""
    return _asset(call, "page.html", "text/html; charset=utf-8")


@endpoint(
    "GET", "/docs/page.js", caller=public(), codes=(), answer=str, answer_content_types=("text/javascript",), addition=True
)
async def docs_script(call: Call) -> Asset:
    """The page's script."""
    return _asset(call, "page.js", "text/javascript; charset=utf-8")


@endpoint("GET", "/docs/page.css", caller=public(), codes=(), answer=str, answer_content_types=("text/css",), addition=True)
async def docs_style(call: Call) -> Asset:
    """The page's look."""
    return _asset(call, "page.css", "text/css; charset=utf-8")


def _asset(call: Call, name: str, content_type: str) -> Asset:
    call.set_header("content-security-policy", _POLICY)
    call.set_header("cache-control", "no-cache")
    return Asset(content_type, (_HERE / name).read_bytes())
