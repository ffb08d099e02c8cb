"""Index the commands that wait for no other command, because the others are found plant by plant.

Revision ID: 0118
"""

from typing import Final

from alembic import op

revision = "0118"
down_revision = "0117"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Both statements wait for older transactions, such as a dump, and block no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS plant_command_free",
    "CREATE INDEX CONCURRENTLY plant_command_free ON plant_command (due_at)"
    " WHERE due_at IS NOT NULL AND (status <> 'PENDING' OR type = 'EMERGENCY')",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
