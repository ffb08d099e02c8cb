"""The addresses of the broker, and the login of a partner at one of them."""

import asyncio
import itertools
import logging
import ssl
from collections.abc import Sequence
from typing import Final

import aiormq
from yarl import URL

from gridfleet.protocol.amqp import Connection

__all__ = ["LOST", "Addresses", "LoginRefused"]

LOST: Final = (aiormq.exceptions.AMQPConnectionError, aiormq.exceptions.ChannelInvalidStateError, OSError)
"""Errors that indicate a lost connection."""
_REFUSED: Final = (aiormq.exceptions.ProbableAuthenticationError, aiormq.exceptions.InvalidFrameError)
"""Errors that indicate a refused key or vhost. The broker refuses a vhost by closing the connection instead of opening it."""
_CONNECT_SECONDS: Final = 15.0

_log = logging.getLogger("gridfleet.sdk.partner")


class LoginRefused(ConnectionError):
    """The broker refused the login.

    User name, key and vhost do not belong together, the key has expired, or the client's address is not allowed. The broker
    gives no further reason; the audit event `partner.connection_refused` does.
    """


class Addresses:
    """The addresses of one broker, at least one, with the same user name, key and vhost.

    Args:
        addresses: URLs in the order in which to try them.
        authority: PEM of the authority that signed the broker's certificate. Default: the system's authorities.

    Raises:
        ValueError: There is no address, or they differ in more than host and port.
    """

    def __init__(self, addresses: Sequence[str], authority: str | None) -> None:
        urls = [URL(address) for address in addresses]
        if len({url.with_host("host").with_port(1) for url in urls}) != 1:
            raise ValueError("at least one address is required, and addresses may differ in host and port only")
        self.slug = urls[0].user or ""
        self._context = ssl.create_default_context(cadata=authority) if urls[0].scheme == "amqps" else None
        self._further = len(urls) - 1
        self._next = itertools.cycle(urls)

    async def connect(self) -> Connection:
        """Log in at the first address that responds. The first attempt is at the address after the one that was used last.

        Each address is tried once. A refused login ends the call, because the key is the same at every address.

        Raises:
            LoginRefused: The broker refused the login.
            AMQPError, OSError: The address that was tried last did not respond.
        """
        for _ in range(self._further):
            url = next(self._next)
            try:
                return await self._log_in(url)
            except LoginRefused:
                raise
            except LOST as error:
                _log.warning("%s:%s: %r; trying the next address", url.host, url.port, error)
        return await self._log_in(next(self._next))

    async def _log_in(self, url: URL) -> Connection:
        connection = Connection(url, context=self._context)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await connection.connect()
        except _REFUSED as error:
            raise LoginRefused(
                f"{url.host} refused the login to the vhost {url.path[1:]!r} as {self.slug!r}:"
                " check that the vhost is that of the key, that the user is the organisation's slug, and that the key is"
                " complete and percent-encoded."
                " The organisation's audit events say why (partner.connection_refused)"
            ) from error
        return connection
