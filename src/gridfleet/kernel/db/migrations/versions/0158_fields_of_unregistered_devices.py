"""Keep the names of an unregistered device's fields, by which its template is found.

Revision ID: 0158
"""

from typing import Final

from alembic import op

revision = "0158"
down_revision = "0157"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE unregistered_device ADD COLUMN IF NOT EXISTS fields jsonb NOT NULL DEFAULT '[]'",
    "COMMENT ON COLUMN unregistered_device.fields IS"
    " 'Names of the first fields of the newest entry with fields: those that a template can declare.'",
)


def upgrade() -> None:
    """Add the column. Devices that are known already get their fields with their next message."""
    for step in _STEPS:
        op.execute(step)
