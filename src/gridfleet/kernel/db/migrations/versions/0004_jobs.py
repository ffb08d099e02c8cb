"""The job queue's own tables and functions.

Revision ID: 0004
"""

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Installs the queue as its library defines it; its later versions bring migrations of their own."""
    op.get_bind().connection.cursor().execute(SchemaManager.get_schema())
