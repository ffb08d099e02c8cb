"""Let the senders of commands make those of connected plants due.

Revision ID: 0143
"""

from alembic import op

revision = "0143"
down_revision = "0142"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.execute(
        "CREATE TABLE IF NOT EXISTS plant_command_wake (plant_id uuid PRIMARY KEY REFERENCES plant ON DELETE CASCADE,"
        " connected_at timestamptz NOT NULL)"
    )
    op.execute(
        "COMMENT ON TABLE plant_command_wake IS 'Plants that have connected, and whose unacknowledged commands are to be sent"
        " again.'"
    )
    op.execute("COMMENT ON COLUMN plant_command_wake.connected_at IS 'When the plant connected, first.'")
