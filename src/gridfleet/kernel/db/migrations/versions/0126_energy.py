"""Keep the energy of each plant and hour, and its totals for each organisation.

Revision ID: 0126
"""

from typing import Final

from alembic import op

revision = "0126"
down_revision = "0125"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "CREATE TABLE IF NOT EXISTS plant_energy (plant_id uuid NOT NULL, hour timestamptz NOT NULL, energies bigint[] NOT NULL,"
    " falls boolean NOT NULL, PRIMARY KEY (plant_id, hour))",
    "COMMENT ON TABLE plant_energy IS 'Energy of plants in hours. No foreign key: a job deletes rows of deleted plants.'",
    "COMMENT ON COLUMN plant_energy.hour IS 'Start of the hour.'",
    "COMMENT ON COLUMN plant_energy.energies IS 'mWh; produced, imported, exported, charged, discharged, each in the four"
    " quarters of the hour. NULL: nothing was measured.'",
    "COMMENT ON COLUMN plant_energy.falls IS 'Whether a reading of a counter was lower than the one before it.'",
    "CREATE TABLE IF NOT EXISTS fleet_energy (organization_id uuid NOT NULL REFERENCES organization ON DELETE CASCADE,"
    " hour timestamptz NOT NULL, energies bigint[] NOT NULL, PRIMARY KEY (organization_id, hour)) WITH (fillfactor = 50)",
    "COMMENT ON TABLE fleet_energy IS 'Sums of plant_energy over the plants of an organisation.'",
    "COMMENT ON COLUMN fleet_energy.hour IS 'Start of the hour.'",
    "COMMENT ON COLUMN fleet_energy.energies IS 'mWh, as in plant_energy.'",
    "CREATE TABLE IF NOT EXISTS energy_account (plant_id uuid PRIMARY KEY, organization_id uuid NOT NULL,"
    " missing_from timestamptz, retry_at timestamptz)",
    "COMMENT ON TABLE energy_account IS 'Plants with energies. No foreign key: a deleted plant still has to leave the totals.'",
    "COMMENT ON COLUMN energy_account.organization_id IS 'The organisation whose totals contain the energies of the plant.'",
    "COMMENT ON COLUMN energy_account.missing_from IS 'Hours from here on, before the upgrade, are not computed. NULL: none.'",
    "COMMENT ON COLUMN energy_account.retry_at IS 'When to try again after a failure. NULL: there was none.'",
    "CREATE INDEX IF NOT EXISTS energy_account_missing ON energy_account (missing_from) WHERE missing_from IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS energy_dirty (plant_id uuid NOT NULL, hour timestamptz NOT NULL)"
    " WITH (autovacuum_vacuum_scale_factor = 0.02)",
    "COMMENT ON TABLE energy_dirty IS 'Hours of plants whose energy changed. Append-only, like telemetry_dirty.'",
    "COMMENT ON COLUMN energy_dirty.hour IS 'Start of the hour.'",
    "CREATE INDEX IF NOT EXISTS energy_dirty_plant ON energy_dirty (plant_id, hour)",
    "INSERT INTO energy_account (plant_id, organization_id, missing_from)"
    " SELECT p.id, p.organization_id, min(h.first) FROM plant p JOIN telemetry_source s ON s.plant_id = p.id"
    " CROSS JOIN LATERAL (SELECT bucket AS first FROM telemetry_hour WHERE source_id = s.id ORDER BY bucket LIMIT 1) AS h"
    " GROUP BY p.id, p.organization_id ON CONFLICT DO NOTHING",
)


def upgrade() -> None:
    """Create the tables, each step by itself: the last one takes seconds. A job computes the energy of earlier hours."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
