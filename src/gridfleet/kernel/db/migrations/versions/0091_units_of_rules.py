"""Give alert rules the unit of their thresholds, and forget where metrics of a plant that moves stand with rules.

Revision ID: 0091
"""

from alembic import op

revision = "0091"
down_revision = "0088"
branch_labels = None
depends_on = None

# `unit` null: not known yet; the thresholds are compared as numbers. `unit_notice_at`: when the members were notified that
# the rule does not watch a measurement because of its unit.
STEPS = (
    "ALTER TABLE alert_rule ADD COLUMN IF NOT EXISTS unit text, ADD COLUMN IF NOT EXISTS unit_notice_at timestamptz",
    """
    CREATE OR REPLACE TRIGGER alert_rule_changed
        AFTER INSERT OR DELETE OR UPDATE OF organization_id, plant_id, name, metric, condition, threshold, severity, enabled,
            for_seconds, clear_threshold, auto_resolve, unit ON alert_rule
        FOR EACH ROW EXECUTE FUNCTION notify_alert_rule_changed()
    """,
    # The rules of the plant itself move along; those of the whole organisation do not watch it any more.
    """
    CREATE OR REPLACE FUNCTION forget_alert_states() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM alert_state s USING telemetry_source t, alert_rule r
        WHERE t.id = s.source_id AND t.plant_id = NEW.id AND r.id = s.rule_id AND r.plant_id IS NULL;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE TRIGGER plant_moves_without_alert_states
        AFTER UPDATE OF organization_id ON plant FOR EACH ROW
        WHEN (OLD.organization_id <> NEW.organization_id) EXECUTE FUNCTION forget_alert_states()
    """,
    # What earlier moves left behind.
    """
    DELETE FROM alert_state s USING telemetry_source t, alert_rule r
    WHERE t.id = s.source_id AND r.id = s.rule_id AND r.organization_id <> t.organization_id
    """,
)


def upgrade() -> None:
    """Add the columns and triggers, each step by itself. None of it rewrites a table."""
    with op.get_context().autocommit_block():
        for step in STEPS:
            op.execute(step)
