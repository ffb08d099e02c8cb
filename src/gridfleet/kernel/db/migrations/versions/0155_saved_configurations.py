"""Describe `trading_config.saved` as not used: a configuration is deleted with its organisation unless trading is enabled.

Revision ID: 0155
"""

from alembic import op

revision = "0155"
down_revision = "0154"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the comment. The previous release writes the column; the next release removes it."""
    op.execute("COMMENT ON COLUMN trading_config.saved IS 'Not used.'")
