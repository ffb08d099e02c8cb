"""Index the alerts that are not resolved by plant, which lists and totals of a fleet count.

Revision ID: 0129
"""

from typing import Final

from alembic import op

revision = "0129"
down_revision = "0128"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Building without a lock for writers still waits for each transaction that writes.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS alert_open",
    "CREATE INDEX CONCURRENTLY alert_open ON alert (organization_id, plant_id, severity) WHERE status <> 'RESOLVED'",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index while alerts are written."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
