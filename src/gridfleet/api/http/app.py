"""The two ASGI applications: the public one on Litestar, and the one of the internal listener."""

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import structlog
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Send
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gridfleet.api.http.access_log import open_access_log
from gridfleet.api.http.bodies import ClientGone, read_body
from gridfleet.api.http.call import Call
from gridfleet.api.http.endpoint import ENDPOINTS, INTERNAL_ENDPOINTS, Endpoint
from gridfleet.api.http.errors import PayloadTooLarge
from gridfleet.api.http.inputs import InvalidInput, parse_uuid
from gridfleet.api.http.pipeline import Pipeline, error_answer, security_headers
from gridfleet.api.http.registry import import_handlers
from gridfleet.api.http.responses import Answer
from gridfleet.api.internal.metrics import Scrape
from gridfleet.api.state import AppState
from gridfleet.kernel import metrics, tracing
from gridfleet.kernel.errors import NotFound, ValidationFailed
from gridfleet.kernel.ids import new_id

__all__ = ["Application", "create_app", "create_internal_app"]

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})

_UNMATCHED = "-"
"""Route label of requests that match no route."""

_GONE = 499
"""Status of a request whose client disconnected before the response."""

_ANSWER_SECONDS: Final = 10.0
"""How long a request of the broker waits for the database. The broker itself gives up after 15 s."""

log = structlog.get_logger(__name__)


class Application(Litestar):
    """Litestar with an own outer layer: request ids, the error envelope for unmatched routes, one log line per request."""

    def __init__(self, state: AppState, handlers: list[HTTPRouteHandler]) -> None:
        super().__init__(
            route_handlers=handlers,
            openapi_config=None,
            exception_handlers={Exception: _router_error},
            logging_config=None,
        )
        self.app_state = state
        self._access_log = open_access_log(state.settings.log_level, json=state.settings.log_format == "json")
        self.base_headers = security_headers(state.settings.base_url)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        started = time.perf_counter()
        call = Call(scope, self.app_state, _request_id(scope["headers"]))
        scope["gridfleet_call"] = call
        structlog.contextvars.bind_contextvars(request_id=call.request_id)
        status = 0

        async def watch(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        # A label must not hold text that a client can choose.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        answer: ASGIApp = super().__call__
        if method == "other":
            answer = error_answer(call, self.base_headers, NotFound())
        with tracing.span("HTTP", "server", parent=call.headers.get("traceparent"), request_id=call.request_id) as span:
            trace_id = tracing.trace_id()
            try:
                await answer(scope, receive, watch)
            finally:
                seconds = time.perf_counter() - started
                route = scope.get("path_template", _UNMATCHED)
                status = status or _GONE
                shown = "_OTHER" if method == "other" else method
                span.update_name(f"{shown} {route}")
                span.set_attributes({"http.request.method": shown, "http.route": route, "http.response.status_code": status})
                self._access_log(scope["method"], route, status, seconds, call.request_id, trace_id)
                metrics.request_seconds(method, route, status).observe(seconds)
                structlog.contextvars.unbind_contextvars("request_id")
        if call.bug is not None:
            raise call.bug


def create_app(state: AppState) -> Litestar:
    """Return the public application with every registered endpoint."""
    import_handlers()
    return Application(state, [_route(endpoint, Pipeline(endpoint, state)) for endpoint in ENDPOINTS.values()])


def _route(endpoint: Endpoint, pipeline: Pipeline) -> HTTPRouteHandler:
    async def run(request: Request[Any, Any, Any]) -> ASGIApp:
        scope = request.scope
        return await pipeline(scope["gridfleet_call"], scope, request.receive)  # type: ignore[typeddict-item]

    path = endpoint.path.replace("}", ":str}")
    # The status is for Litestar only: the pipeline builds the whole response, with its own status.
    return HTTPRouteHandler(path, http_method=endpoint.method, status_code=200, name=f"{endpoint.method} {endpoint.path}")(run)


def _router_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return the error envelope for an exception of Litestar's router."""
    app: Application = request.app  # type: ignore[assignment]
    call: Call = request.scope["gridfleet_call"]  # type: ignore[typeddict-item]
    if isinstance(error, HTTPException) and error.status_code in (404, 405):
        answer = error_answer(call, app.base_headers, NotFound())
    elif isinstance(error, HTTPException) and error.status_code < 500:
        answer = error_answer(call, app.base_headers, ValidationFailed(), "BAD_REQUEST")
    else:
        log.error("router failed", exc_info=error)
        answer = error_answer(call, app.base_headers, None)
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    return Response(answer.body, status_code=answer.status, headers=headers, media_type=headers["content-type"])


def _request_id(headers: Any) -> str:
    for name, value in headers:
        if name == b"x-request-id":
            given = parse_uuid(value.decode("latin-1"))
            return str(given) if given is not None else str(new_id())
    return str(new_id())


def _form(body: bytes) -> dict[str, str]:
    # Blank fields are kept: an empty `password=` of the broker must not look like a login by certificate.
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError:
        raise InvalidInput(["body: must be a form in UTF-8"]) from None


async def _in_time(handling: Awaitable[str]) -> str:
    """Return the response of a handler. Raises TimeoutError after ten seconds.

    A query waits without limit for a database server that is suspended, because the operating system still acknowledges its
    packets. Its cancellation takes another ten seconds, so it is not awaited.
    """
    task = asyncio.ensure_future(handling)
    task.add_done_callback(_consume_error)
    try:
        done, _ = await asyncio.wait({task}, timeout=_ANSWER_SECONDS)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise TimeoutError
    return task.result()


def _consume_error(task: asyncio.Future[str]) -> None:
    if not task.cancelled():
        task.exception()


def create_internal_app(state: AppState, *, shared_ports: bool = False) -> Callable[[Any, Receive, Send], Awaitable[None]]:
    """Return the application of the internal listener.

    It serves the registered handlers below the secret path, and `/metrics` without a secret.
    """
    import_handlers()
    scrape = Scrape(state, shared_ports=shared_ports)
    metrics_headers = [(b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode()), (b"cache-control", b"no-store")]
    secret = state.settings.secret("internal_secret").get_secret_value().encode()
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]

    async def serve(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET" and scope["path"] == "/metrics":
            await Answer(200, metrics_headers, await scrape.text())(scope, receive, send)
            return
        given, _, path = scope["path"].lstrip("/").partition("/")
        handler = INTERNAL_ENDPOINTS.get((scope["method"], f"/{path}"))
        if not hmac.compare_digest(given.encode(), secret) or handler is None:
            await Answer(404, headers, b"not found")(scope, receive, send)
            return
        call = Call(scope, state, str(new_id()))
        started = time.perf_counter()
        structlog.contextvars.bind_contextvars(request_id=call.request_id)
        try:
            form = _form(await read_body(receive, 0, 64 * 1024))
            text = await _in_time(handler(call, form))
            await Answer(200, headers, text.encode())(scope, receive, send)
        except (InvalidInput, PayloadTooLarge) as error:
            log.warning("not a question of the broker's", path=path, error=type(error).__name__)
            await Answer(400, headers, b"bad request")(scope, receive, send)
        except ClientGone:
            return
        except TimeoutError:
            log.error("broker's request not answered in time", path=path)
            await Answer(500, headers, b"failed")(scope, receive, send)
        except Exception:
            log.exception("internal request failed", path=path)
            await Answer(500, headers, b"failed")(scope, receive, send)
        finally:
            metrics.BROKER_QUESTION_SECONDS.labels(path.rpartition("/")[2]).observe(time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars("request_id")

    return serve
