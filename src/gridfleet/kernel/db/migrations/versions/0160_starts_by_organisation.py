"""Index the starts of sources by organisation: a new source takes the earliest of its organisation.

Revision ID: 0160
"""

from typing import Final

from alembic import op

revision = "0160"
down_revision = "0159"
branch_labels = None
depends_on = None

_STEPS: Final = tuple(
    f"CREATE INDEX IF NOT EXISTS telemetry_source_{name} ON telemetry_source (organization_id, {name})"
    for name in ("minutes_from", "quarters_from")
)


def upgrade() -> None:
    """Create the indexes."""
    for step in _STEPS:
        op.execute(step)
