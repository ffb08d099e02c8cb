"""The checks of an endpoint, its handler and its response.

The contract fixes the order of the checks:
authentication → organisation → role or scope → path ids → query and body → the handler (existence, state) → commit → response.
"""

import asyncio
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

import psycopg
import structlog

from gridfleet.api.access.guards import UNSAFE, Admitted, CallerKind, Guard
from gridfleet.api.access.idempotency import FirstResponse
from gridfleet.api.http.bodies import ClientGone, decode_json, read_body
from gridfleet.api.http.call import Call
from gridfleet.api.http.compression import VARY
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.errors import RecordBusy, UndeclaredCode, error_response, security_headers
from gridfleet.api.http.inputs import read, read_query
from gridfleet.api.http.json_out import to_json
from gridfleet.api.http.large_bodies import LARGE_BODY, HeldBody
from gridfleet.api.http.responses import (
    ASGIApp,
    Asset,
    Header,
    Receive,
    Response,
    Scope,
    Stream,
    StreamedResponse,
    entity_tag,
)
from gridfleet.api.state import AppState
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.errors import CodedError, ValidationFailed
from gridfleet.kernel.ids import look_up_text, parse_uuid
from gridfleet.kernel.redis_link import RedisUnavailable
from gridfleet.kernel.turns import FairThread

__all__ = ["BoundEndpoint", "query_pairs"]

log = structlog.get_logger(__name__)

_RETRY_WHEN_BUSY_SECONDS: Final = 5

_OF_ANYONE: Final = FairThread("bodies-of-anyone")
_OF_CALLERS: Final = FairThread("bodies-of-callers")
"""Bodies that anyone may send, before the limits of calls apply, wait only for each other."""
_MOST_IN_LOOP: Final = 100_000
"""Bytes above which the entity tag of a response is computed in a thread."""

_ALWAYS_ALLOWED: Final = frozenset({"TOO_MANY_REQUESTS", "PAYLOAD_TOO_LARGE", "INTERNAL_SERVER_ERROR"})
_PAGE: Final[tuple[Header, ...]] = (
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)


class BoundEndpoint:
    """An endpoint bound to the state of the process, with everything prepared that does not depend on the call."""

    def __init__(self, endpoint: Endpoint, state: AppState) -> None:
        self._endpoint = endpoint
        self._state = state
        self.path = endpoint.path
        self.has_effect = endpoint.has_effect
        self.parameter_names = [parameter.name for parameter in endpoint.path_parameters]
        self._guard = Guard(endpoint.caller, endpoint.codes, self._path_id, state)
        self._admits = endpoint.caller.kind not in (CallerKind.PUBLIC, CallerKind.INTERNAL)
        self._decoder = _OF_CALLERS if self._admits else _OF_ANYONE
        self._in_transaction = "db" in endpoint.arguments
        self._headers = security_headers(state.settings.base_url)
        self._allowed = frozenset(endpoint.codes) | _ALWAYS_ALLOWED

    async def __call__(self, call: Call, scope: Scope, receive: Receive) -> ASGIApp:
        """Return the response to one call, also for failures."""
        access = self._state.access
        changes = access.own_changes
        response = await self._respond(call, scope, receive)
        if changes != access.own_changes and self._endpoint.method in UNSAFE:
            # A client that receives the response must find the access revoked in every process.
            await access.wait_for_invalidation(self._state.database)
        return response

    async def _respond(self, call: Call, scope: Scope, receive: Receive) -> ASGIApp:
        try:
            return await self._run(call, scope, receive)
        except CodedError as error:
            return self._refuse(call, error)
        except ClientGone:
            return Response(499, [])
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            log.warning("record is locked by another request", request_id=call.request_id, error=type(error).__name__)
            return self._refuse(call, RecordBusy(_RETRY_WHEN_BUSY_SECONDS))
        except psycopg.OperationalError as error:
            log.error("database unavailable", request_id=call.request_id, error=type(error).__name__)
        except RedisUnavailable:
            log.error("cache unavailable", request_id=call.request_id)
        except Exception as error:
            if _is_of_deleted_organization(error):
                # It existed when the request was admitted. The next request is refused as its rights say.
                log.warning("organisation was deleted by another request", request_id=call.request_id)
                return self._refuse(call, RecordBusy(_RETRY_WHEN_BUSY_SECONDS))
            log.exception("request failed", request_id=call.request_id, route=self._endpoint.path)
        return error_response(call, self._headers, None)

    def _refuse(self, call: Call, error: CodedError) -> Response:
        code = error.code
        if code == "VALIDATION_ERROR" and code not in self._endpoint.codes:
            code = self._endpoint.bad_input
        elif code not in self._allowed:
            what = f"{self._endpoint.method} {self._endpoint.path} answers {code}, which it does not declare"
            log.error("undeclared code", request_id=call.request_id, what=what)
            if self._state.strict:
                call.bug = UndeclaredCode(what)
            return error_response(call, self._headers, None)
        return error_response(call, self._headers, error, code)

    async def _run(self, call: Call, scope: Scope, receive: Receive) -> ASGIApp:
        endpoint = self._endpoint
        credentials = self._guard.credentials(call)
        held = HeldBody(lambda: call.client_network)
        try:
            body = b""
            if endpoint.method in UNSAFE:
                announced = _content_length(call)
                if endpoint.body_type is not None or announced > endpoint.max_body_bytes:
                    # Read before the transaction begins: a slow sender must not hold a connection of the pool.
                    body = await read_body(receive, announced, endpoint.max_body_bytes, held.add)
            admitted = Admitted()
            if self._admits:
                admitted = await self._guard.admit(call, credentials, scope["path_params"])
                lasting = self._guard.lasting(credentials, admitted.caller)
                call.confirm = partial(self._guard.admit, call, lasting, scope["path_params"])
            org = admitted.org
            if isinstance(org, OrgScope):
                call.authorized = org.organization_id
            elif admitted.caller is not None:
                call.authorized = admitted.caller.id
            if len(body) > LARGE_BODY:
                arguments = await self._decoder.run(call.sender, partial(self._arguments, call, scope, body))
            else:
                arguments = self._arguments(call, scope, body)
        finally:
            held.release()
        arguments.update((name, value) for name, value in admitted._asdict().items() if name in endpoint.arguments)
        if endpoint.kept_seconds and isinstance(org, OrgScope):
            name = f"{call.path}?{scope['query_string'].decode()}" if endpoint.query_type is not None else call.path
            kept = await self._state.cache.look_up(org, name, endpoint.kept_seconds, partial(self._fresh, org, arguments))
            return Response(endpoint.success, self._response_headers(call, "application/json"), kept)
        response = await self._carry_out(call, scope["query_string"], body, admitted, arguments)
        if endpoint.method in UNSAFE:
            own = {org.organization_id} if isinstance(org, OrgScope) else set()
            # After the commit and before the response, so that a client can read its own writes.
            for organization_id in call.also_changed | own:
                await self._state.cache.outdate(organization_id)
        return response

    async def _fresh(self, org: OrgScope, arguments: dict[str, Any]) -> bytes:
        """Return the body of a cacheable response."""
        async with self._state.shares.transaction(org) as db:
            return to_json(await self._endpoint.handler(**arguments, db=db))

    async def _carry_out(self, call: Call, query: bytes, body: bytes, admitted: Admitted, arguments: dict[str, Any]) -> ASGIApp:
        if not self._in_transaction:
            return await self._finish(call, await self._endpoint.handler(**arguments))
        reader = None if self._endpoint.method in UNSAFE else admitted.caller
        async with self._state.shares.transaction(admitted.org, reader, admitted.client_organization) as db:
            arguments["db"] = db
            first = None
            if admitted.caller is not None and self._endpoint.creates:
                first = FirstResponse.of(call, query, admitted.caller, admitted.org, body)
            if first is not None and (earlier := await first.earlier(db)) is not None:
                call.set_header("idempotency-replayed", "true")
                call.no_store()
                return Response(earlier[0], self._response_headers(call, "application/json"), earlier[1])
            response = await self._finish(call, await self._endpoint.handler(**arguments))
            if first is not None and isinstance(response, Response):
                await first.keep(db, response.status, response.body)
            return response

    def _arguments(self, call: Call, scope: Scope, body: bytes) -> dict[str, Any]:
        endpoint = self._endpoint
        arguments: dict[str, Any] = {"call": call} if "call" in endpoint.arguments else {}
        values = scope["path_params"]
        for parameter in endpoint.path_parameters:
            text = values[parameter.name]
            arguments[parameter.argument] = self._path_id(parameter.name, text) if parameter.is_uuid else look_up_text(text)
        complaints: list[str] = []
        if endpoint.query_type is not None:
            try:
                arguments["query"] = read_query(endpoint.query_type, query_pairs(scope["query_string"]))
            except ValidationFailed as error:
                complaints += error.details
        if endpoint.body_type is not None:
            try:
                arguments["body"] = self._body(call, body)
            except ValidationFailed as error:
                complaints += error.details
        if complaints:
            raise ValidationFailed(details=complaints)
        return arguments

    def _path_id(self, name: str, text: str) -> UUID:
        value = parse_uuid(text)
        if value is None:
            raise _BadPathId(self._endpoint.bad_path_id or self._endpoint.bad_input, f"{name}: must be a UUID")
        return value

    def _body(self, call: Call, body: bytes) -> Any:
        if call.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise ValidationFailed(details=["body: must not be compressed"])
        kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind not in self._endpoint.content_types:
            raise ValidationFailed(details=[f"body: must have content type {' or '.join(self._endpoint.content_types)}"])
        return body if self._endpoint.body_type is bytes else read(self._endpoint.body_type, decode_json(body))

    async def _finish(self, call: Call, result: Any) -> ASGIApp:
        status = call.status or self._endpoint.success
        if isinstance(result, Stream):
            return await self._start_stream(call, status, result)
        if result is None and status == 204:
            return Response(204, self._response_headers(call, None))
        content_type, tag = "application/json", None
        if isinstance(result, Asset):
            call.added_headers += _PAGE
            content_type, body, tag = result.content_type, result.content, result.etag
        else:
            body = to_json(result)
        is_file = tag is not None
        if self._endpoint.tagged:
            # Clients may cache it, but must revalidate it each time, because the record or their access may have changed.
            call.set_header("cache-control", "private, no-cache")
            tag = await asyncio.to_thread(entity_tag, body) if len(body) > _MOST_IN_LOOP else entity_tag(body)
        if tag is not None:
            call.set_header("etag", tag)
            if not any(name == b"cache-control" for name, _ in call.added_headers):
                call.set_header("cache-control", "no-cache")
            call.added_headers.append(VARY)
            # Weak comparison: a tag of an earlier version may be strong.
            if tag.removeprefix("W/") in call.headers.get("if-none-match", ""):
                return Response(304, self._response_headers(call, None))
        return Response(status, self._response_headers(call, content_type), body, is_file=is_file)

    async def _start_stream(self, call: Call, status: int, stream: Stream) -> ASGIApp:
        chunks = aiter(stream.chunks)
        first = await anext(chunks, b"")
        return StreamedResponse(
            status, self._response_headers(call, stream.content_type), first, chunks, stalled_seconds=stream.stalled_seconds
        )

    def _response_headers(self, call: Call, content_type: str | None) -> list[Header]:
        headers = [(b"x-request-id", call.request_id.encode())]
        if content_type is not None:
            headers.append((b"content-type", content_type.encode()))
        if not call.added_headers:
            return headers + self._headers
        replaced = {name for name, _ in call.added_headers}
        return [*headers, *call.added_headers, *(header for header in self._headers if header[0] not in replaced)]


class _BadPathId(CodedError):
    code = "INVALID_UUID"
    message = "An id in the path is not a UUID."

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(details=[detail])
        self.code = code  # type: ignore[misc]


def _is_of_deleted_organization(error: Exception) -> bool:
    """Return whether a row was refused because its organisation does not exist."""
    if not isinstance(error, psycopg.errors.ForeignKeyViolation):
        return False
    return (error.diag.constraint_name or "").endswith("organization_id_fkey")


def _content_length(call: Call) -> int:
    """Return the announced length of the body in bytes, 0 for a chunked body."""
    text = call.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def query_pairs(query: bytes) -> list[tuple[str, str]]:
    """Return the decoded names and values of a query string, in their order. A name may occur several times.

    Raises:
        ValidationFailed: The query is not percent-encoded UTF-8, or has more than 100 parameters.
    """
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise ValidationFailed(details=["query: must be percent-encoded UTF-8 of at most 100 parameters"]) from None
