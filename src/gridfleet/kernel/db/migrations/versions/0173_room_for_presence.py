"""Leave half of each new page of plants and sub-devices free, for the next version of every row.

The ingest updates these rows with each message. Where a page has room, the update changes no index.

Revision ID: 0173
"""

from typing import Final

from alembic import op

revision = "0173"
down_revision = "0172"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE plant SET (fillfactor = 50)",
    "ALTER TABLE sub_device SET (fillfactor = 50)",
)


def upgrade() -> None:
    """Change the parameters. Full pages get room when their rows move."""
    for step in _STEPS:
        op.execute(step)
