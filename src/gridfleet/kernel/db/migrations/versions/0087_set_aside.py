"""Keep what is set aside because it fails by itself, with its reason, for an operator to read.

Revision ID: 0087
"""

from alembic import op

revision = "0087"
down_revision = "0086"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table that nothing else refers to."""
    op.execute(
        "CREATE TABLE set_aside (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, consumer text NOT NULL,"
        " reason text NOT NULL, content jsonb NOT NULL, cause jsonb, at timestamptz NOT NULL DEFAULT now())"
    )
