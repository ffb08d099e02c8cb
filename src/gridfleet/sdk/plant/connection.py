"""One MQTT connection from login to loss, with the broker's refusals as errors of this package."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from functools import partial
from typing import Final, cast

import aiomqtt
import msgspec
from paho.mqtt.reasoncodes import ReasonCode

from gridfleet.protocol.envelope import PlantStatus, StatusMessage
from gridfleet.sdk.plant.errors import ConnectFailed
from gridfleet.sdk.plant.package import Address, Package

__all__ = ["LoginRefused", "open_connection"]

_REFUSED_CODES: Final = frozenset({133, 134, 135})  # paho's names for CONNACK 2, 4 and 5: identifier, password, not authorised
_ABANDON_SECONDS: Final = 5
_DISCARDING: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing the socket discards what it has not sent yet."""


class LoginRefused(ConnectFailed):
    """The broker refused the login."""


@contextlib.asynccontextmanager
async def open_connection(
    package: Package,
    address: Address,
    tls: ssl.SSLContext | None,
    password: str | None,
    window: int,
    received: asyncio.Queue[aiomqtt.Message],
) -> AsyncIterator[aiomqtt.Client]:
    """Open a connection that the broker has accepted at this address, with the Last Will set and a session that outlives it.

    Messages are put into `received` and stay there when the connection breaks: the broker has their confirmations, and does not
    send them again. `client.messages` yields none, and raises an error when the connection breaks.

    Raises:
        LoginRefused: The broker refuses the credentials.
        ConnectFailed: The broker is unreachable, or the connection breaks inside the context.
    """
    client = aiomqtt.Client(
        address.host,
        address.port,
        username=package.user_name,
        password=password,
        identifier=package.mqtt.client_id,
        clean_session=False,  # commands sent during a short absence are still delivered
        keepalive=package.protocol.keep_alive_seconds,
        tls_context=tls,
        # A plant confirms a command and then acknowledges it. The acknowledgement must not wait 40 ms for the broker's delayed
        # ACK.
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        max_inflight_messages=window,
        queue_type=cast("type[asyncio.Queue[aiomqtt.Message]]", partial(_Forwarding, received)),
        will=aiomqtt.Will(
            package.mqtt.topics.status,
            msgspec.json.encode(StatusMessage(PlantStatus.OFFLINE, reason="connection lost")),
            qos=1,
            retain=True,
        ),
    )
    client.pending_calls_threshold = window
    await _enter(client, str(address))
    try:
        yield client
    except (aiomqtt.MqttError, ExceptionGroup) as error:
        _reset(client)
        cause = _first(error)
        if not isinstance(cause, aiomqtt.MqttError):
            raise cause from error
        raise ConnectFailed(f"{address}: the connection broke: {cause}") from error
    finally:
        with contextlib.suppress(aiomqtt.MqttError):
            await client.__aexit__(None, None, None)
        _reset(client)


def _reset(client: aiomqtt.Client) -> None:
    """Close the connection without sending what has been published on it.

    After a time-out, the socket would send that before it is closed, and share a narrow uplink with the next connection, on
    which the same messages are published again. aiomqtt can only disconnect after them.
    """
    open_socket = client._client.socket()
    if isinstance(open_socket, socket.socket):
        with contextlib.suppress(OSError):
            open_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARDING)
            open_socket.shutdown(socket.SHUT_RDWR)  # aiomqtt reads the end of the stream and closes the socket


class _Forwarding(asyncio.Queue[aiomqtt.Message]):
    """A connection's queue of messages that puts all of them into another one and stays empty."""

    def __init__(self, received: asyncio.Queue[aiomqtt.Message], maxsize: int = 0) -> None:
        super().__init__(maxsize)
        self._received = received

    def put_nowait(self, item: aiomqtt.Message) -> None:
        self._received.put_nowait(item)


async def _enter(client: aiomqtt.Client, address: str) -> None:
    entering = asyncio.ensure_future(client.__aenter__())
    try:
        await asyncio.shield(entering)
    except aiomqtt.MqttCodeError as error:
        code = error.rc.value if isinstance(error.rc, ReasonCode) else error.rc
        kind = LoginRefused if code in _REFUSED_CODES else ConnectFailed
        raise kind(f"{address}: {error}") from error
    except (aiomqtt.MqttError, OSError, ValueError) as error:
        raise ConnectFailed(f"{address}: {error}") from error
    except asyncio.CancelledError:
        # paho connects in a thread that cannot be interrupted. Let it finish, then close the connection that it opened.
        await asyncio.wait({entering}, timeout=_ABANDON_SECONDS)
        if entering.done() and entering.exception() is None:
            with contextlib.suppress(aiomqtt.MqttError):
                await client.__aexit__(None, None, None)
        raise


def _first(error: BaseException) -> BaseException:
    """Return the first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
