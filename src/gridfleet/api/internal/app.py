"""The application of the internal listener: authorisation requests of the broker below a secret path, and the metrics."""

import asyncio
import hmac
import time
from collections.abc import Awaitable
from typing import Final
from urllib.parse import parse_qsl

import structlog
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gridfleet.api.http.bodies import ClientGone, read_body
from gridfleet.api.http.call import Call
from gridfleet.api.http.endpoint import INTERNAL_ENDPOINTS, import_handlers
from gridfleet.api.http.errors import PayloadTooLarge
from gridfleet.api.http.responses import ASGIApp, Receive, Response, Scope, Send
from gridfleet.api.internal.metrics import Scrape
from gridfleet.api.state import AppState
from gridfleet.kernel import metrics
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["create_internal_app"]

_ANSWER_SECONDS: Final = 10.0
"""How long a request of the broker waits for the database. The broker itself gives up after 15 s."""

log = structlog.get_logger(__name__)


def _form(body: bytes) -> dict[str, str]:
    # Blank fields are kept: an empty `password=` of the broker must not look like a login by certificate.
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError:
        raise ValidationFailed(details=["body: must be a form in UTF-8"]) from None


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


def create_internal_app(state: AppState, *, shared_ports: bool = False) -> ASGIApp:
    """Return the application of the internal listener.

    It serves the registered handlers below the secret path, and `/metrics` without a secret.
    """
    import_handlers()
    scrape = Scrape(state, shared_ports=shared_ports)
    metrics_headers = [(b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode()), (b"cache-control", b"no-store")]
    secret = state.settings.secret("internal_secret").get_secret_value().encode()
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET" and scope["path"] == "/metrics":
            await Response(200, metrics_headers, await scrape.text())(scope, receive, send)
            return
        given, _, path = scope["path"].lstrip("/").partition("/")
        handler = INTERNAL_ENDPOINTS.get((scope["method"], f"/{path}"))
        if not hmac.compare_digest(given.encode(), secret) or handler is None:
            await Response(404, headers, b"not found")(scope, receive, send)
            return
        call = Call(scope, state)
        started = time.perf_counter()
        structlog.contextvars.bind_contextvars(request_id=call.request_id)
        try:
            form = _form(await read_body(receive, 0, 64 * 1024))
            text = await _in_time(handler(call, form))
            await Response(200, headers, text.encode())(scope, receive, send)
        except (ValidationFailed, PayloadTooLarge) as error:
            log.warning("invalid authorisation request", path=path, error=type(error).__name__)
            await Response(400, headers, b"bad request")(scope, receive, send)
        except ClientGone:
            return
        except TimeoutError:
            log.error("no response to the broker in time", path=path)
            await Response(500, headers, b"failed")(scope, receive, send)
        except Exception:
            log.exception("internal request failed", path=path)
            await Response(500, headers, b"failed")(scope, receive, send)
        finally:
            metrics.BROKER_QUESTION_SECONDS.labels(path.rpartition("/")[2]).observe(time.perf_counter() - started)
            structlog.contextvars.unbind_contextvars("request_id")

    return serve
