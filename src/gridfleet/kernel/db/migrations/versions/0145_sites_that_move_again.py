"""End at the plant that moves what partners had set, also what it has not confirmed the end of.

Revision ID: 0145
"""

from alembic import op

revision = "0145"
down_revision = "0144"
branch_labels = None
depends_on = None

# After a first move, the site has no schedule and no limits: only what the plant has to confirm shows that it has some. A plant
# that has not received the removal of its limits, or the end of a stop, still has them too: the move withdraws these commands.
STEPS = (
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
                OR old_site.fallback_after_seconds IS NOT NULL OR 'LIMITS' = ANY (unconfirmed) OR EXISTS
                (SELECT FROM plant_command c WHERE c.plant_id = NEW.id AND c.finished_at IS NULL AND c.type = 'CONFIG'))
        ) AS ended (kind, wanted) WHERE wanted;
        RETURN NULL;
    END $$
    """,
)


def upgrade() -> None:
    """Replace the function of the trigger."""
    for step in STEPS:
        op.execute(step)
