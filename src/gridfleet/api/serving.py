"""Both HTTP listeners on Granian, in the running event loop."""

import asyncio
import os
import socket
from typing import Any

import structlog
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.net import SocketSpec  # type: ignore[attr-defined]
from granian.server.embed import Server

from gridfleet.api.http.app import create_app
from gridfleet.api.internal.app import create_internal_app
from gridfleet.api.state import AppState
from gridfleet.kernel.open_files import allow_open_files
from gridfleet.kernel.settings import Settings

__all__ = ["serve"]

_STOP_SECONDS = 8

_HEADER_MILLISECONDS = 15_000
"""Limit for the header of a request, and for the next request to begin on a kept connection."""
_BROKER_MILLISECONDS = 150_000
"""The same for the broker, which closes idle connections after two minutes. The broker should close first."""
UNREAD_MILLISECONDS = 120_000
"""How long a client may leave a response unread. The system then ends the connection, which the HTTP layer would not do."""
_HEADER_BYTES = 64 * 1024
_FILES_BESIDE = 1_024
"""Open files beside the listeners' connections: database, broker, logs, libraries."""

log = structlog.get_logger(__name__)


async def serve(state: AppState, *, shared_ports: bool = False) -> None:
    """Serve users on `http_port` and the broker on `internal_port` until cancelled. Running requests may finish.

    Args:
        state: The state of the process.
        shared_ports: Whether other processes may listen on the same ports. Each connection then reaches one of them.

    Raises:
        OSError: If a port is taken.
        RuntimeError: If a listener ends by itself.
    """
    settings = state.settings
    listeners = [
        (create_app(state), settings.http_host, settings.http_port),
        (create_internal_app(state, shared_ports=shared_ports), settings.internal_host, settings.internal_port),
    ]
    if not shared_ports:
        for _, host, port in listeners:
            _require_free(host, port)
    servers = [_server(settings, *listener) for listener in listeners]
    running: list[asyncio.Task[Any]] = [asyncio.create_task(server.serve()) for server in servers]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        raise RuntimeError("an HTTP listener ended by itself")
    finally:
        state.fleet.close()
        state.live.close()  # otherwise streams would run until their connections are closed
        for server in servers:
            server.stop()  # type: ignore[no-untyped-call]
        _, late = await asyncio.wait(running, timeout=_STOP_SECONDS)
        for task in late:
            log.warning("requests not finished in time; connections closed")
            task.cancel()


class _Listener(Server):
    """A server whose connections inherit an option of the socket that they are accepted from."""

    def _init_shared_socket(self) -> None:
        # On Linux, the parent class leaves it to the worker to make the socket.
        holder = SocketSpec(self.bind_addr, self.bind_port, self.backlog).build()
        self._ssp, self._shd, self._sfd = None, holder, holder.get_fd()  # type: ignore[assignment]
        with socket.socket(fileno=os.dup(holder.get_fd())) as listener:
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MILLISECONDS)


def _server(settings: Settings, app: Any, host: str, port: int) -> Server:
    # HTTP/1.1 only: no client here speaks HTTP/2 without TLS, and HTTP/2 has limits of its own to maintain.
    # Every idle connection counts towards `backpressure`, so the limit is high. It also bounds the number of connections.
    public = port == settings.http_port
    allow_open_files(2 * settings.http_connections + _FILES_BESIDE)
    return _Listener(
        app,
        host,
        port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=_HEADER_MILLISECONDS if public else _BROKER_MILLISECONDS, max_buffer_size=_HEADER_BYTES
        ),
        ssl_cert=settings.http_certificate if public else None,
        ssl_key=settings.http_key if public else None,
        ssl_protocol_min=SSLProtocols.tls12,
        log_enabled=False,
        websockets=False,
        backlog=1024,
        backpressure=settings.http_connections,
    )


def _require_free(host: str, port: int) -> None:
    # Granian sets SO_REUSEPORT, so a second server would silently share the port with the first.
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise OSError(error.errno, f"port {port} of {host} is taken: {error.strerror}") from None
