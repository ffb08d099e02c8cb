"""`/account/…`: the pages that links in mails open, for installations without a console and for users without one.

A page completes the purpose of its mail with calls of the public interface. Opening a page changes nothing, so a mail scanner
that follows links does not consume a token. The token is in the URL's fragment, which browsers do not send.
"""

from pathlib import Path
from typing import Final

from gridfleet.api.http import Asset, Call, endpoint, public

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'; report-uri /api/v1/csp-report"
)


@endpoint(
    "GET", "/account/confirm-email", caller=public(), codes=(), answer=str, answer_content_types=("text/html",), addition=True
)
async def confirm_email_page(call: Call) -> Asset:
    """Return the page that confirms a new e-mail address."""
    return _page(call)


@endpoint(
    "GET", "/account/reset-password", caller=public(), codes=(), answer=str, answer_content_types=("text/html",), addition=True
)
async def reset_password_page(call: Call) -> Asset:
    """Return the page that sets a new password."""
    return _page(call)


@endpoint(
    "GET", "/account/invitation", caller=public(), codes=(), answer=str, answer_content_types=("text/html",), addition=True
)
async def invitation_page(call: Call) -> Asset:
    """Return the page that accepts an invitation; users without an account register there."""
    return _page(call)


@endpoint(
    "GET", "/account/page.js", caller=public(), codes=(), answer=str, answer_content_types=("text/javascript",), addition=True
)
async def account_script(call: Call) -> Asset:
    """The pages' script."""
    return _asset(call, "page.js", "text/javascript; charset=utf-8")


@endpoint("GET", "/account/page.css", caller=public(), codes=(), answer=str, answer_content_types=("text/css",), addition=True)
async def account_style(call: Call) -> Asset:
    """The pages' look."""
    return _asset(call, "page.css", "text/css; charset=utf-8")


def _page(call: Call) -> Asset:
    return _asset(call, "page.html", "text/html; charset=utf-8")


def _asset(call: Call, name: str, content_type: str) -> Asset:
    call.set_header("content-security-policy", _POLICY)
    call.set_header("cache-control", "no-cache")
    return Asset(content_type, (_HERE / name).read_bytes())
