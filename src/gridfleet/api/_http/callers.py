"""Who may call an endpoint, declared beside it; the pipeline enforces it and the access matrix test reads it."""

from dataclasses import dataclass
from enum import StrEnum

from gridfleet.kernel.caller import OrgRole

__all__ = ["CallerKind", "CallerRule", "internal", "org_member", "public", "session", "super_admin"]


class CallerKind(StrEnum):
    """What a caller must bring."""

    PUBLIC = "public"
    SESSION = "session"
    ORG_MEMBER = "org_member"
    SUPER_ADMIN = "super_admin"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class CallerRule:
    """The caller an endpoint asks for.

    `refusal` is the code for a known caller who may not. `scope` names the API-key scope that would also open the
    endpoint; None means never by key.
    """

    kind: CallerKind
    refusal: str = "FORBIDDEN"
    min_role: OrgRole | None = None
    scope: str | None = None


def public() -> CallerRule:
    """Anybody."""
    return CallerRule(CallerKind.PUBLIC)


def session(scope: str | None = None) -> CallerRule:
    """Any person with a valid session."""
    return CallerRule(CallerKind.SESSION, scope=scope)


def super_admin(code: str = "SUPER_ADMIN_REQUIRED") -> CallerRule:
    """A SuperAdmin; everybody else who is logged in gets `code`."""
    return CallerRule(CallerKind.SUPER_ADMIN, refusal=code)


def org_member(min_role: OrgRole, scope: str | None = None) -> CallerRule:
    """A member of the organisation in `x-org-id` with at least `min_role`."""
    return CallerRule(CallerKind.ORG_MEMBER, min_role=min_role, scope=scope)


def internal() -> CallerRule:
    """Anybody in development; in production only with the internal secret in `x-internal-auth`."""
    return CallerRule(CallerKind.INTERNAL)
