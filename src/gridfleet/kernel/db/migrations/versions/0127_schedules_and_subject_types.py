"""Index the schedules in the command log, and audit events by the type of their subject.

Revision ID: 0127
"""

from typing import Final

from alembic import op

revision = "0127"
down_revision = "0126"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Each statement waits for older transactions, such as a dump, and blocks no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS vcp_command_schedules",
    "CREATE INDEX CONCURRENTLY vcp_command_schedules ON vcp_command (plant_id, created_at DESC, id DESC)"
    " WHERE command_type = 'SCHEDULE'",
    "DROP INDEX CONCURRENTLY IF EXISTS audit_event_of_subject_type",
    "CREATE INDEX CONCURRENTLY audit_event_of_subject_type"
    " ON audit_event (subject_type, organization_id, created_at DESC, id DESC) WHERE subject_type IS NOT NULL",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the indexes without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
