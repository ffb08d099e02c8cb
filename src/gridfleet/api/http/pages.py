"""Pages for browsers and their files: declared with `@page`, and sent with an entity tag."""

from functools import cache, partial
from pathlib import Path
from typing import Final

from gridfleet.api.access.guards import public
from gridfleet.api.http.call import Call
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.responses import Asset

__all__ = ["PAGE_TYPES", "POLICY", "page", "page_file", "read_page"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'; report-uri /api/v1/csp-report"
)
"""The content security policy: scripts and styles of this service only, without inline code."""

PAGE_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Content types by suffix."""

page = partial(Endpoint, "GET", caller=public(), codes=(), response=str, addition=True)
"""Decorates the handler of a page or of a file that a page loads."""


def page_file(call: Call, file: Path, policy: str = POLICY) -> Asset:
    """Return a file with its security policy. The content is read once and then cached."""
    call.set_header("content-security-policy", policy)
    return read_page(file)


@cache
def read_page(file: Path) -> Asset:
    """Return a file with the content type of its suffix. The content is read once and then cached."""
    return Asset.tagged(PAGE_TYPES[file.suffix], file.read_bytes())
