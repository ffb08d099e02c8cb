"""Keep the roles of a deleted sub-device's signals with its telemetry.

Revision ID: 0149
"""

from typing import Final

from alembic import op

revision = "0149"
down_revision = "0148"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE telemetry_source ADD COLUMN IF NOT EXISTS roles jsonb",
    "COMMENT ON COLUMN telemetry_source.roles IS 'Roles that the template of the sub-device declared when the sub-device was"
    " deleted, by key. NULL: it declared none, or the sub-device exists.'",
)


def upgrade() -> None:
    """Add the column. The roles of sub-devices that were deleted before are not known."""
    for step in _STEPS:
        op.execute(step)
