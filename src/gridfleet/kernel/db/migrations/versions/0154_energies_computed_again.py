"""Compute the kept energies of all hours again: they may be of readings in the wrong order.

Revision ID: 0154
"""

from typing import Final

from alembic import op

revision = "0154"
down_revision = "0153"
branch_labels = None
depends_on = None

STEP: Final = (
    "UPDATE energy_account a SET missing_from = least(a.missing_from, e.first) FROM energy_account o CROSS JOIN LATERAL"
    " (SELECT hour AS first FROM plant_energy WHERE plant_id = o.plant_id ORDER BY hour LIMIT 1) AS e"
    " WHERE a.plant_id = o.plant_id"
)


def upgrade() -> None:
    """Name the first hour of each plant. A job computes the hours from there on that still have their frames."""
    op.execute(STEP)
