"""Restrict every column of a closed vocabulary to its values with a CHECK.

Revision ID: 0107
"""

from typing import Final

from alembic import op

revision = "0107"
down_revision = "0095"
branch_labels = None
depends_on = None

_ACTORS: Final = "'USER', 'API_KEY', 'SYSTEM', 'ANONYMOUS'"
_COMMAND_STATES: Final = "'PENDING', 'SENT', 'RECEIVED', 'APPLIED', 'REJECTED', 'FAILED', 'EXPIRED'"
_COMMAND_TYPES: Final = "'SITE_SETPOINT', 'DEVICE_COMMAND', 'MODE_CHANGE', 'EMERGENCY', 'SCHEDULE', 'CONFIG'"
_MODES: Final = "'AUTO', 'CHARGE', 'DISCHARGE', 'STANDBY', 'SELF_CONSUMPTION', 'BACKUP', 'EMERGENCY_STOP'"
_REFUSALS: Final = (
    "'MALFORMED', 'TOO_LARGE', 'SIGNATURE_MISSING', 'SIGNATURE_INVALID', 'TIMESTAMP_OUT_OF_WINDOW', 'TIME_OUT_OF_RANGE',"
    " 'TOO_MANY_DEVICES', 'TOO_MANY_FIELDS', 'NOT_PROVISIONED', 'CREDENTIAL_UNREADABLE'"
)
_REJECTIONS: Final = (
    "'MALFORMED', 'SIGNATURE_MISSING', 'SIGNATURE_INVALID', 'TIMESTAMP_OUT_OF_WINDOW', 'DUPLICATE', 'EXPIRED', 'SITE_UNKNOWN',"
    " 'SITE_NOT_ALLOWED', 'SITE_SUSPENDED', 'ACTION_NOT_IN_TEMPLATE', 'PARAMS_INVALID', 'CONSTRAINT_VIOLATED',"
    " 'SCHEDULE_INVALID', 'DEVICE_UNKNOWN', 'EMERGENCY_STOP_ACTIVE', 'PLANT_REJECTED'"
)
_CONSUMERS: Final = (
    "'commands', 'effects', 'esm_plants', 'ingest', 'notifications', 'partner_events', 'partner_orders', 'roll_ups', 'sites'"
)
_SCOPES: Final = (
    "'plants:read', 'plants:write', 'telemetry:read', 'telemetry:write', 'commands:read', 'commands:execute', 'config:read',"
    " 'config:write', 'trading:read', 'trading:write', 'trading:connect', 'vcp:connect', 'vcp:read', 'vcp:write:setpoint',"
    " 'vcp:write:device-command', 'vcp:write:schedule', 'vcp:write:mode', 'vcp:write:config'"
)

_CHECKS: Final = (
    ("alert", "type", "type IN ('THRESHOLD_EXCEEDED')"),
    ("audit_event", "actor_type", f"actor_type IN ({_ACTORS})"),
    (
        "audit_event",
        "subject_type",
        "subject_type IN ('USER', 'SESSION', 'ORGANIZATION', 'MEMBER', 'INVITATION', 'API_KEY')",
    ),
    ("partner_event", "kind", "kind IN ('telemetry', 'status', 'command-ack', 'alert')"),
    ("partner_key", "scopes", f"scopes <@ ARRAY[{_SCOPES}]"),
    ("plant_command", "type", f"type IN ({_COMMAND_TYPES})"),
    ("plant_command", "requester_type", f"requester_type IN ({_ACTORS})"),
    ("plant_command_transition", "status", f"status IN ({_COMMAND_STATES})"),
    ("refused_message", "reason", f"reason IN ({_REFUSALS})"),
    ("set_aside", "consumer", f"consumer IN ({_CONSUMERS})"),
    ("vcp_command", "command_type", f"command_type IN ({_COMMAND_TYPES})"),
    ("vcp_command", "status", f"status IN ({_COMMAND_STATES})"),
    ("vcp_command", "rejection_reason", f"rejection_reason IN ({_REJECTIONS})"),
    ("vcp_site", "fallback_mode", f"fallback_mode IN ({_MODES})"),
    ("vcp_site", "override_mode", f"override_mode IN ({_MODES})"),
    ("vcp_unconfirmed", "confirmed_mode", f"confirmed_mode IN ({_MODES})"),
)


def upgrade() -> None:
    """Add each CHECK without looking at the rows, then validate it while readers and writers continue.

    Each step commits by itself. A repetition after an interruption replaces what exists.
    """
    with op.get_context().autocommit_block():
        for table, column, condition in _CHECKS:
            name = f"{table}_{column}_values"
            # The driver executes the text unchanged: Alembic would take the colons in it for parameters.
            connection = op.get_bind()
            connection.exec_driver_sql(
                f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}, ADD CONSTRAINT {name} CHECK ({condition}) NOT VALID"
            )
            connection.exec_driver_sql(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}")
