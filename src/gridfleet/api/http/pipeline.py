"""The processing of a request by an endpoint. The contract fixes the order of the checks:

authentication → organisation → role or scope → path ids → query and body → the handler (existence, state) → commit → response.
"""

import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import psycopg
import structlog
from litestar.types import ASGIApp, Receive
from psycopg_pool import PoolClosed, PoolTimeout

from gridfleet.api.access.guards import CallerKind
from gridfleet.api.access.idempotency import FirstAnswer
from gridfleet.api.http.bodies import ClientGone, decode_json, read_body
from gridfleet.api.http.call import Call
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.api.http.errors import AccessRefused, UndeclaredCode, envelope
from gridfleet.api.http.inputs import InvalidInput, build_checker, parse_uuid, storable, text_reader
from gridfleet.api.http.json_out import build_writer
from gridfleet.api.http.responses import Answer, Asset, FileDownload, Header, Stream, StreamedAnswer
from gridfleet.api.state import AppState
from gridfleet.domains.organizations.membership import everywhere, scope_of
from gridfleet.domains.partners import rest_access
from gridfleet.domains.sandbox_esm import access as sandbox_esm
from gridfleet.kernel.caller import Caller, KeyCaller, OrgScope, PlatformScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import CodedError, Forbidden, Unauthorized, ValidationFailed
from gridfleet.kernel.redis_link import RedisAway

__all__ = ["SESSION_COOKIE", "Pipeline", "error_answer", "security_headers"]

SESSION_COOKIE = "gridfleet_session"

_ALWAYS_ALLOWED = frozenset({"TOO_MANY_REQUESTS", "PAYLOAD_TOO_LARGE", "INTERNAL_SERVER_ERROR"})
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_JSON: Header = (b"content-type", b"application/json")
_PAGE: tuple[Header, ...] = (
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)

log = structlog.get_logger(__name__)


def security_headers(base_url: str) -> list[Header]:
    """Return the headers of every response: they forbid framing, sniffing, scripts, caching and loading by other sites."""
    headers = [
        (b"server", b"gridfleet"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]
    if base_url.startswith("https://"):
        headers.append((b"strict-transport-security", b"max-age=31536000"))
    return headers


def error_answer(call: Call, headers: list[Header], error: CodedError | None, code: str | None = None) -> Answer:
    """Return the envelope of a coded error, or of an unexpected failure if `error` is None. `code` replaces the error's."""
    if error is None:
        status, body = envelope("INTERNAL_SERVER_ERROR", "Something went wrong on our side.")
        extra: list[Header] = []
    else:
        replaced = code is not None and code != error.code
        status, body = envelope(code or error.code, error.text, error.details, None if replaced else error.status)
        extra = [(name.lower().encode(), value.encode("latin-1")) for name, value in error.headers.items()]
    return Answer(status, [_JSON, (b"x-request-id", call.request_id.encode()), *extra, *headers], body)


class _Credentials(NamedTuple):
    """The credentials of a call. At least one of the two is set."""

    access_token: str | None
    key: str | None


class Pipeline:
    """An endpoint bound to the state of the process, with everything prepared that does not depend on the call."""

    def __init__(self, endpoint: Endpoint, state: AppState) -> None:
        self._endpoint = endpoint
        self._state = state
        self._kind = endpoint.caller.kind
        self._known = self._kind not in (CallerKind.PUBLIC, CallerKind.INTERNAL, CallerKind.ESM_CLIENT)
        self._in_transaction = "db" in endpoint.arguments
        self._read_query = text_reader(endpoint.query_type) if endpoint.query_type is not None else None
        self._check_body = build_checker(endpoint.body_type) if endpoint.body_type is not None else None
        self._write = build_writer(endpoint.answer_type)
        self._headers = security_headers(state.settings.base_url)
        self._allowed = frozenset(endpoint.codes) | _ALWAYS_ALLOWED
        # An endpoint that declares no refusal for authenticated callers accepts no keys: a key then counts as no credential.
        self._key_refusal = endpoint.caller.refusal if endpoint.caller.refusal in endpoint.codes else "UNAUTHORIZED"
        base = urlsplit(state.settings.base_url)
        self._origin = f"{base.scheme}://{base.netloc}"

    async def __call__(self, call: Call, scope: Any, receive: Receive) -> ASGIApp:
        """Return the response to one call, also for failures."""
        access = self._state.access
        changes = access.own_changes
        answer = await self._answer(call, scope, receive)
        if changes != access.own_changes and self._endpoint.method in _UNSAFE:
            # A client that receives the response must find the access revoked in every process.
            await access.wait_for_invalidation(self._state.database)
        return answer

    async def _answer(self, call: Call, scope: Any, receive: Receive) -> ASGIApp:
        try:
            return await self._run(call, scope, receive)
        except InvalidInput as error:
            return self._refuse(call, ValidationFailed(details=error.complaints))
        except CodedError as error:
            return self._refuse(call, error)
        except ClientGone:
            return Answer(499, [])
        except (PoolTimeout, PoolClosed, psycopg.OperationalError) as error:
            log.error("database unavailable", request_id=call.request_id, error=type(error).__name__)
            return error_answer(call, self._headers, None)
        except RedisAway:
            log.error("cache unavailable", request_id=call.request_id)
            return error_answer(call, self._headers, None)
        except Exception:
            log.exception("request failed", request_id=call.request_id, route=self._endpoint.path)
            return error_answer(call, self._headers, None)

    def _refuse(self, call: Call, error: CodedError) -> Answer:
        code = error.code
        if code == "VALIDATION_ERROR" and code not in self._endpoint.codes:
            code = self._endpoint.bad_input
        elif code not in self._allowed:
            what = f"{self._endpoint.method} {self._endpoint.path} answers {code}, which it does not declare"
            log.error("undeclared code", request_id=call.request_id, what=what)
            if self._state.strict:
                call.bug = UndeclaredCode(what)
            return error_answer(call, self._headers, None)
        return error_answer(call, self._headers, error, code)

    async def _run(self, call: Call, scope: Any, receive: Receive) -> ASGIApp:
        endpoint = self._endpoint
        credentials = self._credentials(call) if self._known else _Credentials(None, None)
        if self._kind is CallerKind.INTERNAL:
            self._require_internal(call)
        body = b""
        if endpoint.method in _UNSAFE:
            announced = _content_length(call)
            if self._check_body is not None or announced > endpoint.max_body_bytes:
                # Read before the transaction begins: a slow sender must not hold a connection of the pool.
                body = await read_body(receive, announced, endpoint.max_body_bytes)
        caller = org = client = None
        if self._kind is CallerKind.ESM_CLIENT:
            client = await self._esm_client(call)
        if self._known:
            caller, org = await self._admit(call, credentials, scope["path_params"])
            call.authorize_again = partial(self._admit, call, credentials, scope["path_params"])
        arguments = self._arguments(call, scope, body)
        for name, value in (("caller", caller), ("org", org), ("client", client)):
            if name in endpoint.arguments:
                arguments[name] = value
        if endpoint.kept_seconds and isinstance(org, OrgScope):
            place = f"{call.path}?{scope['query_string'].decode()}" if endpoint.query_type is not None else call.path
            kept = await self._state.cache.remembered(org, place, endpoint.kept_seconds, partial(self._fresh, arguments))
            return Answer(endpoint.success, self._answer_headers(call, "application/json"), kept)
        answer = await self._carry_out(call, scope["query_string"], body, caller, org, arguments)
        if endpoint.method in _UNSAFE and isinstance(org, OrgScope):
            # After the commit and before the response, so that a client can read its own writes.
            for organization_id in call.also_changed | {org.organization_id}:
                await self._state.cache.outdate(organization_id)
        return answer

    async def _fresh(self, arguments: dict[str, Any]) -> bytes:
        """Return the body of a cacheable response."""
        async with self._state.database.transaction() as db:
            return self._write(await self._endpoint.handler(**arguments, db=db))

    async def _carry_out(
        self,
        call: Call,
        query: bytes,
        body: bytes,
        caller: Caller | None,
        org: OrgScope | PlatformScope | None,
        arguments: dict[str, Any],
    ) -> ASGIApp:
        endpoint = self._endpoint
        if not self._in_transaction:
            return await self._finish(call, await endpoint.handler(**arguments))
        async with self._state.database.transaction() as db:
            arguments["db"] = db
            if caller is None or not endpoint.creates:
                return await self._finish(call, await endpoint.handler(**arguments))
            return await self._create(call, query, body, db, caller, org, arguments)

    async def _create(
        self,
        call: Call,
        query: bytes,
        body: bytes,
        db: Connection,
        caller: Caller,
        org: OrgScope | PlatformScope | None,
        arguments: dict[str, Any],
    ) -> ASGIApp:
        first = FirstAnswer.of(call, query, caller, org, body)
        if first is not None and (earlier := await first.earlier(db)) is not None:
            call.set_header("idempotency-replayed", "true")
            call.no_store()
            return Answer(earlier[0], self._answer_headers(call, "application/json"), earlier[1])
        answer = await self._finish(call, await self._endpoint.handler(**arguments))
        if first is not None and isinstance(answer, Answer):
            await first.keep(db, answer.status, answer.body)
        return answer

    async def _admit(
        self, call: Call, credentials: _Credentials, path_params: Mapping[str, str]
    ) -> tuple[Caller, OrgScope | PlatformScope | None]:
        person = await self._person(call, credentials)
        if person is not None:
            return person, await self._authorize(call, person, path_params)
        program = await self._state.access.key(self._state.database, credentials.key or "", call.client_ip)
        return program, self._authorize_key(call, program)

    async def _person(self, call: Call, credentials: _Credentials) -> UserCaller | None:
        """Return the user of the session, or None if only an API key remains to be checked."""
        if credentials.access_token is None:
            return None
        try:
            return await self._state.access.caller(self._state.database, credentials.access_token, call.client_ip)
        except Unauthorized:
            if credentials.key is None:
                raise
            return None

    def _authorize_key(self, call: Call, program: KeyCaller) -> OrgScope | None:
        rule = self._endpoint.caller
        named = call.headers.get("x-org-id")
        if named is not None and parse_uuid(named.strip()) != program.organization_id:
            raise AccessRefused(self._key_refusal)
        if rule.scope is None or rule.scope not in program.scopes:
            raise AccessRefused(self._key_refusal)
        if rule.min_role is None:
            return None
        return rest_access.scope_of(program, rule.min_role)

    async def _authorize(
        self, call: Call, caller: UserCaller, path_params: Mapping[str, str]
    ) -> OrgScope | PlatformScope | None:
        rule = self._endpoint.caller
        if rule.kind is CallerKind.SUPER_ADMIN and not caller.is_super_admin:
            raise AccessRefused(rule.refusal)
        if rule.min_role is None:
            return None
        if rule.organization is not None:
            organization_id: UUID | None = self._path_id(rule.organization, path_params[rule.organization])
        elif rule.everywhere and caller.is_super_admin and "x-org-id" not in call.headers:
            return everywhere(caller)
        else:
            organization_id = parse_uuid(call.headers.get("x-org-id", "").strip())
        if organization_id is None:
            raise Forbidden("Name the organisation to act in with the x-org-id header, by its id (a UUID).")
        membership = await self._state.access.role(self._state.database, caller, organization_id)
        org = scope_of(caller, organization_id, membership, must_exist=rule.organization is None)
        if org.role < rule.min_role:
            raise Forbidden(f"This takes at least the role {rule.min_role.name}; yours is {org.role.name}.")
        return org

    async def _esm_client(self, call: Call) -> str:
        token = _bearer(call)
        if token is None:
            raise Unauthorized
        async with self._state.database.transaction() as db:
            return await sandbox_esm.client_of(db, token)

    def _credentials(self, call: Call) -> _Credentials:
        key = call.headers.get("x-api-key")
        try:
            return _Credentials(self._access_token(call), key)
        except (Unauthorized, Forbidden):
            if key is None:
                raise
            return _Credentials(None, key)

    def _access_token(self, call: Call) -> str:
        bearer = _bearer(call)
        if bearer is not None:
            return bearer
        token = call.cookies.get(SESSION_COOKIE, "")
        if not token:
            raise Unauthorized
        if call.method in _UNSAFE and not self._is_same_origin(call):
            raise Forbidden if "FORBIDDEN" in self._allowed else Unauthorized
        return token

    def _is_same_origin(self, call: Call) -> bool:
        fetch_site = call.headers.get("sec-fetch-site")
        if fetch_site is not None:
            return fetch_site == "same-origin"
        origin = call.headers.get("origin", "")
        return origin == self._origin or (origin != "" and urlsplit(origin).netloc == call.headers.get("host"))

    def _require_internal(self, call: Call) -> None:
        settings = self._state.settings
        if settings.environment != "production":
            return
        secret = settings.secret("internal_secret").get_secret_value()
        if not hmac.compare_digest(call.headers.get("x-internal-auth", "").encode(), secret.encode()):
            raise Forbidden

    def _arguments(self, call: Call, scope: Any, body: bytes) -> dict[str, Any]:
        endpoint = self._endpoint
        arguments: dict[str, Any] = {"call": call} if "call" in endpoint.arguments else {}
        values = scope["path_params"]
        for parameter in endpoint.path_parameters:
            text = values[parameter.name]
            arguments[parameter.argument] = self._path_id(parameter.name, text) if parameter.is_uuid else storable(text)
        complaints: list[str] = []
        if self._read_query is not None:
            try:
                arguments["query"] = self._read_query(_query_pairs(scope["query_string"]))
            except InvalidInput as error:
                complaints += error.complaints
        if self._check_body is not None:
            try:
                arguments["body"] = self._body(call, body)
            except InvalidInput as error:
                complaints += error.complaints
        if complaints:
            raise InvalidInput(complaints)
        return arguments

    def _path_id(self, name: str, text: str) -> UUID:
        value = parse_uuid(text)
        if value is None:
            raise _BadPathId(self._endpoint.bad_path_id or self._endpoint.bad_input, f"{name}: must be a UUID")
        return value

    def _body(self, call: Call, body: bytes) -> Any:
        if call.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise InvalidInput(["body: must not be compressed"])
        kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind not in self._endpoint.content_types:
            raise InvalidInput([f"body: must have content type {' or '.join(self._endpoint.content_types)}"])
        check: Callable[[Any, str, list[str]], Any] | None = self._check_body
        complaints: list[str] = []
        value = body if self._endpoint.body_type is bytes else decode_json(body)
        record = check(value, "", complaints) if check is not None else None
        if complaints:
            raise InvalidInput(complaints)
        return record

    async def _finish(self, call: Call, result: Any) -> ASGIApp:
        status = call.status or self._endpoint.success
        if isinstance(result, Stream):
            return await self._start_stream(call, status, result)
        if isinstance(result, FileDownload):
            call.set_header("content-disposition", result.disposition)
            content = result.content if isinstance(result.content, bytes) else self._write(result.content)
            return Answer(status, self._answer_headers(call, result.content_type), content)
        if isinstance(result, Asset):
            call.added_headers += _PAGE
            return Answer(status, self._answer_headers(call, result.content_type), result.content)
        if result is None and status == 204:
            return Answer(204, self._answer_headers(call, None))
        return Answer(status, self._answer_headers(call, "application/json"), self._write(result))

    async def _start_stream(self, call: Call, status: int, stream: Stream) -> ASGIApp:
        chunks = aiter(stream.chunks)
        first = await anext(chunks, b"")
        return StreamedAnswer(status, self._answer_headers(call, stream.content_type), first, chunks)

    def _answer_headers(self, call: Call, content_type: str | None) -> list[Header]:
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


def _bearer(call: Call) -> str | None:
    """Return the token of the authorization header, or None without the header. Raises Unauthorized for any other scheme."""
    authorization = call.headers.get("authorization")
    if authorization is None:
        return None
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized
    return token.strip()


def _content_length(call: Call) -> int:
    """Return the announced length of the body in bytes, 0 for a chunked body."""
    text = call.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _query_pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise InvalidInput(["query: must be percent-encoded UTF-8 of at most 100 parameters"]) from None
