"""`/console`: the browser console.

Its source is in `console/` of the project. `make up` builds it into the folder `site` beside this module, and a wheel contains
the built files. Every path below `/console/` that is no file is a page of the console, which its script shows.
"""

from functools import cache
from pathlib import Path
from typing import Final

from gridfleet.api.http import PAGE_TYPES, Asset, Call, page, read_page
from gridfleet.kernel.errors import NotFound

_SITE: Final = Path(__file__).parent / "site"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self';"
    " manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'; report-uri /api/v1/csp-report"
)
_MOST_OF_FAILURE: Final = 4_000
"""Characters of a failed build's output that are shown."""
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@page("/", success=302, in_document=False)
async def start(call: Call) -> Asset:
    """Redirect to the console."""
    call.set_header("location", "/console")
    return Asset("text/plain; charset=utf-8", b"The console is at /console.\n")


@page("/console", in_document=False)
async def console_start(call: Call) -> Asset:
    """Return the console."""
    return _page(call)


@page("/console/{path*}", codes=("NOT_FOUND",), in_document=False)
async def console_file(call: Call, path: str) -> Asset:
    """Return a file of the console, or its page for any other path."""
    file = _site().get(path)
    # The names of assets contain the hash of their content.
    is_asset = path.startswith("assets/")
    if file is None and is_asset:
        raise NotFound
    if file is None:
        return _page(call)
    if is_asset:
        call.set_header("cache-control", _FOR_EVER)
    call.set_header("content-security-policy", _POLICY)
    return file


@cache
def _site() -> dict[str, Asset]:
    """Return the built files by path.

    All are read at the first request: a build that replaces them while the process runs cannot mix two versions, and no path of
    a request reaches the file system.
    """
    return {str(file.relative_to(_SITE)): read_page(file) for file in _SITE.rglob("*") if file.suffix in PAGE_TYPES}


def _page(call: Call) -> Asset:
    page = _site().get("index.html")
    if page is None:
        return Asset("text/plain; charset=utf-8", _why_missing().encode())
    call.set_header("content-security-policy", _POLICY)
    return page


def _why_missing() -> str:
    failure = _SITE / "failure.txt"
    if failure.is_file():
        end = failure.read_text(errors="replace")[-_MOST_OF_FAILURE:]
        return f"The console could not be built. `make up` tries again. The build ended with:\n\n{end}"
    return "The console was not built. `make up` and `make console` build it; a released package contains it."
