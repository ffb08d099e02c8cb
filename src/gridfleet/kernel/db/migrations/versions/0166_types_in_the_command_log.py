"""Index the command log of a plant by type, so that it is counted, and a rare type is found, without its entries.

Revision ID: 0166
"""

from typing import Final

from alembic import op

revision = "0166"
down_revision = "0164"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Each statement waits for older transactions, such as a dump, and blocks no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS vcp_command_log",
    "CREATE INDEX CONCURRENTLY vcp_command_log"
    " ON vcp_command (plant_id, organization_id, command_type, created_at DESC, id DESC)",
    # The schedules of a plant are found in the new one.
    "DROP INDEX CONCURRENTLY IF EXISTS vcp_command_schedules",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Replace the index of schedules by one of all types, without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
