"""Describe which metrics of a layout have a scaling: also those that a role alone makes an energy counter.

Revision ID: 0172
"""

from typing import Final

from alembic import op

revision = "0172"
down_revision = "0171"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "COMMENT ON COLUMN telemetry_layout.scalings IS 'Field, scale and offset of each metric that is an energy counter or"
    " becomes one by a role alone, separated by blanks. NULL: not known. A NULL element: none, or not known.'",
)


def upgrade() -> None:
    """Change the comment. A layout gets its scalings from the next device that uses it."""
    for step in _STEPS:
        op.execute(step)
