"""Both listeners in the running event loop, on Granian."""

import asyncio
import socket
from typing import Any

import structlog
from granian.constants import Interfaces
from granian.server.embed import Server

from gridfleet.api._http.application import create_app, create_internal_app
from gridfleet.api._http.state import AppState

__all__ = ["serve"]

_STOP_SECONDS = 8

log = structlog.get_logger(__name__)


async def serve(state: AppState, *, shared_ports: bool = False) -> None:
    """Answers people on `http_port` and the broker on `internal_port` until cancelled; running requests may end.

    With `shared_ports` other processes may listen there too: each connection reaches one of them.

    Raises OSError when a port is taken, and RuntimeError when a listener ends by itself.
    """
    settings = state.settings
    listeners = [
        (create_app(state), settings.http_host, settings.http_port),
        (create_internal_app(state), settings.internal_host, settings.internal_port),
    ]
    if not shared_ports:
        for _, host, port in listeners:
            _require_free(host, port)
    servers = [
        Server(app, host, port, interface=Interfaces.ASGINL, log_enabled=False, websockets=False, backlog=1024)
        for app, host, port in listeners
    ]
    running: list[asyncio.Task[Any]] = [asyncio.create_task(server.serve()) for server in servers]
    try:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        raise RuntimeError("an HTTP listener ended by itself")
    finally:
        state.live.close()  # streams would go on until they are cut off
        for server in servers:
            server.stop()  # type: ignore[no-untyped-call]
        _, late = await asyncio.wait(running, timeout=_STOP_SECONDS)
        for task in late:
            log.warning("requests were cut off")
            task.cancel()


def _require_free(host: str, port: int) -> None:
    # Granian sets SO_REUSEPORT, so a second server would silently share the port with the first.
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise OSError(error.errno, f"port {port} of {host} is taken: {error.strerror}") from None
