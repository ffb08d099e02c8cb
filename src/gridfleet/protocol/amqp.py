"""The AMQP connection that the service and the partner's client use."""

import asyncio
from typing import Final

import aiormq
from aiormq.abc import ExceptionType, TimeoutType
from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError, AMQPError, InvalidFrameError

__all__ = ["Connection", "open_connection"]

CONNECT_SECONDS: Final = 30.0
"""How long a broker may take to open a connection. Heartbeats begin after that.

Without a limit, a client would wait without end if the broker's machine hangs and is then reset, which loses the connection.
"""


class Connection(aiormq.Connection):
    """A connection whose end raises an `AMQPError` or an `OSError` in every call that waits for it.

    aiormq raises the reason of the end. That is a plain `Exception` if the broker ended the stream between two frames. After
    missed heartbeats and after `close` it is a `CancelledError`, as if the caller had been cancelled: a task group does not
    detect that such a task has ended.
    """

    async def close(self, exc: ExceptionType | None = asyncio.CancelledError, timeout: TimeoutType = None) -> None:
        """Close the connection.

        Args:
            exc: The reason, for the calls that wait.
            timeout: Seconds.
        """
        # Before the connection is open, only `connect` waits for it, and its caller may have been cancelled.
        if self.connected.is_set() and not isinstance(exc, AMQPError | OSError):
            exc = AMQPConnectionError("the connection to the broker ended")
        await super().close(exc, timeout)


async def open_connection(url: str, transport: TransportFactory | None = None) -> Connection:
    """Connect to a broker, over a transport other than the usual one if it is given.

    Raises:
        AMQPError, OSError: The broker is unreachable or refuses.
    """
    connection = Connection(url, transport_factory=transport)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await connection.connect()
    except InvalidFrameError as error:
        # aiormq drops the broker's text, which names the vhost. With the right to the vhost, the client's address is checked.
        reasons = "the address is not allowed, or the vhost is missing or has too many connections"
        raise ConnectionError(f"the broker refused the connection: {reasons}") from error
    except TimeoutError as error:
        raise ConnectionError(f"the broker did not open the connection within {CONNECT_SECONDS:g} s") from error
    return connection
