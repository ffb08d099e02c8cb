"""Commands that must not be sent any more are withdrawn, even while another transaction holds them.

Revision ID: 0086
"""

from alembic import op

revision = "0086"
down_revision = "0085"
branch_labels = None
depends_on = None

# A command in it is not sent, and ends at `at` unless its plant has acknowledged it; then its row here is deleted.
TABLE = """
CREATE TABLE plant_command_withdrawn (
    command_id uuid PRIMARY KEY REFERENCES plant_command ON DELETE CASCADE,
    at timestamptz NOT NULL
)
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(TABLE)
