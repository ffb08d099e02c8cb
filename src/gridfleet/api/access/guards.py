"""Caller rules: who may call an endpoint. A guard enforces the rule of an endpoint, and the access matrix test reads it."""

import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from gridfleet.domains.identity.access_tokens import AccessClaims
from gridfleet.domains.organizations.membership import everywhere, scope_of
from gridfleet.domains.partners import rest_access
from gridfleet.domains.sandbox_esm import access as sandbox_esm
from gridfleet.kernel.caller import Caller, KeyCaller, OrgRole, OrgScope, PlatformScope, UserCaller
from gridfleet.kernel.errors import CodedError, Forbidden, Unauthorized
from gridfleet.kernel.ids import parse_uuid

if TYPE_CHECKING:
    from gridfleet.api.http.call import Call
    from gridfleet.api.state import AppState

__all__ = [
    "SESSION_COOKIE",
    "UNSAFE",
    "Admitted",
    "CallerKind",
    "CallerRule",
    "Guard",
    "esm_client",
    "internal",
    "org_member",
    "public",
    "session",
    "super_admin",
]

SESSION_COOKIE: Final = "gridfleet_session"

ORGANIZATION_PARAMETER: Final = "organizationId"
"""Query parameter that names the organisation of endpoints with `by_query`."""

UNSAFE: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods that change something. A cookie is accepted for them only from the service's own pages."""


class CallerKind(StrEnum):
    """The kind of credentials that an endpoint requires."""

    PUBLIC = "public"
    SESSION = "session"
    ORG_MEMBER = "org_member"
    SUPER_ADMIN = "super_admin"
    INTERNAL = "internal"
    ESM_CLIENT = "esm_client"


@dataclass(frozen=True, slots=True)
class CallerRule:
    """The caller that an endpoint requires.

    Attributes:
        kind: The kind of credentials.
        refusal: The error code for an authenticated caller without permission.
        min_role: The lowest role in the organisation, or None.
        scope: The API-key scope that also opens the endpoint. None refuses API keys.
        organization: The path parameter that holds the organisation. None means the `x-org-id` header.
        everywhere: Whether a SuperAdmin may omit the organisation to act in all of them.
        by_query: Whether the query parameter `organizationId` may name the organisation instead of the header.
    """

    kind: CallerKind
    refusal: str = "FORBIDDEN"
    min_role: OrgRole | None = None
    scope: str | None = None
    organization: str | None = None
    everywhere: bool = False
    by_query: bool = False


public = partial(CallerRule, CallerKind.PUBLIC)
"""Require no credentials."""

internal = partial(CallerRule, CallerKind.INTERNAL)
"""Require the internal secret in `x-internal-auth` in production, and nothing in development."""

esm_client = partial(CallerRule, CallerKind.ESM_CLIENT, refusal="UNAUTHORIZED")
"""Require a client of the sandbox ESM with a token that the sandbox issued."""


def session(scope: str | None = None) -> CallerRule:
    """Require a user with a valid session or, with `scope`, an API key that has the scope."""
    return CallerRule(CallerKind.SESSION, scope=scope)


def super_admin(code: str = "SUPER_ADMIN_REQUIRED") -> CallerRule:
    """Require a SuperAdmin. Other logged-in users get the error `code`."""
    return CallerRule(CallerKind.SUPER_ADMIN, refusal=code)


def org_member(
    min_role: OrgRole,
    scope: str | None = None,
    *,
    organization: str | None = None,
    everywhere: bool = False,
    by_query: bool = False,
) -> CallerRule:
    """Require a member, with at least `min_role`, of the organisation in `x-org-id` or in the path parameter `organization`.

    A SuperAdmin may name an organisation in the path that does not exist, and finds it empty. With `everywhere` a SuperAdmin
    may omit the organisation; the handler's `org` is then a `PlatformScope`. With `by_query` the query parameter
    `organizationId` may name the organisation, for a browser's `EventSource`, which sends no headers of the page.
    """
    return CallerRule(
        CallerKind.ORG_MEMBER,
        min_role=min_role,
        scope=scope,
        organization=organization,
        everywhere=everywhere,
        by_query=by_query,
    )


class AccessRefused(CodedError):
    """An authenticated caller lacks permission. Carries the code that the endpoint declares for this case."""

    code = "FORBIDDEN"
    message = "You may not do this."

    def __init__(self, code: str) -> None:
        super().__init__("Only a SuperAdmin may do this." if code == "SUPER_ADMIN_REQUIRED" else None)
        self.code = code  # type: ignore[misc]


class _Credentials(NamedTuple):
    """The credentials of a call. At least one of the two is set."""

    access_token: str | AccessClaims | None
    key: str | None


class Admitted(NamedTuple):
    """Who a call comes from: a user or API key, the organisation that it acts in, or a client of the sandbox ESM.

    `client_organization` is the organisation of the client, in whose share of the connections its requests are counted.
    """

    caller: Caller | None = None
    org: OrgScope | PlatformScope | None = None
    client: str | None = None
    client_organization: UUID | None = None


class Guard:
    """The caller rule of one endpoint, bound to the state of the process."""

    def __init__(
        self, rule: CallerRule, codes: Collection[str], path_id: Callable[[str, str], UUID], state: "AppState"
    ) -> None:
        """Prepare the checks.

        Args:
            rule: The rule of the endpoint.
            codes: The error codes that the endpoint declares.
            path_id: Returns the UUID of a path parameter from its name and text, or raises.
            state: The state of the process.
        """
        self._rule = rule
        self._state = state
        self._path_id = path_id
        self._origin_refusal: type[Forbidden | Unauthorized] = Forbidden if "FORBIDDEN" in codes else Unauthorized
        # An endpoint that declares no refusal for authenticated callers accepts no keys: a key then counts as no credential.
        self._key_refusal = rule.refusal if rule.refusal in codes else "UNAUTHORIZED"
        base = urlsplit(state.settings.base_url)
        self._origin = f"{base.scheme}://{base.netloc}"

    def credentials(self, call: "Call") -> _Credentials | None:
        """Return the credentials, before the body is read; None where the rule needs no session or key.

        Raises:
            Unauthorized: If there are none.
            Forbidden: If a cookie comes from the page of another site, or the internal secret is wrong.
        """
        if self._rule.kind is CallerKind.INTERNAL:
            self._require_internal(call)
        if self._rule.kind in (CallerKind.PUBLIC, CallerKind.INTERNAL, CallerKind.ESM_CLIENT):
            return None
        key = call.headers.get("x-api-key")
        try:
            return _Credentials(self._access_token(call), key)
        except (Unauthorized, Forbidden):
            if key is None:
                raise
            return _Credentials(None, key)

    def lasting(self, credentials: _Credentials | None, caller: Caller | None) -> _Credentials | None:
        """Return the credentials of the caller for later checks, which accept an access token that has expired since."""
        if credentials is None or not isinstance(caller, UserCaller):
            return credentials and credentials._replace(access_token=None)
        token = credentials.access_token
        return _Credentials(self._state.access.claims(token) if isinstance(token, str) else token, None)

    async def admit(self, call: "Call", credentials: _Credentials | None, path_params: Mapping[str, str]) -> Admitted:
        """Return the caller of the request. Raises a `CodedError` if the rule excludes the caller."""
        if self._rule.kind is CallerKind.ESM_CLIENT:
            async with self._state.database.transaction() as db:
                return Admitted(None, None, *await sandbox_esm.client_of(db, bearer_token(call)))
        if credentials is None:
            return Admitted()
        user = await self._user(call, credentials)
        if user is not None:
            return Admitted(user, await self._authorize(call, user, path_params))
        key = await self._state.access.key(self._state.database, credentials.key or "", call.client_ip)
        return Admitted(key, self._authorize_key(call, key))

    async def _user(self, call: "Call", credentials: _Credentials) -> UserCaller | None:
        """Return the user of the session, or None if only an API key remains to be checked."""
        if credentials.access_token is None:
            return None
        try:
            return await self._state.access.caller(self._state.database, credentials.access_token, call.client_ip)
        except Unauthorized:
            if credentials.key is None:
                raise
            return None

    def _authorize_key(self, call: "Call", key: KeyCaller) -> OrgScope | None:
        rule = self._rule
        if any(parse_uuid(named.strip()) != key.organization_id for named in self._named(call)):
            raise AccessRefused(self._key_refusal)
        if rule.scope is None or rule.scope not in key.scopes:
            raise AccessRefused(self._key_refusal)
        return None if rule.min_role is None else rest_access.scope_of(key, rule.min_role)

    async def _authorize(
        self, call: "Call", caller: UserCaller, path_params: Mapping[str, str]
    ) -> OrgScope | PlatformScope | None:
        rule = self._rule
        if rule.kind is CallerKind.SUPER_ADMIN and not caller.is_super_admin:
            raise AccessRefused(rule.refusal)
        if rule.min_role is None:
            return None
        if rule.organization is not None:
            organization_id: UUID | None = self._path_id(rule.organization, path_params[rule.organization])
        elif rule.everywhere and caller.is_super_admin and "x-org-id" not in call.headers:
            return everywhere(caller)
        else:
            named = {parse_uuid(text.strip()) for text in self._named(call)}
            organization_id = named.pop() if len(named) == 1 else None
        if organization_id is None:
            place = f"header or the {ORGANIZATION_PARAMETER} parameter" if rule.by_query else "header"
            raise Forbidden(f"Name the organisation to act in with the x-org-id {place}, by its id (a UUID).")
        membership = await self._state.access.role(self._state.database, caller, organization_id)
        org = scope_of(caller, organization_id, membership, must_exist=rule.organization is None)
        if org.role < rule.min_role:
            raise Forbidden(f"This call requires the role {rule.min_role.name}; yours is {org.role.name}.")
        return org

    def _named(self, call: "Call") -> list[str]:
        """Return the organisation's id as the call names it: in the header, in the query, or in both."""
        texts = call.headers.get("x-org-id"), call.query_value(ORGANIZATION_PARAMETER) if self._rule.by_query else None
        return [text for text in texts if text is not None]

    def _access_token(self, call: "Call") -> str:
        if "authorization" in call.headers:
            return bearer_token(call)
        token = call.cookies.get(SESSION_COOKIE, "")
        if not token:
            raise Unauthorized
        if call.method in UNSAFE and not self._is_same_origin(call):
            raise self._origin_refusal
        return token

    def _is_same_origin(self, call: "Call") -> bool:
        fetch_site = call.headers.get("sec-fetch-site")
        if fetch_site is not None:
            return fetch_site == "same-origin"
        origin = call.headers.get("origin", "")
        host = origin.partition("://")[2]
        return origin == self._origin or (host != "" and host == call.headers.get("host"))

    def _require_internal(self, call: "Call") -> None:
        settings = self._state.settings
        if settings.environment != "production":
            return
        secret = settings.secret("internal_secret").get_secret_value()
        if not hmac.compare_digest(call.headers.get("x-internal-auth", "").encode(), secret.encode()):
            raise Forbidden


def bearer_token(call: "Call") -> str:
    """Return the token of the authorization header. Raises Unauthorized without one or for any other scheme."""
    scheme, _, token = call.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized
    return token.strip()
