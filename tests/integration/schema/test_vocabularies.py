"""Columns of a closed vocabulary have a CHECK with exactly the values of their enum."""

import re
from enum import Enum

import pytest
from psycopg import errors

from gridfleet.domains.alerts.models import AlertStatus, AlertType, Condition, Severity
from gridfleet.domains.audit.models import SubjectType
from gridfleet.domains.consumers import Consumer
from gridfleet.domains.device_templates.models import DeviceType, TemplateLevel
from gridfleet.domains.notifications.models import Channel, NotificationStatus
from gridfleet.domains.organizations.invitations.models import InvitationStatus
from gridfleet.domains.organizations.models import RoleName
from gridfleet.domains.partners.scopes import Scope
from gridfleet.domains.plants.commands.models import CommandStatus
from gridfleet.domains.plants.models import AuthMethod, Lifecycle, PlantStatus, PlantType
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.domains.sandbox_esm.models import EsiState
from gridfleet.domains.trading.models import TradingStatus
from gridfleet.domains.vcp.confirmation.models import Kind
from gridfleet.kernel.caller import ActorType
from gridfleet.kernel.db import Database
from gridfleet.protocol.envelope import CommandType, RefusalReason
from gridfleet.protocol.partner_messages import Mode, PartnerAck, RejectionReason
from gridfleet.protocol.partner_routes import EventKind

ENUMS: dict[str, type[Enum]] = {
    "alert.condition": Condition,
    "alert.severity": Severity,
    "alert.status": AlertStatus,
    "alert.type": AlertType,
    "alert_rule.condition": Condition,
    "alert_rule.severity": Severity,
    "audit_event.actor_type": ActorType,
    "audit_event.subject_type": SubjectType,
    "device_template.level": TemplateLevel,
    "device_template.type": DeviceType,
    "invitation.role": RoleName,
    "invitation.status": InvitationStatus,
    "membership.role": RoleName,
    "notification_log.channel": Channel,
    "notification_log.status": NotificationStatus,
    "notification_preference.email": Severity,
    "notification_preference.push": Severity,
    "notification_preference.sms": Severity,
    "partner_event.kind": EventKind,
    "partner_key.scopes": Scope,
    "plant.auth_method": AuthMethod,
    "plant.lifecycle_status": Lifecycle,
    "plant.status": PlantStatus,
    "plant.type": PlantType,
    "plant_command.requester_type": ActorType,
    "plant_command.status": CommandStatus,
    "plant_command.type": CommandType,
    "plant_command_transition.status": CommandStatus,
    "refused_message.reason": RefusalReason,
    "sandbox_esm_plant.esi_state": EsiState,
    "set_aside.consumer": Consumer,
    "sub_device.status": SubDeviceStatus,
    "sub_device.type": DeviceType,
    "trading_config.status": TradingStatus,
    "vcp_command.ack_status": PartnerAck,
    "vcp_command.command_type": CommandType,
    "vcp_command.rejection_reason": RejectionReason,
    "vcp_command.status": CommandStatus,
    "vcp_site.fallback_mode": Mode,
    "vcp_site.override_mode": Mode,
    "vcp_unconfirmed.confirmed_mode": Mode,
    "vcp_unconfirmed.kind": Kind,
}

OPEN = {
    "audit_event.event": "grows with every feature; no event may be lost because its name is new",
    "outbox.kind": "each domain registers its own kinds of effect",
    "plant.esi_state": "the ESM's own word",
    "plant.status_reason": "the plant's own text",
    "push_token.platform": "the app's own text",
    "set_aside.reason": "the text of an error",
    "trading_config_change.result_code": "the ESM's own word",
}
"""Columns without a CHECK although their name sounds like a vocabulary, with the reason."""

_NAME = re.compile(
    r"(^|_)(type|status|state|kind|mode|role|level|severity|channel|condition|method|reason|consumer|platform|event|result_code)$"
)
_VALUE = re.compile(r"'([^']*)'::text")


async def checks(database: Database) -> dict[str, set[str]]:
    """Return the values that a CHECK of one column allows, by table.column."""
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT t.relname || '.' || a.attname, pg_get_constraintdef(c.oid), c.convalidated FROM pg_constraint c"
            " JOIN pg_class t ON t.oid = c.conrelid JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]"
            " WHERE c.contype = 'c' AND cardinality(c.conkey) = 1 AND t.relnamespace = 'public'::regnamespace"
        )
        rows = await cursor.fetchall()
    assert all(validated for _, _, validated in rows), "a constraint that is not validated says nothing about older rows"
    return {column: values for column, text, _ in rows if (values := set(_VALUE.findall(text)))}


async def test_each_check_has_the_values_of_its_enum(database: Database) -> None:
    found = await checks(database)
    assert found == {column: {str(member.value) for member in enum} for column, enum in ENUMS.items()}


async def test_every_column_that_sounds_like_a_vocabulary_is_listed(database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT table_name || '.' || column_name, column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND data_type = 'text'"
        )
        rows = await cursor.fetchall()
    assert {column for column, name in rows if _NAME.search(name)} - ENUMS.keys() == OPEN.keys()


async def test_another_value_is_refused(database: Database) -> None:
    with pytest.raises(errors.CheckViolation, match="set_aside_consumer_values"):
        async with database.transaction() as db:
            await db.execute("INSERT INTO set_aside (consumer, reason, content) VALUES ('another', '', '{}')")
