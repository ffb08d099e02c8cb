"""Describe the roles that are kept with telemetry as those of earlier templates.

Revision ID: 0150
"""

from alembic import op

revision = "0150"
down_revision = "0149"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the comment of the column, which named deleted sub-devices only."""
    op.execute(
        "COMMENT ON COLUMN telemetry_source.roles IS 'Roles by key that earlier templates of the device declared, of keys that"
        " had values. They count in layouts without a key that has a role now. NULL: there was no other template.'"
    )
