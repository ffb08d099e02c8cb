"""Store since when a plant has its link to the ESM: a plan for a former link is not in force.

Revision ID: 0171
"""

from typing import Final

from alembic import op

revision = "0171"
down_revision = "0170"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE plant ADD COLUMN IF NOT EXISTS linked_at timestamptz",
    "COMMENT ON COLUMN plant.linked_at IS 'When external_plant_id changed or the plant moved. NULL: never.'",
)


def upgrade() -> None:
    """Add the column."""
    for step in _STEPS:
        op.execute(step)
