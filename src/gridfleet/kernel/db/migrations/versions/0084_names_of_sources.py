"""When a source first used a layout, so that names which a device has just begun to use are not taken for unused.

Revision ID: 0084
"""

from alembic import op

revision = "0084"
down_revision = "0083"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. The default is the same for all rows, so no table is rewritten."""
    op.execute("ALTER TABLE telemetry_latest ADD COLUMN made_at timestamptz NOT NULL DEFAULT now()")
