"""Index the text messages sent to each user by time, to count those of a day.

Revision ID: 0167
"""

from typing import Final

from alembic import op

revision = "0167"
down_revision = "0166"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_texts",
    "CREATE INDEX CONCURRENTLY notification_log_texts ON notification_log (user_id, sent_at)"
    " WHERE channel = 'SMS' AND sent_at IS NOT NULL",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
