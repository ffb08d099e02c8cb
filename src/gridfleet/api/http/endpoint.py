"""Endpoint declarations: the contract of a route, declared with its handler and kept in one registry.

The OpenAPI document, the access matrix, the contract test and `gridfleet routes` all read the registry, so nothing is
declared twice.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_type_hints
from uuid import UUID

from gridfleet.api.access.guards import CallerKind, CallerRule
from gridfleet.api.error_catalogue import CATALOGUE
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
_PATH_PARAMETER: Final = re.compile(r"\{([A-Za-z]+)\}")


@dataclass(frozen=True, slots=True)
class PathParameter:
    """A path parameter: its name in the contract, the handler's argument, and whether it is a UUID."""

    name: str
    argument: str
    is_uuid: bool


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method and path with its complete declaration."""

    method: Method
    path: str
    caller: CallerRule
    codes: tuple[str, ...]
    handler: Callable[..., Awaitable[Any]]
    success: int
    bad_path_id: str | None
    bad_input: str
    query_type: Any
    body_type: Any
    body_record: Any
    answer_type: Any
    answer_content_types: tuple[str, ...]
    other_answers: tuple[tuple[int, Any], ...]
    path_parameters: tuple[PathParameter, ...]
    arguments: frozenset[str]
    summary: str
    description: str
    addition: bool
    once: bool
    content_types: tuple[str, ...]
    max_body_bytes: int
    kept_seconds: float
    source_file: Path = field(repr=False)
    source_line: int = field(repr=False)

    @property
    def creates(self) -> bool:
        """Whether the endpoint accepts `Idempotency-Key`."""
        return self.method == "POST" and (self.success == 201 or self.once)


def endpoint(
    method: Method,
    path: str,
    *,
    caller: CallerRule,
    codes: tuple[str, ...],
    success: int = 200,
    bad_path_id: str | None = None,
    bad_input: str | None = None,
    answer: Any = None,
    answer_content_types: tuple[str, ...] = ("application/json",),
    other_answers: Mapping[int, Any] | None = None,
    body_record: Any = None,
    addition: bool = False,
    once: bool = False,
    content_types: tuple[str, ...] = ("application/json",),
    max_body_bytes: int = 1024 * 1024,
    kept_seconds: float = 0,
) -> Callable[[Handler], Handler]:
    """Register the handler at `method` and `path`.

    Args:
        method: The HTTP method.
        path: The path with parameters in braces.
        caller: Who may call the endpoint.
        codes: Every error code that the endpoint may return.
        success: The status of a successful response.
        bad_path_id: The error code for a path id that is not a UUID.
        bad_input: The error code for a wrong query or body. Default: VALIDATION_ERROR if listed, else BAD_REQUEST if listed,
            else `bad_path_id`.
        answer: The type of the response if the handler returns a `FileDownload`, `Stream` or `Asset`.
        answer_content_types: The content types of the response.
        other_answers: Types of JSON responses by further statuses that are no errors.
        body_record: The type that describes a body of bytes.
        addition: Whether the route is not part of the contract.
        once: Whether `Idempotency-Key` is accepted. Every POST with status 201 accepts it anyway.
        content_types: The accepted content types of the body.
        max_body_bytes: The largest accepted body in bytes.
        kept_seconds: The maximum age of a cached response in seconds. A cached response may depend only on organisation,
            visible plants, path and query, and may not hold a secret. A write through REST in the organisation invalidates it.

    Raises:
        TypeError: At import, for a contradictory declaration.
    """

    def register(handler: Handler) -> Handler:
        where = f"{method} {path} ({handler.__module__}.{handler.__qualname__})"
        hints = get_type_hints(handler, include_extras=True)
        arguments = frozenset(inspect.signature(handler).parameters)
        parameters = tuple(_path_parameter(name, hints, where) for name in _PATH_PARAMETER.findall(path))
        unknown = arguments - _INJECTED - {parameter.argument for parameter in parameters}
        if unknown:
            raise TypeError(f"{where}: nothing provides {', '.join(sorted(unknown))}")
        _check_injected(hints, arguments, caller, where)
        if kept_seconds and (method != "GET" or caller.everywhere or not {"org", "db"} <= arguments or "call" in arguments):
            raise TypeError(f"{where}: only a GET in an organisation that needs no more than org and db can be kept")
        if missing := [code for code in (*codes, bad_path_id, bad_input) if code is not None and code not in CATALOGUE]:
            raise TypeError(f"{where}: unknown codes {missing}")
        if any(parameter.is_uuid for parameter in parameters) and bad_path_id is None:
            raise TypeError(f"{where}: needs bad_path_id")
        if "return" not in hints:
            raise TypeError(f"{where}: the answer's type is missing")
        if (method, path) in ENDPOINTS:
            raise TypeError(f"{where}: registered twice")
        wrong_input = bad_input or _bad_input(codes, bad_path_id)
        possible = {bad_path_id, *_caller_codes(caller), *([wrong_input] if {"query", "body"} & arguments else [])}
        if undeclared := possible - {None, *codes}:
            raise TypeError(f"{where}: may answer {undeclared}, which codes does not list")
        documentation = inspect.getdoc(handler) or ""
        summary, _, description = documentation.partition("\n")
        ENDPOINTS[method, path] = Endpoint(
            method=method,
            path=path,
            caller=caller,
            codes=codes,
            handler=handler,
            success=success,
            bad_path_id=bad_path_id,
            bad_input=wrong_input,
            query_type=hints.get("query"),
            body_type=hints.get("body"),
            body_record=body_record or hints.get("body"),
            answer_type=hints["return"] if answer is None else answer,
            answer_content_types=answer_content_types,
            other_answers=tuple((other_answers or {}).items()),
            path_parameters=parameters,
            arguments=arguments,
            summary=summary,
            description=description.strip(),
            addition=addition,
            once=once,
            content_types=content_types,
            max_body_bytes=max_body_bytes,
            kept_seconds=kept_seconds,
            source_file=Path(handler.__code__.co_filename),
            source_line=handler.__code__.co_firstlineno,
        )
        return handler

    return register


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
    argument = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
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


def _bad_input(codes: tuple[str, ...], bad_path_id: str | None) -> str:
    return next((code for code in ("VALIDATION_ERROR", "BAD_REQUEST") if code in codes), bad_path_id or "VALIDATION_ERROR")
