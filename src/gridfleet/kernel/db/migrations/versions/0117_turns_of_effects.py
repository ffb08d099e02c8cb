"""Index waiting effects by organisation, so that organisations take turns.

Revision ID: 0117
"""

from typing import Final

from alembic import op

revision = "0117"
down_revision = "0116"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS outbox_turns",
    "CREATE INDEX CONCURRENTLY outbox_turns ON outbox (kind, coalesce(payload->>'organizationId', ''), due_at)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
