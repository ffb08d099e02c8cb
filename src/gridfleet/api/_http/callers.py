"""Who may call an endpoint, declared beside it; the pipeline enforces it and the access matrix test reads it."""

from dataclasses import dataclass
from enum import StrEnum

from gridfleet.kernel.caller import OrgRole

__all__ = ["CallerKind", "CallerRule", "esm_client", "internal", "org_member", "public", "session", "super_admin"]


class CallerKind(StrEnum):
    """What a caller must bring."""

    PUBLIC = "public"
    SESSION = "session"
    ORG_MEMBER = "org_member"
    SUPER_ADMIN = "super_admin"
    INTERNAL = "internal"
    ESM_CLIENT = "esm_client"


@dataclass(frozen=True, slots=True)
class CallerRule:
    """The caller an endpoint asks for.

    `refusal` is the code for a known caller who may not. `scope` names the API-key scope that would also open the
    endpoint; None means never by key. `organization` names the path parameter that holds the organisation; None means the
    `x-org-id` header. `everywhere` lets a SuperAdmin leave the organisation out, for all of them.
    """

    kind: CallerKind
    refusal: str = "FORBIDDEN"
    min_role: OrgRole | None = None
    scope: str | None = None
    organization: str | None = None
    everywhere: bool = False


def public() -> CallerRule:
    """Anybody."""
    return CallerRule(CallerKind.PUBLIC)


def session(scope: str | None = None) -> CallerRule:
    """Any person with a valid session."""
    return CallerRule(CallerKind.SESSION, scope=scope)


def super_admin(code: str = "SUPER_ADMIN_REQUIRED") -> CallerRule:
    """A SuperAdmin; everybody else who is logged in gets `code`."""
    return CallerRule(CallerKind.SUPER_ADMIN, refusal=code)


def org_member(
    min_role: OrgRole, scope: str | None = None, *, organization: str | None = None, everywhere: bool = False
) -> CallerRule:
    """A member, with at least `min_role`, of the organisation in `x-org-id` or in the path parameter `organization`.

    In the path a SuperAdmin may name one that does not exist, and finds it empty. With `everywhere` he may name none, and
    the handler's `org` is then a `PlatformScope`.
    """
    return CallerRule(CallerKind.ORG_MEMBER, min_role=min_role, scope=scope, organization=organization, everywhere=everywhere)


def esm_client() -> CallerRule:
    """A client of the sandbox ESM with a token of the sandbox's; nobody else's counts."""
    return CallerRule(CallerKind.ESM_CLIENT, refusal="UNAUTHORIZED")


def internal() -> CallerRule:
    """Anybody in development; in production only with the internal secret in `x-internal-auth`."""
    return CallerRule(CallerKind.INTERNAL)
