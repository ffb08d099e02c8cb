"""Index the setpoints and modes that plants have not refused: the newest one is in force.

Revision ID: 0157
"""

from typing import Final

from alembic import op

revision = "0157"
down_revision = "0156"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS plant_command_in_force",
    "CREATE INDEX CONCURRENTLY plant_command_in_force ON plant_command (plant_id, issued_at DESC, id DESC)"
    " WHERE type IN ('SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY') AND status NOT IN ('REJECTED', 'FAILED', 'EXPIRED')",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
