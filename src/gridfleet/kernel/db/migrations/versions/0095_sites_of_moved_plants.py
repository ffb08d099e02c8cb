"""End at the plant too what partners of the former organisation had set, when a plant moves.

Revision ID: 0095
"""

from alembic import op

revision = "0095"
down_revision = "0106"
branch_labels = None
depends_on = None

# The site starts afresh, and the plant has to confirm that: the mode AUTO, no schedule, no limits and no fallback. An emergency
# stop holds, because only a user's decision may start a stopped plant; it is issued again only if the plant has not
# confirmed it.
STEPS = (
    "ALTER TABLE vcp_unconfirmed DROP CONSTRAINT IF EXISTS vcp_unconfirmed_kind_check",
    "ALTER TABLE vcp_unconfirmed ADD CONSTRAINT vcp_unconfirmed_kind_check"
    " CHECK (kind IN ('MODE', 'SCHEDULE', 'STEP', 'LIMITS'))",
    "COMMENT ON TABLE vcp_unconfirmed IS"
    " 'Modes, schedules, steps and limits that the plant has not confirmed. They are issued again.'",
    "COMMENT ON COLUMN vcp_unconfirmed.kind IS 'MODE, SCHEDULE, STEP or LIMITS.'",
    """
    CREATE OR REPLACE FUNCTION forget_vcp_site() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        old_site vcp_site;
        confirmed boolean := NOT EXISTS (SELECT FROM vcp_unconfirmed WHERE plant_id = NEW.id AND kind = 'MODE');
        stopped boolean;
    BEGIN
        DELETE FROM vcp_site WHERE plant_id = NEW.id RETURNING * INTO old_site;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        stopped := old_site.override_mode IS NOT DISTINCT FROM 'EMERGENCY_STOP';
        INSERT INTO vcp_site (plant_id, override_mode, override_set_by, override_set_at) SELECT NEW.id,
            CASE WHEN stopped THEN old_site.override_mode END,
            CASE WHEN stopped THEN old_site.override_set_by END,
            CASE WHEN stopped THEN old_site.override_set_at END;
        INSERT INTO vcp_unconfirmed (plant_id, kind, issued_at, due_at)
        SELECT NEW.id, kind, now(), now() FROM (VALUES
            ('MODE', NOT (stopped AND confirmed)),
            ('SCHEDULE', old_site.schedule_id IS NOT NULL),
            ('LIMITS', jsonb_strip_nulls(old_site.constraints) <> '{}' OR old_site.fallback_mode IS NOT NULL
                OR old_site.fallback_after_seconds IS NOT NULL)
        ) AS ended (kind, wanted) WHERE wanted;
        RETURN NULL;
    END $$
    """,
)


def upgrade() -> None:
    """Replace the function of the trigger, and allow limits among what a plant has to confirm."""
    for step in STEPS:
        op.execute(step)
