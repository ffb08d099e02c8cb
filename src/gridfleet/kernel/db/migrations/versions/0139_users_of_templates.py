"""Index plants and sub-devices by organisation and template.

Revision ID: 0139
"""

from typing import Final

from alembic import op

revision = "0139"
down_revision = "0138"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Each statement waits for older transactions, such as a dump, and blocks no other process meanwhile.
    "SET lock_timeout = '10min'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS sub_device_by_template",
    "CREATE INDEX CONCURRENTLY sub_device_by_template ON sub_device (organization_id, template_id, plant_id DESC)",
    # The new index begins with the same column.
    "DROP INDEX CONCURRENTLY IF EXISTS sub_device_organization",
    "DROP INDEX CONCURRENTLY IF EXISTS plant_by_template",
    "CREATE INDEX CONCURRENTLY plant_by_template ON plant (organization_id, template_id, id DESC)",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the indexes without blocking writes."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
