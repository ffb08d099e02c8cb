"""Caller rules: who may call an endpoint. The pipeline enforces them, and the access matrix test reads them."""

from dataclasses import dataclass
from enum import StrEnum

from gridfleet.kernel.caller import OrgRole

__all__ = ["CallerKind", "CallerRule", "esm_client", "internal", "org_member", "public", "session", "super_admin"]


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
    """

    kind: CallerKind
    refusal: str = "FORBIDDEN"
    min_role: OrgRole | None = None
    scope: str | None = None
    organization: str | None = None
    everywhere: bool = False


def public() -> CallerRule:
    """Require no credentials."""
    return CallerRule(CallerKind.PUBLIC)


def session(scope: str | None = None) -> CallerRule:
    """Require a user with a valid session."""
    return CallerRule(CallerKind.SESSION, scope=scope)


def super_admin(code: str = "SUPER_ADMIN_REQUIRED") -> CallerRule:
    """Require a SuperAdmin. Other logged-in users get the error `code`."""
    return CallerRule(CallerKind.SUPER_ADMIN, refusal=code)


def org_member(
    min_role: OrgRole, scope: str | None = None, *, organization: str | None = None, everywhere: bool = False
) -> CallerRule:
    """Require a member, with at least `min_role`, of the organisation in `x-org-id` or in the path parameter `organization`.

    A SuperAdmin may name an organisation in the path that does not exist, and finds it empty. With `everywhere` a SuperAdmin
    may omit the organisation; the handler's `org` is then a `PlatformScope`.
    """
    return CallerRule(CallerKind.ORG_MEMBER, min_role=min_role, scope=scope, organization=organization, everywhere=everywhere)


def esm_client() -> CallerRule:
    """Require a client of the sandbox ESM with a token that the sandbox issued."""
    return CallerRule(CallerKind.ESM_CLIENT, refusal="UNAUTHORIZED")


def internal() -> CallerRule:
    """Require the internal secret in `x-internal-auth` in production, and nothing in development."""
    return CallerRule(CallerKind.INTERNAL)
