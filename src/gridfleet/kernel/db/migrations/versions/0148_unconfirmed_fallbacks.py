"""Keep fallbacks until their plants confirm them, as limits, which come in other commands.

Revision ID: 0148
"""

from alembic import op

revision = "0148"
down_revision = "0147"
branch_labels = None
depends_on = None

# A plant that moves has to confirm the end of both in one command.
STEPS = (
    "ALTER TABLE vcp_unconfirmed DROP CONSTRAINT IF EXISTS vcp_unconfirmed_kind_check,"
    " ADD CONSTRAINT vcp_unconfirmed_kind_check"
    " CHECK (kind IN ('MODE', 'SCHEDULE', 'STEP', 'LIMITS', 'FALLBACK')) NOT VALID",
    "ALTER TABLE vcp_unconfirmed VALIDATE CONSTRAINT vcp_unconfirmed_kind_check",
    "COMMENT ON TABLE vcp_unconfirmed IS"
    " 'Modes, schedules, steps, limits and fallbacks that the plant has not confirmed. They are issued again.'",
    "COMMENT ON COLUMN vcp_unconfirmed.kind IS 'MODE, SCHEDULE, STEP, LIMITS or FALLBACK.'",
    """
    CREATE OR REPLACE FUNCTION forget_vcp_site() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        old_site vcp_site;
        unconfirmed text[];
        leaves_stop boolean;
        stopped boolean;
    BEGIN
        -- What the plant has to confirm is changed under this lock.
        SELECT * INTO old_site FROM vcp_site WHERE plant_id = NEW.id FOR UPDATE;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        unconfirmed := ARRAY(SELECT kind FROM vcp_unconfirmed WHERE plant_id = NEW.id);
        leaves_stop := EXISTS (SELECT FROM vcp_unconfirmed WHERE plant_id = NEW.id AND stop_ended_at IS NOT NULL);
        DELETE FROM vcp_site WHERE plant_id = NEW.id;
        stopped := old_site.override_mode IS NOT DISTINCT FROM 'EMERGENCY_STOP';
        INSERT INTO vcp_site (plant_id, override_mode, override_set_by, override_set_at) SELECT NEW.id,
            CASE WHEN stopped THEN old_site.override_mode END,
            CASE WHEN stopped THEN old_site.override_set_by END,
            CASE WHEN stopped THEN old_site.override_set_at END;
        INSERT INTO vcp_unconfirmed (plant_id, kind, issued_at, due_at, stop_ended_at)
        SELECT NEW.id, kind, now(), now(), CASE WHEN kind = 'MODE' AND leaves_stop AND NOT stopped THEN now() END FROM (VALUES
            ('MODE', NOT stopped OR 'MODE' = ANY (unconfirmed)),
            ('SCHEDULE', old_site.schedule_id IS NOT NULL OR 'SCHEDULE' = ANY (unconfirmed)),
            ('LIMITS', jsonb_strip_nulls(old_site.constraints) <> '{}' OR old_site.fallback_mode IS NOT NULL
                OR old_site.fallback_after_seconds IS NOT NULL OR unconfirmed && '{LIMITS,FALLBACK}' OR EXISTS
                (SELECT FROM plant_command c WHERE c.plant_id = NEW.id AND c.finished_at IS NULL AND c.type = 'CONFIG'))
        ) AS ended (kind, wanted) WHERE wanted;
        RETURN NULL;
    END $$
    """,
)


def upgrade() -> None:
    """Allow the kind, and replace the function of the trigger."""
    for step in STEPS:
        op.execute(step)
