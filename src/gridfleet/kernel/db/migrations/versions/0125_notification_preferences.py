"""Store what users want to be notified of, and list the deliveries of a user by time.

Revision ID: 0125
"""

from typing import Final

from alembic import op

revision = "0125"
down_revision = "0124"
branch_labels = None
depends_on = None

_SEVERITIES: Final = "ARRAY['INFO', 'WARNING', 'CRITICAL', 'EMERGENCY']"

TABLE: Final = f"""
CREATE TABLE IF NOT EXISTS notification_preference (
    user_id uuid PRIMARY KEY REFERENCES user_account ON DELETE CASCADE,
    push text[] NOT NULL CHECK (push <@ {_SEVERITIES}),
    email text[] NOT NULL CHECK (email <@ {_SEVERITIES}),
    sms text[] NOT NULL CHECK (sms <@ {_SEVERITIES}),
    quiet_hours jsonb,
    updated_at timestamptz NOT NULL DEFAULT now()
)
"""

_COMMENTS: Final = {
    "push": "Severities that the user is notified of by push.",
    "email": "Severities that the user is notified of by mail.",
    "sms": "Severities that the user is notified of by text message.",
    "quiet_hours": "Times of day from and to, timeZone, and severities that wait until the end. NULL: none.",
}

_INDEX: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_of_user",
    "CREATE INDEX CONCURRENTLY notification_log_of_user ON notification_log (user_id, created_at DESC, id DESC)",
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_user",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the table, and replace the index of users by one that has the order of the list."""
    with op.get_context().autocommit_block():
        op.execute(TABLE)
        op.execute(
            "COMMENT ON TABLE notification_preference IS"
            " 'What a user wants to be notified of. Users without a row get the default: see NotificationPreferences.'"
        )
        for column, text in _COMMENTS.items():
            op.execute(f"COMMENT ON COLUMN notification_preference.{column} IS '{text}'")
        for step in _INDEX:
            op.execute(step)
