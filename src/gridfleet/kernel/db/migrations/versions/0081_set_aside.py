"""Hours whose roll-up failed are set aside and tried again later.

Revision ID: 0081
"""

from alembic import op

revision = "0081"
down_revision = "0080"
branch_labels = None
depends_on = None

# The hour stays in telemetry_dirty, so that queries compute it from frames, and is left out of roll-ups until retry_at.
TABLE = """
CREATE TABLE telemetry_set_aside (
    source_id integer NOT NULL,
    hour timestamptz NOT NULL,
    error text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 1,
    retry_at timestamptz NOT NULL,
    PRIMARY KEY (source_id, hour)
)
"""


def upgrade() -> None:
    """Create the table."""
    op.execute(TABLE)
