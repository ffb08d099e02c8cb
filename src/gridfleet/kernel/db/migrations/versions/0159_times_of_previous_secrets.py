"""Store since when a plant had its previous secret, whose tokens are valid for an hour after a rotation.

Revision ID: 0159
"""

from typing import Final

from alembic import op

revision = "0159"
down_revision = "0158"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE plant_secret ADD COLUMN IF NOT EXISTS previous_rotated_at timestamptz",
    "COMMENT ON COLUMN plant_secret.previous_rotated_at IS"
    " 'The rotation that issued the previous signing key. NULL: it was issued with the package, or there is none.'",
)


def upgrade() -> None:
    """Add the column."""
    for step in _STEPS:
        op.execute(step)
