"""`/account/…`: the pages that links in mails open, for installations without a console and for users without one.

A page completes the purpose of its mail with calls of the public interface. Opening a page changes nothing, so a mail scanner
that follows links does not consume a token. The token is in the URL's fragment, which browsers do not send.
"""

from pathlib import Path
from typing import Final

from gridfleet.api.http import Asset, Call, page, page_file

_HERE: Final = Path(__file__).parent


@page("/account/confirm-email", response_content_types=("text/html",))
async def confirm_email_page(call: Call) -> Asset:
    """Return the page that confirms a new e-mail address."""
    return page_file(call, _HERE / "page.html")


@page("/account/reset-password", response_content_types=("text/html",))
async def reset_password_page(call: Call) -> Asset:
    """Return the page that sets a new password."""
    return page_file(call, _HERE / "page.html")


@page("/account/invitation", response_content_types=("text/html",))
async def invitation_page(call: Call) -> Asset:
    """Return the page that accepts an invitation; users without an account register there."""
    return page_file(call, _HERE / "page.html")


@page("/account/page.js", response_content_types=("text/javascript",))
async def account_script(call: Call) -> Asset:
    """Return the script of the pages."""
    return page_file(call, _HERE / "page.js")


@page("/account/page.css", response_content_types=("text/css",))
async def account_style(call: Call) -> Asset:
    """Return the style sheet of the pages."""
    return page_file(call, _HERE / "page.css")
