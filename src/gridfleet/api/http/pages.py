"""Pages for browsers and their files: declared with `@page`, and sent with an entity tag."""

from functools import cache, partial
from pathlib import Path
from typing import Final

from gridfleet.api.access.guards import public
from gridfleet.api.http.call import Call
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.responses import Asset

__all__ = ["POLICY", "page", "page_file"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'; report-uri /api/v1/csp-report"
)
"""The content security policy: scripts and styles of this service only, without inline code."""

page = partial(Endpoint, "GET", caller=public(), codes=(), response=str, addition=True)
"""Decorates the handler of a page or of a file that a page loads."""


def page_file(call: Call, file: Path, policy: str = POLICY) -> Asset:
    """Return a file, which is read once."""
    call.set_header("content-security-policy", policy)
    return _read(file)


@cache
def _read(file: Path) -> Asset:
    kind = "javascript" if file.suffix == ".js" else file.suffix[1:]
    return Asset.tagged(f"text/{kind}; charset=utf-8", file.read_bytes())
