"""Give signals of device templates a role in their plant.

Revision ID: 0122
"""

from typing import Final

from alembic import op

revision = "0122"
down_revision = "0121"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE device_template ADD COLUMN IF NOT EXISTS roles jsonb NOT NULL DEFAULT '{}'",
    'COMMENT ON COLUMN device_template.roles IS \'Roles of signals by their key, such as {"p": "pv_power"}. Apart from the'
    " signals because processes of the release before it refuse unknown members of a signal.'",
)


def upgrade() -> None:
    """Add the column. `gridfleet setup` writes the roles of the system templates."""
    for step in _STEPS:
        op.execute(step)
