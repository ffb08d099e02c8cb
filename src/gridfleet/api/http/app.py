"""The public ASGI application: routing, and one log line per request."""

import re
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final

import structlog

from gridfleet.api.access.guards import UNSAFE
from gridfleet.api.http.access_log import open_access_log
from gridfleet.api.http.bound_endpoint import BoundEndpoint
from gridfleet.api.http.call import Call
from gridfleet.api.http.compression import compressed
from gridfleet.api.http.cors import CrossOrigin
from gridfleet.api.http.endpoint import ENDPOINTS, Endpoint, import_handlers
from gridfleet.api.http.errors import MethodNotAllowed, error_response, security_headers
from gridfleet.api.http.large_bodies import refusal_of_change, sending
from gridfleet.api.http.responses import ASGIApp, Header, Receive, Response, Scope, Send, StreamedResponse
from gridfleet.api.http.router import Node
from gridfleet.api.state import AppState
from gridfleet.kernel import metrics, tracing
from gridfleet.kernel.errors import NotFound, TooManyRequests, ValidationFailed

__all__ = ["Application", "create_app"]

_METHODS: Final = UNSAFE | {"GET", "HEAD", "OPTIONS"}

_UNMATCHED: Final = "-"
"""Route label of requests that match no route."""

_GONE: Final = 499
"""Status of a request whose client disconnected before the response."""

_HOST: Final = re.compile(rb"[0-9A-Za-z!$&'()*+,;=\-._~:\[\]@%]*\Z")


def create_app(state: AppState) -> "Application":
    """Return the public application with every registered endpoint."""
    import_handlers()
    return Application(state, ENDPOINTS.values())


class Application:
    """The ASGI application of some endpoints."""

    def __init__(self, state: AppState, endpoints: Iterable[Endpoint]) -> None:
        self._state = state
        self._access_log = open_access_log(state.settings.log_level, json=state.settings.log_format == "json")
        self._headers = security_headers(state.settings.base_url)
        self._cross_origin = CrossOrigin(state.settings.cors_origins)
        self._routes = Node[BoundEndpoint]()
        for endpoint in endpoints:
            self._routes.add(endpoint, BoundEndpoint(endpoint, state))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        # Repeated slashes and one at the end make no difference.
        segments = [segment for segment in scope["path"].split("/") if segment]
        scope["path"] = "/" + "/".join(segments)
        call = Call(scope, self._state)
        structlog.contextvars.bind_contextvars(request_id=call.request_id)
        status, route = 0, _UNMATCHED
        node, values = self._routes.find(segments)
        cross_origin = self._cross_origin.headers(call, node.methods)

        async def watch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if cross_origin:
                    message = {**message, "headers": [*message["headers"], *cross_origin]}
            await send(message)

        # A label must not hold text that a client can choose.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        with tracing.span("HTTP", "server", parent=call.headers.get("traceparent"), request_id=call.request_id) as span:
            trace_id = tracing.trace_id()
            try:
                if _HOST.match(call.headers.get("host", "-").encode("latin-1")) is None:
                    response: ASGIApp = error_response(call, self._headers, ValidationFailed(), "BAD_REQUEST")
                elif not node.endpoints:
                    response = error_response(call, self._headers, NotFound())
                elif (bound := node.bound(method)) is not None:
                    route = bound.path
                    scope["path_params"] = dict(zip(bound.parameter_names, values, strict=True))
                    refusal = refusal_of_change(call.client_network) if method in UNSAFE else None
                    response = error_response(call, self._headers, refusal) if refusal else await bound(call, scope, receive)
                else:
                    route = node.path
                    response = self._describe_methods(call, method, node.methods)
                await self._send(call, response, scope, receive, watch)
            finally:
                seconds = time.perf_counter() - started
                status = status or _GONE
                shown = "_OTHER" if method == "other" else method
                span.update_name(f"{shown} {route}")
                span.set_attributes({"http.request.method": shown, "http.route": route, "http.response.status_code": status})
                line = {"method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 1)}
                traced = {} if trace_id is None else {"trace_id": trace_id}
                self._access_log.info("request", **line, request_id=call.request_id, **traced)
                metrics.request_seconds(method, route, status).observe(seconds)
                structlog.contextvars.unbind_contextvars("request_id")
        if call.bug is not None:
            raise call.bug

    async def _send(self, call: Call, response: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Compress and send a response, or an error instead if the responses that are being sent take too much memory."""
        with ExitStack() as held:
            try:
                with _counted(call, response):  # it may wait for its turn, and is larger than what is sent
                    response = await compressed(call, response)
                held.enter_context(_counted(call, response))
            except TooManyRequests as error:
                if isinstance(response, StreamedResponse):
                    await response.close()
                response = error_response(call, self._headers, error)
            await response(scope, receive, send)

    def _describe_methods(self, call: Call, method: str, methods: list[str]) -> Response:
        """Return the response to OPTIONS, or to a method that the path does not have. Both name the path's methods."""
        if method != "OPTIONS":
            return error_response(call, self._headers, MethodNotAllowed(methods))
        allowed: list[Header] = [(b"x-request-id", call.request_id.encode()), (b"allow", ", ".join(methods).encode())]
        return Response(204, allowed + self._headers)


def _counted(call: Call, response: ASGIApp) -> AbstractContextManager[None]:
    """Count the memory that a response takes. Raises TooManyRequests if the responses to its address take too much."""
    if not isinstance(response, Response | StreamedResponse) or not (size := response.held_bytes):
        return nullcontext()
    # A request that may have changed something must not look refused. One that was refused anyway has changed nothing.
    is_refusable = call.method not in UNSAFE or 400 <= response.status < 500
    return sending(call.client_network, size, refusable=is_refusable)
