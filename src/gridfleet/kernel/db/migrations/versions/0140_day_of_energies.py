"""Describe the day of the energies of plants, which is no longer that of UTC.

Revision ID: 0140
"""

from alembic import op

revision = "0140"
down_revision = "0139"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the comment. Counts of the UTC day continue until they are those of the organisation's day."""
    op.execute(
        "COMMENT ON COLUMN plant_power.energy_day IS 'Day of the energies, in the time zone of the organisation."
        " NULL: nothing was counted yet.'"
    )
