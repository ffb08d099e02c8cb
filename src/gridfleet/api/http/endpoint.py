"""Endpoint declarations: the contract of a route, declared with its handler and kept in one registry.

The OpenAPI document, the access matrix, the contract test and `gridfleet routes` all read the registry, so nothing is
declared twice.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, TypeVar, get_type_hints
from uuid import UUID

from pydantic.alias_generators import to_snake

from gridfleet.api.access.guards import CallerKind, CallerRule
from gridfleet.api.error_catalogue import CATALOGUE
from gridfleet.api.http.bodies import MAX_BODY_BYTES
from gridfleet.api.http.call import Call
from gridfleet.api.http.inputs import Input
from gridfleet.domains.partners.scopes import Scope
from gridfleet.kernel.caller import OrgScope, PlatformScope, UserCaller
from gridfleet.kernel.db import Connection

__all__ = [
    "ENDPOINTS",
    "INTERNAL_ENDPOINTS",
    "SA",
    "Endpoint",
    "PathParameter",
    "S",
    "endpoint",
    "import_handlers",
    "internal_endpoint",
]

S: Final = ("UNAUTHORIZED", "FORBIDDEN", "INTERNAL_SERVER_ERROR")
SA: Final = ("UNAUTHORIZED", "SUPER_ADMIN_REQUIRED", "INTERNAL_SERVER_ERROR")

Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])

ENDPOINTS: Final[dict[tuple[str, str], "Endpoint"]] = {}
"""Every public endpoint by method and path."""

INTERNAL_ENDPOINTS: Final[dict[tuple[str, str], Callable[..., Awaitable[str]]]] = {}
"""Handlers of the internal listener by method and path below the secret."""

_INJECTED: Final = {"call", "caller", "client", "org", "db", "query", "body"}
_PATH_PARAMETER: Final = re.compile(r"\{([A-Za-z]+)\*?\}")


@dataclass(frozen=True, slots=True)
class PathParameter:
    """A path parameter: its name in the contract, the handler's argument, and whether it is a UUID."""

    name: str
    argument: str
    is_uuid: bool


@dataclass(eq=False, slots=True)
class Endpoint:
    """The declaration of one method and path. It decorates a handler, which registers it.

    Attributes:
        method: The HTTP method.
        path: The path with parameters in braces. The last one may be the rest of the path: `{path*}`.
        caller: Who may call the endpoint.
        codes: Every error code that the endpoint may return.
        success: The status of a successful response.
        bad_path_id: The error code for a path id that is not a UUID. Default: INVALID_UUID if listed, else BAD_REQUEST if
            listed, else VALIDATION_ERROR.
        bad_input: The error code for a wrong query or body. Default: VALIDATION_ERROR if listed, else BAD_REQUEST if listed,
            else `bad_path_id`.
        response: The type of the response if the handler returns a `Stream` or `Asset`. Default: what the
            handler returns.
        response_content_types: The content types of the response.
        other_responses: Types of JSON responses by further statuses that are no errors.
        body_record: The type that describes a body of bytes.
        addition: Whether the route is not part of the contract.
        once: Whether `Idempotency-Key` is accepted. Every POST with status 201 accepts it anyway.
        content_types: The accepted content types of the body.
        max_body_bytes: The largest accepted body in bytes.
        kept_seconds: The maximum age of a cached response in seconds. A cached response may depend only on organisation,
            visible plants, path and query, and may not hold a secret. A write through REST in the organisation invalidates it.
        has_effect: Whether a GET changes something that cannot be repeated. A HEAD is then refused, because programs send it to
            check a link.
        in_document: Whether the OpenAPI document describes the endpoint.
        tagged: Whether the responses of a GET have an entity tag, so that clients keep them and ask whether they are unchanged.
            They may not hold a secret.
        handler: The function that was decorated. The attributes below are read from it.
        path_parameters: The parameters of the path, in its order.
        arguments: The names of the handler's arguments.
        query_type: The `Input` of the query, or None.
        body_type: The `Input` of the body, bytes, or None.
        summary: The first line of the handler's docstring.
        description: The rest of the docstring.
    """

    method: Method
    path: str
    _: KW_ONLY
    caller: CallerRule
    codes: tuple[str, ...]
    success: int = 200
    bad_path_id: str | None = None
    bad_input: str = ""
    response: Any = None
    response_content_types: tuple[str, ...] = ("application/json",)
    other_responses: Mapping[int, Any] = field(default_factory=dict)
    body_record: Any = None
    addition: bool = False
    once: bool = False
    content_types: tuple[str, ...] = ("application/json",)
    max_body_bytes: int = MAX_BODY_BYTES
    kept_seconds: float = 0
    has_effect: bool = False
    tagged: bool = False
    in_document: bool = True
    handler: Callable[..., Awaitable[Any]] = field(init=False)
    path_parameters: tuple[PathParameter, ...] = field(init=False)
    arguments: frozenset[str] = field(init=False)
    query_type: Any = field(init=False)
    body_type: Any = field(init=False)
    summary: str = field(init=False)
    description: str = field(init=False)

    def __call__(self, handler: Handler) -> Handler:
        """Register the handler. Raises TypeError, at import, for a contradictory declaration."""
        where = f"{self.method} {self.path} ({handler.__module__}.{handler.__qualname__})"
        hints = get_type_hints(handler, include_extras=True)
        self.handler = handler
        self.arguments = frozenset(inspect.signature(handler).parameters)
        self.path_parameters = tuple(_path_parameter(name, hints, where) for name in _PATH_PARAMETER.findall(self.path))
        self.query_type, self.body_type = hints.get("query"), hints.get("body")
        self.body_record = self.body_record or self.body_type
        self.summary, _, description = (inspect.getdoc(handler) or "").partition("\n")
        self.description = description.strip()
        unknown = self.arguments - _INJECTED - {parameter.argument for parameter in self.path_parameters}
        if unknown:
            raise TypeError(f"{where}: nothing provides {', '.join(sorted(unknown))}")
        _check_injected(hints, self.arguments, self.caller, where)
        if self.kept_seconds and (
            self.method != "GET" or self.caller.everywhere or not {"org", "db"} <= self.arguments or "call" in self.arguments
        ):
            raise TypeError(f"{where}: only a GET in an organisation that uses no more than org and db can be cached")
        if self.method != "GET" and (self.has_effect or self.tagged):
            raise TypeError(f"{where}: only a GET is declared to have an effect, or a tag")
        named = (*self.codes, *filter(None, (self.bad_path_id, self.bad_input)))
        if missing := [code for code in named if code not in CATALOGUE]:
            raise TypeError(f"{where}: unknown codes {missing}")
        if any(parameter.is_uuid for parameter in self.path_parameters) and self.bad_path_id is None:
            self.bad_path_id = _listed(self.codes, "INVALID_UUID", "BAD_REQUEST") or "VALIDATION_ERROR"
        if "return" not in hints:
            raise TypeError(f"{where}: the response type is missing")
        self.response = hints["return"] if self.response is None else self.response
        if (self.method, self.path) in ENDPOINTS:
            raise TypeError(f"{where}: registered twice")
        listed = _listed(self.codes, "VALIDATION_ERROR", "BAD_REQUEST")
        self.bad_input = self.bad_input or listed or self.bad_path_id or "VALIDATION_ERROR"
        possible = {self.bad_path_id, *_caller_codes(self.caller)}
        if {"query", "body"} & self.arguments:
            possible.add(self.bad_input)
        if undeclared := possible - {None, *self.codes}:
            raise TypeError(f"{where}: may answer {undeclared}, which codes does not list")
        ENDPOINTS[self.method, self.path] = self
        return handler

    @property
    def creates(self) -> bool:
        """Whether the endpoint accepts `Idempotency-Key`."""
        return self.method == "POST" and (self.success == 201 or self.once)


endpoint = Endpoint


def internal_endpoint(method: Literal["GET", "POST"], path: str) -> Callable[[Handler], Handler]:
    """Register `async def handler(call: Call, form: Mapping[str, str]) -> str` on the internal listener, below its secret.

    `form` holds the fields of the form body, including blank ones. The response is plain text. `path` starts with a slash.
    """

    def register(handler: Handler) -> Handler:
        if (method, path) in INTERNAL_ENDPOINTS:
            raise TypeError(f"{method} {path}: registered twice")
        INTERNAL_ENDPOINTS[method, path] = handler
        return handler

    return register


def import_handlers() -> None:
    """Import every module below `gridfleet.api`. Each registers its endpoints."""
    package = importlib.import_module("gridfleet.api")
    for module in pkgutil.walk_packages(package.__path__, "gridfleet.api."):
        importlib.import_module(module.name)


def _path_parameter(name: str, hints: Mapping[str, Any], where: str) -> PathParameter:
    argument = to_snake(name)
    kind = hints.get(argument)
    if kind is not UUID and kind is not str:
        raise TypeError(f"{where}: {argument} must be a UUID or str argument")
    return PathParameter(name, argument, kind is UUID)


def _check_injected(hints: Mapping[str, Any], arguments: frozenset[str], caller: CallerRule, where: str) -> None:
    org = OrgScope | PlatformScope if caller.everywhere else OrgScope
    expected = {"call": Call, "caller": UserCaller, "client": str, "org": org, "db": Connection}
    for name, kind in expected.items():
        if name in arguments and hints.get(name) != kind:
            raise TypeError(f"{where}: {name} must be annotated {kind}")
    for model in sorted({"query", "body"} & arguments):
        given: Any = hints.get(model)
        if not (isinstance(given, type) and issubclass(given, Input)) and (model == "query" or given is not bytes):
            raise TypeError(f"{where}: {model} must be an Input")
    if "org" in arguments and caller.kind is not CallerKind.ORG_MEMBER:
        raise TypeError(f"{where}: only org_member endpoints have an organisation")
    if "client" in arguments and caller.kind is not CallerKind.ESM_CLIENT:
        raise TypeError(f"{where}: only esm_client endpoints have a client")
    if "caller" in arguments and caller.kind in (CallerKind.PUBLIC, CallerKind.INTERNAL, CallerKind.ESM_CLIENT):
        raise TypeError(f"{where}: no user is logged in here")
    if caller.scope is not None and caller.scope not in set(Scope):
        raise TypeError(f"{where}: no key can have the scope {caller.scope}")
    if caller.scope is not None and "caller" in arguments:
        raise TypeError(f"{where}: the caller may be a key: use org.actor")
    if caller.organization is not None and f"{{{caller.organization}}}" not in where.split(" (")[0]:
        raise TypeError(f"{where}: the path does not name the organisation as {caller.organization}")


def _caller_codes(caller: CallerRule) -> set[str]:
    match caller.kind:
        case CallerKind.PUBLIC:
            return set()
        case CallerKind.SESSION:
            return {"UNAUTHORIZED"} if caller.scope is None else {"UNAUTHORIZED", caller.refusal}
        case CallerKind.INTERNAL | CallerKind.ESM_CLIENT:
            return {caller.refusal}
    return {"UNAUTHORIZED", caller.refusal}


def _listed(codes: tuple[str, ...], *wanted: str) -> str | None:
    return next((code for code in wanted if code in codes), None)
