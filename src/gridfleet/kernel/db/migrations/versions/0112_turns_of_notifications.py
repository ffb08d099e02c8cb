"""Index waiting notifications by organisation, so that organisations take turns.

Revision ID: 0112
"""

from typing import Final

from alembic import op

revision = "0112"
down_revision = "0111"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_turns",
    "CREATE INDEX CONCURRENTLY notification_log_turns"
    " ON notification_log (channel, coalesce(metadata->>'organizationId', ''), due_at) WHERE due_at IS NOT NULL",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
