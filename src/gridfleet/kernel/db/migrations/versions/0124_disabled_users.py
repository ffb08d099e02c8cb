"""Let SuperAdmins disable users.

Revision ID: 0124
"""

from typing import Final

from alembic import op

revision = "0124"
down_revision = "0123"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE user_account ADD COLUMN IF NOT EXISTS disabled_at timestamptz",
    "COMMENT ON COLUMN user_account.disabled_at IS"
    " 'When a SuperAdmin disabled the account. NULL: it is enabled, and its user may log in.'",
)


def upgrade() -> None:
    """Add the column."""
    for step in _STEPS:
        op.execute(step)
