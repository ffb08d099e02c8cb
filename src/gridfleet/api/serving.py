"""Both HTTP listeners on Granian, in the running event loop."""

import asyncio
import socket
from collections.abc import Collection, Sequence
from typing import Any

import psutil
import structlog
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server

from gridfleet.api.http.app import create_app
from gridfleet.api.internal.app import create_internal_app
from gridfleet.api.state import AppState
from gridfleet.kernel.open_files import allow_open_files
from gridfleet.kernel.settings import Settings

__all__ = ["serve"]

_START_SECONDS = 10
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
        _require_free("GRIDFLEET_HTTP_PORT", settings.http_host, settings.http_port)
        _require_free("GRIDFLEET_INTERNAL_PORT", settings.internal_host, settings.internal_port)
    servers = [_server(settings, *listener) for listener in listeners]
    running: list[asyncio.Task[Any]] = [asyncio.create_task(server.serve()) for server in servers]
    try:
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux
            await _end_unread([port for _, _, port in listeners], running)
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


async def _end_unread(ports: Collection[int], running: Sequence[asyncio.Task[Any]]) -> None:
    """Let the system end connections whose client reads nothing: they inherit the option of the listener's socket.

    Granian makes the sockets in threads of its own, and has no setting for the option.
    """
    missing = set(ports)
    for _ in range(_START_SECONDS * 20):
        for found in psutil.Process().net_connections("tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port in missing:
                with socket.fromfd(found.fd, found.family, found.type) as listener:
                    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MILLISECONDS)
                missing.remove(found.laddr.port)
        if not missing or any(task.done() for task in running):
            return
        await asyncio.sleep(0.05)
    log.warning("clients may leave responses unread: the listeners were not found", ports=sorted(missing))


def _server(settings: Settings, app: Any, host: str, port: int) -> Server:
    # HTTP/1.1 only: no client here speaks HTTP/2 without TLS, and HTTP/2 has limits of its own to maintain.
    # Every idle connection counts towards `backpressure`, so the limit is high. It also bounds the number of connections.
    public = port == settings.http_port
    allow_open_files(2 * settings.http_connections + _FILES_BESIDE)
    return Server(
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


def _require_free(setting: str, host: str, port: int) -> None:
    # Granian sets SO_REUSEPORT, so a second server would silently share the port with the first.
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            reason = f"port {port} of {host} is taken ({error.strerror}): set {setting} to another one"
            raise OSError(error.errno, reason) from None
