"""Keep the place of the AUTO that ends an emergency stop until the plant confirms a mode.

Revision ID: 0119
"""

from typing import Final

from alembic import op

revision = "0119"
down_revision = "0118"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE vcp_unconfirmed ADD COLUMN IF NOT EXISTS stop_ended_at timestamptz",
    "COMMENT ON COLUMN vcp_unconfirmed.stop_ended_at IS"
    " 'Place of the AUTO that ended an emergency stop. NULL: the plant has confirmed a mode since, or was not stopped.'",
)


def upgrade() -> None:
    """Add the column."""
    for step in _STEPS:
        op.execute(step)
