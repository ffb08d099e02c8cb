"""Compute kept energies again by processes of this release only: those of the previous one may do so as wrongly as before.

Revision ID: 0156
"""

from typing import Final

from alembic import op

revision = "0156"
down_revision = "0155"
branch_labels = None
depends_on = None

STEP: Final = (
    "UPDATE energy_account a SET recompute_from = e.first FROM energy_account o CROSS JOIN LATERAL"
    " (SELECT hour AS first FROM plant_energy WHERE plant_id = o.plant_id ORDER BY hour LIMIT 1) AS e"
    " WHERE a.plant_id = o.plant_id"
)
_STEPS: Final = (
    "ALTER TABLE energy_account ADD COLUMN IF NOT EXISTS recompute_from timestamptz",
    "COMMENT ON COLUMN energy_account.recompute_from IS"
    " 'As missing_from, for processes that know this column: hours from here on are computed again. NULL: none.'",
    "CREATE INDEX IF NOT EXISTS energy_account_recompute ON energy_account (recompute_from) WHERE recompute_from IS NOT NULL",
    STEP,
)


def upgrade() -> None:
    """Add the column, and name the first hour of each plant in it. The job of the previous release does not read it."""
    # Each step commits by itself, so that the table is not locked while the rows change.
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
