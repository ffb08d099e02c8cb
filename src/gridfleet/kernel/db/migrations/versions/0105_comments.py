"""Describe the tables of accounts, plants and telemetry, and their columns, with COMMENT ON.

Revision ID: 0105
"""

from typing import Final

from alembic import op
from psycopg.sql import SQL, Identifier, Literal

revision = "0105"
down_revision = "0091"
branch_labels = None
depends_on = None

_CAUSE: Final = "Request id and trace of the request or message that caused the row, as JSON. NULL: unknown."
_KEY_VERSION: Final = "Version of the key in GRIDFLEET_KEYS that the row's secrets are encrypted with."
_ROLLUP: Final = {
    "source_id": "telemetry_source.id. No foreign key: rows are erased piece by piece after their plant.",
    "layout_id": "telemetry_layout.id, which names the metric of each array element.",
    "bucket": "Start of the interval, in UTC.",
    "counts": "Number of values of each metric; 0 without a value.",
    "sums": "Sum of the values of each metric times 2^-32, which cannot overflow. Element NULL: no value.",
    "lows": "Smallest value of each metric, in its unit. Element NULL: no value.",
    "highs": "Largest value of each metric, in its unit. Element NULL: no value.",
    "firsts": "Earliest value of each metric, in its unit. Element NULL: no value.",
    "lasts": "Latest value of each metric, in its unit. Element NULL: no value.",
}

_COMMENTS: Final[dict[str, dict[str, str]]] = {
    # The entry "" describes the table itself.
    "organization": {
        "": "Tenants. Every record belongs to one, except those of the service itself.",
        "slug": "Name in lower case for broker users, vhosts and queues. It cannot change while an API key uses it.",
        "description": "NULL: none.",
    },
    "user_account": {
        "": "Accounts of users.",
        "email": "Address in lower case, which the user logs in with.",
        "password_hash": "Argon2 hash with its parameters.",
        "is_super_admin": "Whether the user administers the whole deployment.",
        "token_version": "Access tokens with another version are refused. It is increased to end all sessions at once.",
        "default_organization_id": "Organisation that the console opens. NULL: none.",
        "phone": "Number for text messages. NULL: none are sent.",
    },
    "login_failure": {
        "": "Wrong passwords by e-mail address, so that addresses with and without an account are locked alike.",
        "email_hash": "SHA-256 of the address in lower case, or of another text that a password is tried on.",
        "failed_at": "Times of the failures within the last 15 minutes.",
        "locked_until": "Logins are refused until then. NULL: not locked.",
    },
    "membership": {
        "": "The role of a user in an organisation.",
        "role": "ORG_ADMIN includes OPERATOR, which includes VIEWER.",
    },
    "user_session": {
        "": "Logins. A session holds refresh tokens until it expires or is revoked.",
        "token_version": "user_account.token_version at the login. Another value there ends the session.",
        "ip": "Address of the client at the login. NULL: unknown.",
        "user_agent": "Header of the client at the login. NULL: none.",
        "last_used_at": "Last renewal of the access token.",
        "expires_at": "End of the session if it is not renewed before.",
        "revoked_at": "When the session was ended. NULL: it was not.",
    },
    "refresh_token": {
        "": "Refresh tokens of sessions. Rotated ones stay, so that their reuse is detected.",
        "token_hash": "SHA-256 of the token.",
        "session_id": "The session.",
        "expires_at": "The token is refused from then on.",
        "rotated_at": "When a new token replaced this one. NULL: it is current.",
    },
    "idempotent_answer": {
        "": "First responses to requests with an Idempotency-Key, kept for 24 hours.",
        "user_id": "The caller: id of a user or of an API key, hence without a foreign key.",
        "scope": "Organisation, method and path in which the key is unique.",
        "key": "Value of the header.",
        "request_hash": "Hash of the request. The key with another request is refused.",
        "status": "HTTP status of the response. NULL: the request is running.",
        "answer": "Encrypted response. NULL: the request is running.",
        "key_version": f"{_KEY_VERSION} NULL: the request is running.",
    },
    "invitation": {
        "": "Invitations of e-mail addresses to organisations.",
        "email": "Invited address, in lower case.",
        "role": "Role that the new member gets.",
        "status": "PENDING, ACCEPTED, EXPIRED or REVOKED. An ACCEPTED one may still wait for the registration.",
        "token_hash": "SHA-256 of the token in the mail.",
        "invited_by": "user_account.id. No foreign key: the invitation stays when its author is deleted.",
        "expires_at": "The token is refused from then on.",
        "accepted_at": "When the invitation was accepted. NULL: it was not.",
        "used_at": "When the user became a member. NULL: not yet.",
    },
    "email_change": {
        "": "The pending change of a user's e-mail address; at most one per user.",
        "email": "New address, in lower case.",
        "token_hash": "SHA-256 of the token in the mail.",
        "requested_at": "When the change was requested.",
        "expires_at": "The token is refused from then on.",
    },
    "password_reset": {
        "": "The pending password reset of a user; at most one per user.",
        "token_hash": "SHA-256 of the token in the mail.",
        "requested_at": "When the reset was requested.",
        "expires_at": "The token is refused from then on.",
    },
    "audit_event": {
        "": "Who did what, when and from where. Without foreign keys: an event outlives its subject.",
        "event": "Kind of event, such as user.logged_in; docs/accounts.md lists them.",
        "organization_id": "Organisation that may read the event. NULL: only SuperAdmins may.",
        "actor_type": "USER, API_KEY, SYSTEM or ANONYMOUS.",
        "actor_id": "Id of the user or API key. NULL: the service itself, or unknown.",
        "subject_type": "Kind of the record that the event is about. NULL: none.",
        "subject_id": "Id of that record. NULL: none.",
        "details": "More about the event, without secrets.",
        "ip": "Address of the client. NULL: no client.",
    },
    "device_template": {
        "": "Definitions of device types, for all organisations. Versions of one name are separate rows.",
        "type": "Kind of device.",
        "level": "Whether the template describes a plant itself or a sub-device.",
        "version": "Number of the version, from 1.",
        "is_system": "Whether the service ships the template. It cannot be changed then.",
        "signals": "Signals with unit, scale and limits, as JSON.",
        "actions": "Actions with their parameters, as JSON.",
    },
    "plant": {
        "": "Sites with batteries, solar or meters, each one MQTT client.",
        "serial_number": "Serial number of the controller, unique in its organisation.",
        "type": "Kind of the controller.",
        "auth_method": "How the plant authenticates to the broker.",
        "lifecycle_status": "PENDING, then ACTIVE or SUSPENDED; DECOMMISSIONED is final.",
        "status": "Presence. UNKNOWN until the plant is first seen.",
        "template_id": "Template of the plant's own fields. NULL: it has none.",
        "external_plant_id": "Id of the plant in the ESM. NULL: not linked.",
        "metadata": "Free JSON of the organisation.",
        "activated_at": "When the plant was provisioned first. NULL: never.",
        "last_seen_at": "Last message. NULL: never seen.",
        "usual_interval_seconds": "Usual seconds between messages. NULL: not known yet.",
        "last_auth_failure_at": "Last refused login at the broker. NULL: none.",
        "auth_failure_count": "Refused logins since the last successful one.",
        "secret_rotated_at": "When the signing key was replaced. NULL: never.",
        "certificate_expires_at": "End of the client certificate. NULL: no certificate.",
        "certificate_fingerprint": "SHA-256 of the client certificate in hex. NULL: no certificate.",
        "certificate_serial_number": "Serial number of the client certificate in hex. NULL: no certificate.",
        "previous_certificate_serial_number": "The certificate before a renewal. NULL: none is valid any more.",
        "previous_certificate_valid_until": "The previous certificate is accepted until then. NULL: there is none.",
        "capacity_kwh": "Battery capacity in kWh, from the ESM. NULL: unknown.",
        "config_enabled": "Whether the ESM accepts plans for the plant. NULL: unknown.",
        "description": "Text from the ESM. NULL: unknown.",
        "esi_state": "State of the controller in the ESM's own words. NULL: unknown.",
        "fve_peak_power_kwp": "Peak power of the solar modules in kW, from the ESM. NULL: unknown.",
        "latitude": "Degrees north, from the ESM. NULL: unknown.",
        "longitude": "Degrees east, from the ESM. NULL: unknown.",
        "plant_with_load": "Whether consumers are connected, from the ESM. NULL: unknown.",
        "tag": "Label from the ESM. NULL: unknown.",
        "status_reason": "Why the status changed last, such as silent. NULL: not stated.",
        "status_cause": _CAUSE,
    },
    "certificate_authority": {
        "": "The deployment's certificate authority, in one row, so that every process issues from the same one.",
        "id": "Always true: there is one row.",
        "certificate": "PEM.",
        "private_key": "Encrypted private key.",
        "key_version": _KEY_VERSION,
    },
    "plant_secret": {
        "": "Secrets of plants, apart from their records so that no list of plants contains one.",
        "key_version": _KEY_VERSION,
        "hmac_secret": "Encrypted signing key.",
        "previous_hmac_secret": "Encrypted signing key before a rotation. NULL: none is valid any more.",
        "previous_valid_until": "The previous signing key is accepted until then. NULL: there is none.",
        "password_hash": "Hash of the MQTT password. NULL: the plant uses another method.",
        "package": "Encrypted provisioning package, until it is downloaded. NULL: there is none.",
        "package_valid_until": "The package can be downloaded until then. NULL: there is none.",
    },
    "sub_device": {
        "": "Batteries, inverters and meters behind a plant.",
        "external_id": "Name of the device in the plant's messages.",
        "serial_number": "NULL: unknown.",
        "template_id": "Template of the device's fields. NULL: its values are not decoded.",
        "type": "Kind of device.",
        "status": "Status that the plant reports. UNKNOWN until it does.",
        "metadata": "Free JSON of the organisation.",
        "last_seen_at": "Last snapshot with the device. NULL: never seen.",
        "usual_interval_seconds": "Usual seconds between snapshots with the device. NULL: not known yet.",
    },
    "refused_message": {
        "": "Messages of plants that were not accepted.",
        "received_at": "When the message was read from its queue.",
        "topic": "MQTT topic.",
        "reason": "Code of the reason.",
        "detail": "What is wrong, in words.",
        "message_id": "Id in the envelope. NULL: none could be read.",
        "bytes": "Size of the message in bytes.",
    },
    "unregistered_device": {
        "": "Devices in snapshots that no sub-device of the plant matches.",
        "external_id": "Name of the device in the snapshots.",
        "first_seen_at": "First snapshot with the device.",
        "last_seen_at": "Newest snapshot with the device.",
        "count": "Number of snapshots with the device.",
    },
    "plant_group": {
        "": "Named groups of plants of an organisation.",
        "description": "NULL: none.",
    },
    "plant_group_member": {
        "": "Plants in groups.",
        "plant_group_id": "The group.",
    },
    "plant_command": {
        "": "Commands to plants. The row is also the command's place in the queue.",
        "sub_device_id": "Device that the command is for. NULL: the plant itself, or a deleted device.",
        "type": "Type of the command.",
        "target": "External id of the device that the command is for. NULL: the plant itself.",
        "instruction": "Content of the command as it is sent, without ids and times.",
        "status": "PENDING, SENT and RECEIVED are open; the others are final.",
        "requester_type": "USER, API_KEY or SYSTEM.",
        "requester_id": "Id of the user or API key. NULL: the service itself.",
        "issued_at": "When the command was created.",
        "expires_at": "The plant must not carry it out from then on.",
        "sent_at": "When it was sent first. NULL: not yet.",
        "received_at": "When the plant acknowledged its receipt. NULL: not yet.",
        "finished_at": "When it reached its final state. NULL: it is open.",
        "reason": "Code and message of a command that did not succeed. NULL: none.",
        "due_at": "When the command is sent next. NULL: it is not sent again.",
        "attempts": "How often it was sent since the plant last connected.",
        "cause": _CAUSE,
    },
    "plant_command_transition": {
        "": "The states that a command has reached, each once.",
        "command_id": "The command.",
        "status": "The state.",
        "at": "When the service recorded it.",
        "late": "Whether the acknowledgement came after the end of the command and changed nothing.",
        "reported_at": "Time in the plant's acknowledgement. NULL: the service made the step.",
        "reason": "Code and message from the plant or the service. NULL: none.",
        "cause": _CAUSE,
    },
    "plant_command_withdrawn": {
        "": "Commands that must not be sent any more and end soon.",
        "command_id": "The command.",
        "at": "The command ends then, unless the plant has acknowledged it.",
    },
    "telemetry_source": {
        "": "What reports: a plant itself or one of its sub-devices. It outlives both until its telemetry is erased.",
        "plant_id": "plant.id. No foreign key: telemetry of a deleted plant is erased piece by piece afterwards.",
        "organization_id": "organization.id of the plant. No foreign key, for the same reason.",
        "sub_device_id": "The sub-device. NULL: the plant itself, or a deleted device.",
        "external_id": "Name of the device in the plant's messages. NULL: the plant itself.",
        "raw_from": "Retention has deleted the frames before this time.",
        "minutes_from": "Retention has deleted the roll-ups of 1 minute before this time.",
        "quarters_from": "Retention has deleted the roll-ups of 15 minutes before this time.",
    },
    "telemetry_layout": {
        "": "Which metric stands at which position of a frame. Sources with equal metrics share a layout; it never changes.",
        "digest": "SHA-256 of the content, to find an equal layout.",
        "metrics": "Key of each metric.",
        "units": "Unit of each metric; empty without a unit.",
        "counters": "Whether each metric is a counter, which only rises until it is reset.",
        "minimums": "Lower limit of each metric. Element NULL: none.",
        "maximums": "Upper limit of each metric. Element NULL: none.",
    },
    "telemetry_frame": {
        "": "Measured values: one row per source, time and layout. One partition per UTC day.",
        "source_id": _ROLLUP["source_id"],
        "layout_id": _ROLLUP["layout_id"],
        "time": "When the values were measured.",
        "vals": "Value of each metric in its unit. Element NULL: not measured.",
    },
    "telemetry_latest": {
        "": "Newest value of every metric of a source and layout.",
        "source_id": "The source.",
        "layout_id": "Layout, which names the metric of each array element.",
        "time": "When the newest of the values was measured.",
        "vals": "Newest value of each metric in its unit. Element NULL: never measured.",
        "absent": "Positions without a value, from 0, joined by commas.",
        "times": "When each value was measured. NULL: all at `time`.",
        "made_at": "When the source used the layout first.",
    },
    "telemetry_minute": {"": "Roll-ups of 1 minute. One partition per UTC day.", **_ROLLUP},
    "telemetry_quarter": {"": "Roll-ups of 15 minutes. One partition per month.", **_ROLLUP},
    "telemetry_hour": {"": "Roll-ups of 1 hour.", **_ROLLUP},
    "telemetry_day": {"": "Roll-ups of 1 UTC day.", **_ROLLUP},
    "telemetry_dirty": {
        "": "Closed hours whose roll-ups do not contain all frames yet. Rows are only added and deleted; an hour may repeat.",
        "source_id": _ROLLUP["source_id"],
        "hour": "Start of the hour.",
    },
    "telemetry_seal": {
        "": "Watermark of the roll-ups, in one row.",
        "single": "Always true: there is one row.",
        "sealed_before": "Hours from this time on are open: they are in no roll-up and not in telemetry_dirty.",
    },
    "telemetry_set_aside": {
        "": "Hours whose roll-up failed. They stay in telemetry_dirty and are tried again.",
        "source_id": _ROLLUP["source_id"],
        "hour": "Start of the hour.",
        "error": "Newest error.",
        "failed_at": "First failure.",
        "attempts": "Number of failures.",
        "retry_at": "The hour is tried again then.",
    },
    "telemetry_retention": {
        "": "Retention of organisations that differ from the deployment's settings.",
        "raw_days": "Days for which frames are kept. NULL: as the deployment.",
        "minute_days": "Days for which roll-ups of 1 minute are kept. NULL: as the deployment.",
        "quarter_days": "Days for which roll-ups of 15 minutes are kept. NULL: as the deployment.",
    },
    "ingest_shard": {
        "": "Shard queues of ingest. The age of a message is judged by the time its queue was last empty.",
        "shard": "Number of the queue, from 0.",
        "drained_at": "The queue was last known to be empty then.",
    },
}


def upgrade() -> None:
    """Write the comments. Readers and writers continue: the locks only exclude other changes of the schema."""
    cursor = op.get_bind().connection.cursor()
    for table, comments in _COMMENTS.items():
        for column, comment in comments.items():
            named = SQL("COLUMN {}").format(Identifier(table, column)) if column else SQL("TABLE {}").format(Identifier(table))
            cursor.execute(SQL("COMMENT ON {} IS {}").format(named, Literal(comment)))
