"""Index the text messages sent to each number, and for each organisation, by time, to count those of a day.

Revision ID: 0169
"""

from typing import Final

from alembic import op

revision = "0169"
down_revision = "0168"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # All statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_texts_to",
    "CREATE INDEX CONCURRENTLY notification_log_texts_to ON notification_log (address, sent_at)"
    " WHERE channel = 'SMS' AND sent_at IS NOT NULL",
    "DROP INDEX CONCURRENTLY IF EXISTS notification_log_texts_for",
    "CREATE INDEX CONCURRENTLY notification_log_texts_for ON notification_log ((metadata->>'organizationId'), sent_at)"
    " WHERE channel = 'SMS' AND sent_at IS NOT NULL",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the indexes without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
