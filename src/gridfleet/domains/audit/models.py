"""Records of audit events, and the names of events and subjects."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

__all__ = ["AuditEvent", "AuditFilter", "Event", "Subject", "SubjectType"]


class Event(StrEnum):
    """All recorded events; `docs/accounts.md` explains each."""

    USER_LOGGED_IN = "user.logged_in"
    USER_LOGIN_FAILED = "user.login_failed"
    USER_LOCKED = "user.locked"
    USER_LOGGED_OUT = "user.logged_out"
    USER_LOGGED_OUT_EVERYWHERE = "user.logged_out_everywhere"
    SESSION_REVOKED = "session.revoked"
    SESSION_TOKEN_REUSED = "session.token_reused"
    USER_REGISTERED = "user.registered"
    USER_MADE_SUPER_ADMIN = "user.made_super_admin"
    USER_PASSWORD_CHANGED = "user.password_changed"
    USER_PASSWORD_REFUSED = "user.password_refused"
    USER_PASSWORD_RESET_REQUESTED = "user.password_reset_requested"
    USER_PASSWORD_RESET = "user.password_reset"
    USER_EMAIL_CHANGE_REQUESTED = "user.email_change_requested"
    USER_EMAIL_CHANGED = "user.email_changed"
    ORGANIZATION_CREATED = "organization.created"
    ORGANIZATION_CHANGED = "organization.changed"
    ORGANIZATION_DELETED = "organization.deleted"
    MEMBER_ADDED = "member.added"
    MEMBER_ROLE_CHANGED = "member.role_changed"
    MEMBER_REMOVED = "member.removed"
    INVITATION_CREATED = "invitation.created"
    INVITATION_REVOKED = "invitation.revoked"
    INVITATION_ACCEPTED = "invitation.accepted"
    TRADING_CONFIGURED = "trading.configured"
    TRADING_ENABLED = "trading.enabled"
    TRADING_DISABLED = "trading.disabled"
    SANDBOX_ESM_ENABLED = "sandbox.enabled"
    SANDBOX_ESM_DISABLED = "sandbox.disabled"
    API_KEY_CREATED = "api_key.created"
    API_KEY_REVOKED = "api_key.revoked"
    API_KEY_TEST_CONNECTION = "api_key.test_connection"
    API_KEY_BUNDLE_ACKNOWLEDGED = "api_key.bundle_acknowledged"
    CACHE_FLUSHED = "cache.flushed"
    PARTNER_CONNECTED = "partner.connected"
    PARTNER_CONNECTION_REFUSED = "partner.connection_refused"
    PARTNER_EVENTS_DROPPED = "partner.events_dropped"
    PARTNER_QUEUE_REMOVED = "partner.queue_removed"
    CREDENTIALS_REWRAPPED = "credentials.rewrapped"
    CSP_REPORTED = "csp.reported"


class SubjectType(StrEnum):
    """The types of subject that an event can have."""

    USER = "USER"
    SESSION = "SESSION"
    ORGANIZATION = "ORGANIZATION"
    MEMBER = "MEMBER"
    INVITATION = "INVITATION"
    API_KEY = "API_KEY"


class Subject(msgspec.Struct, frozen=True):
    """The object that an event is about."""

    type: SubjectType
    id: UUID


class AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A recorded event.

    `actor_type` is USER, API_KEY, SYSTEM or ANONYMOUS; `organization_id` is null for events without one, such as a login.
    """

    id: UUID
    event: str
    organization_id: UUID | None
    actor_type: str
    actor_id: str | None
    subject_type: str | None
    subject_id: str | None
    details: dict[str, Any]
    ip: str | None
    created_at: datetime


class AuditFilter(msgspec.Struct, frozen=True):
    """A filter of events; `since` is inclusive, `until` exclusive. None does not filter."""

    event: str | None = None
    since: datetime | None = None
    until: datetime | None = None
