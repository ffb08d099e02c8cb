"""Let the alerts of a plant that moves follow it in small transactions, and change none of its plans.

Revision ID: 0141
"""

from typing import Final

from alembic import op

revision = "0141"
down_revision = "0140"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "CREATE TABLE IF NOT EXISTS moved_plant (plant_id uuid PRIMARY KEY REFERENCES plant ON DELETE CASCADE,"
    " moved_at timestamptz NOT NULL DEFAULT clock_timestamp())",
    "COMMENT ON TABLE moved_plant IS 'Plants that have moved to another organisation, and whose alerts a job still moves.'",
    "COMMENT ON COLUMN moved_plant.moved_at IS 'When the plant moved last.'",
    # Alerts that ingest may change move with their plant. A state keeps each of them, and an organisation has few states.
    """
    CREATE OR REPLACE FUNCTION note_moved_plant() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE alert SET organization_id = NEW.organization_id WHERE id IN (
            SELECT s.alert_id FROM alert_state s JOIN telemetry_source t ON t.id = s.source_id
            JOIN alert_rule r ON r.id = s.rule_id WHERE t.plant_id = NEW.id AND r.plant_id = NEW.id);
        INSERT INTO moved_plant (plant_id) VALUES (NEW.id) ON CONFLICT (plant_id) DO UPDATE SET moved_at = excluded.moved_at;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE TRIGGER plant_moves_with_alerts
        AFTER UPDATE OF organization_id ON plant FOR EACH ROW
        WHEN (OLD.organization_id <> NEW.organization_id) EXECUTE FUNCTION note_moved_plant()
    """,
    # The key of plant and organisation changed every alert of a plant in the statement that moved it.
    "ALTER TABLE alert DROP CONSTRAINT IF EXISTS alert_plant_fkey, ADD CONSTRAINT alert_plant_fkey FOREIGN KEY (plant_id)"
    " REFERENCES plant ON DELETE CASCADE NOT VALID",
    "ALTER TABLE alert VALIDATE CONSTRAINT alert_plant_fkey",
    "COMMENT ON COLUMN alert.organization_id IS 'The organisation of the plant. While moved_plant has the plant, perhaps the"
    " former one.'",
    "ALTER TABLE trading_config_change DROP CONSTRAINT IF EXISTS trading_config_change_plant_fkey,"
    " ADD CONSTRAINT trading_config_change_plant_fkey FOREIGN KEY (plant_id) REFERENCES plant ON DELETE CASCADE NOT VALID",
    "ALTER TABLE trading_config_change VALIDATE CONSTRAINT trading_config_change_plant_fkey",
    "COMMENT ON COLUMN trading_config_change.organization_id IS 'The organisation of the plant when the plan was sent.'",
)


def upgrade() -> None:
    """Run each step by itself; readers and writers continue meanwhile."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            op.execute(step)
