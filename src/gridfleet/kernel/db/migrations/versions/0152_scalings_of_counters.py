"""Store with layouts how their counters are decoded, so that an edit of a scale makes no energy.

Revision ID: 0152
"""

from typing import Final

from alembic import op

revision = "0152"
down_revision = "0151"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE telemetry_layout ADD COLUMN IF NOT EXISTS scalings text[]",
    "COMMENT ON COLUMN telemetry_layout.scalings IS 'Field, scale and offset of each energy counter, separated by blanks."
    " NULL: there is none, or no template has used the layout since the upgrade. Element NULL: no energy counter.'",
)


def upgrade() -> None:
    """Add the column. A layout that exists gets its scalings from the next template that uses it."""
    for step in _STEPS:
        op.execute(step)
