"""Records of audit events, and the names of events and subjects."""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec

from gridfleet.kernel.caller import ActorType

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
    USER_DISABLED = "user.disabled"
    USER_ENABLED = "user.enabled"
    USER_PASSWORD_CHANGED = "user.password_changed"
    USER_PASSWORD_REFUSED = "user.password_refused"
    USER_PASSWORD_RESET_REQUESTED = "user.password_reset_requested"
    USER_PASSWORD_RESET = "user.password_reset"
    USER_EMAIL_CHANGE_REQUESTED = "user.email_change_requested"
    USER_EMAIL_CHANGED = "user.email_changed"
    USER_PROFILE_CHANGED = "user.profile_changed"
    USER_DEFAULT_ORGANIZATION_CHANGED = "user.default_organization_changed"
    USER_NOTIFICATIONS_CHANGED = "user.notifications_changed"
    USER_NOTIFICATIONS_TESTED = "user.notifications_tested"
    USER_PUSH_TOKEN_REGISTERED = "user.push_token_registered"
    USER_PUSH_TOKEN_DELETED = "user.push_token_deleted"
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
    TRADING_SYNC_REQUESTED = "trading.sync_requested"
    TRADING_PLAN_SENT = "trading.plan_sent"
    TRADING_PLAN_VALIDATED = "trading.plan_validated"
    SANDBOX_PLANT_CREATED = "sandbox_plant.created"
    SANDBOX_PLANT_CHANGED = "sandbox_plant.changed"
    SANDBOX_PLANT_DELETED = "sandbox_plant.deleted"
    PLANT_CREATED = "plant.created"
    PLANT_CHANGED = "plant.changed"
    PLANT_MOVED = "plant.moved"
    PLANT_PROVISIONED = "plant.provisioned"
    PLANT_PACKAGE_DOWNLOADED = "plant.package_downloaded"
    PLANT_TOKEN_ISSUED = "plant.token_issued"
    PLANT_TOKEN_RENEWED = "plant.token_renewed"
    PLANT_TOKEN_REFUSED = "plant.token_refused"
    PLANT_SECRET_ROTATED = "plant.secret_rotated"
    PLANT_CERTIFICATE_RENEWED = "plant.certificate_renewed"
    PLANT_SUSPENDED = "plant.suspended"
    PLANT_REACTIVATED = "plant.reactivated"
    PLANT_REVOKED = "plant.revoked"
    PLANT_DELETED = "plant.deleted"
    SUB_DEVICE_CREATED = "sub_device.created"
    SUB_DEVICE_CHANGED = "sub_device.changed"
    SUB_DEVICE_DELETED = "sub_device.deleted"
    COMMAND_ISSUED = "command.issued"
    PLANT_GROUP_CREATED = "plant_group.created"
    PLANT_GROUP_CHANGED = "plant_group.changed"
    PLANT_GROUP_DELETED = "plant_group.deleted"
    PLANT_GROUP_PLANTS_ADDED = "plant_group.plants_added"
    PLANT_GROUP_PLANTS_REMOVED = "plant_group.plants_removed"
    DEVICE_TEMPLATE_CREATED = "device_template.created"
    DEVICE_TEMPLATE_CHANGED = "device_template.changed"
    DEVICE_TEMPLATE_DELETED = "device_template.deleted"
    ALERT_ACKNOWLEDGED = "alert.acknowledged"
    ALERT_RESOLVED = "alert.resolved"
    ALERT_RULE_CREATED = "alert_rule.created"
    ALERT_RULE_CHANGED = "alert_rule.changed"
    ALERT_RULE_DELETED = "alert_rule.deleted"
    API_KEY_CREATED = "api_key.created"
    API_KEY_CREATION_FAILED = "api_key.creation_failed"
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
    PLANT = "PLANT"
    SUB_DEVICE = "SUB_DEVICE"
    COMMAND = "COMMAND"
    PLANT_GROUP = "PLANT_GROUP"
    DEVICE_TEMPLATE = "DEVICE_TEMPLATE"
    ALERT = "ALERT"
    ALERT_RULE = "ALERT_RULE"
    SANDBOX_PLANT = "SANDBOX_PLANT"


class Subject(msgspec.Struct, frozen=True):
    """The object that an event is about.

    `plant_id` is the plant to which it belongs. None: it belongs to no single plant. A plant belongs to itself.
    """

    type: SubjectType
    id: UUID
    plant_id: UUID | None = None

    @classmethod
    def plant(cls, plant_id: UUID) -> "Subject":
        """Return a plant as the subject."""
        return cls(SubjectType.PLANT, plant_id, plant_id)

    @classmethod
    def user(cls, user_id: UUID) -> "Subject":
        """Return a user as the subject."""
        return cls(SubjectType.USER, user_id)


class AuditEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A recorded event.

    `actor_type` is USER, API_KEY, PLANT, SYSTEM or ANONYMOUS. `organization_id` is null for events without one: logins.
    `plant_id` is the plant that the event is about, directly or through one of its devices, commands, alerts or rules.
    """

    id: UUID
    event: str
    organization_id: UUID | None
    actor_type: str
    actor_id: str | None
    subject_type: str | None
    subject_id: str | None
    plant_id: UUID | None
    details: dict[str, Any]
    ip: str | None
    created_at: datetime


class AuditFilter(msgspec.Struct, frozen=True):
    """A filter of events; `since` is inclusive, `until` exclusive. None selects all. `events` lists the names to select."""

    events: tuple[str, ...] | None = None
    subject_type: SubjectType | None = None
    subject_id: str | None = None
    plant_id: UUID | None = None
    actor_type: ActorType | None = None
    actor_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
