"""Index the plans sent to the ESM by time, so that old ones are found and deleted.

Revision ID: 0161
"""

from typing import Final

from alembic import op

revision = "0161"
down_revision = "0160"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS trading_config_change_sent",
    "CREATE INDEX CONCURRENTLY trading_config_change_sent ON trading_config_change (sent_at)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
