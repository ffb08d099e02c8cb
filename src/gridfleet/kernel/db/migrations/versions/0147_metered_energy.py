"""Keep the energies of a fleet's plants with a meter at the grid, from which its consumption is computed.

Revision ID: 0147
"""

from typing import Final

from alembic import op

revision = "0147"
down_revision = "0146"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # Each statement waits for older transactions, such as a dump, and blocks no other process meanwhile.
    "SET lock_timeout = '10min'",
    "COMMENT ON COLUMN fleet_energy.energies IS 'mWh, as in plant_energy; and, in the same way, of the plants whose meter at"
    " the grid measured in the hour: produced + discharged - charged, and produced. A job completes rows of 20 values.'",
    # A killed CREATE INDEX CONCURRENTLY leaves an index that is not used: it is made again.
    "DROP INDEX CONCURRENTLY IF EXISTS fleet_energy_incomplete",
    "CREATE INDEX CONCURRENTLY fleet_energy_incomplete ON fleet_energy (organization_id, hour)"
    " WHERE cardinality(energies) = 20",
    "SET lock_timeout = '1s'",
)


def upgrade() -> None:
    """Create the index of the rows to complete, without blocking writes. The previous release writes such rows, too."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
