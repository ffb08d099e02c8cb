"""Index waiting notifications by channel and due time: those of other channels are not read to find the next.

Revision ID: 0168
"""

from typing import Final

from alembic import op

revision = "0168"
down_revision = "0167"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_due_by_channel",
    "CREATE INDEX CONCURRENTLY notification_log_due_by_channel ON notification_log (channel, due_at) WHERE due_at IS NOT NULL",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
