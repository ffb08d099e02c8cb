"""Modes, schedules and steps that a plant has not confirmed, so that they are issued again.

Revision ID: 0083
"""

from alembic import op

revision = "0083"
down_revision = "0082"
branch_labels = None
depends_on = None

SCHEMA = """
-- `override_power_kw` goes with the override. A setpoint with a duration counts as the partner's presence until
-- `setpoint_ends_at`; `setpoint_command_id` is its order. `silent_from` is when the last order came, or the last override or
-- schedule ended. Orders from before `opened_at` are not looked at.
ALTER TABLE vcp_site
    ADD COLUMN override_power_kw double precision,
    ADD COLUMN setpoint_ends_at timestamptz,
    ADD COLUMN setpoint_command_id uuid,
    ADD COLUMN opened_at timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE vcp_site ALTER COLUMN opened_at SET DEFAULT now();

-- What a plant has not confirmed: the mode and the schedule that hold at its site, and the step that runs. `command_id` is the
-- newest command that carries it, `issued_at` its place among the plant's commands. At `due_at` it is issued again: null while
-- the command is open, infinity when only a connection of the plant is a reason to try again. `confirmed_mode` is the mode
-- that the plant had confirmed before, null if that is not known.
CREATE TABLE vcp_unconfirmed (
    plant_id uuid NOT NULL REFERENCES vcp_site ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('MODE', 'SCHEDULE', 'STEP')),
    command_id uuid,
    issued_at timestamptz NOT NULL,
    due_at timestamptz,
    confirmed_mode text,
    PRIMARY KEY (plant_id, kind)
) WITH (fillfactor = 70);
CREATE INDEX vcp_unconfirmed_due ON vcp_unconfirmed (due_at) WHERE due_at IS NOT NULL;

INSERT INTO vcp_unconfirmed (plant_id, kind, command_id, issued_at)
SELECT DISTINCT ON (c.plant_id, k.kind) c.plant_id, k.kind, c.id, c.issued_at FROM plant_command c
JOIN vcp_site s ON s.plant_id = c.plant_id
JOIN (VALUES ('MODE_CHANGE', 'MODE'), ('EMERGENCY', 'MODE'), ('SCHEDULE', 'SCHEDULE')) AS k (type, kind) ON k.type = c.type
WHERE c.finished_at IS NULL ORDER BY c.plant_id, k.kind, c.issued_at DESC, c.id DESC;

UPDATE vcp_site s SET override_power_kw = (c.instruction->>'powerKw')::float8
FROM plant_command c WHERE c.id = s.override_command_id;

-- An end of what was ordered for a time was kept here; setpoints last a week at most.
UPDATE vcp_site SET silent_from = now(), setpoint_ends_at = CASE WHEN override_mode IS NULL AND NOT schedule_active
    THEN least(silent_from, now() + interval '7 days') END
WHERE silent_from > now();
"""

INDEX = (
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS vcp_command_holding ON vcp_command (plant_id, id DESC)"
    " WHERE command_type IN ('MODE_CHANGE', 'EMERGENCY', 'SCHEDULE')"
)


def upgrade() -> None:
    """Create the table; carry over the commands that are open. The index is built without a lock on the log."""
    op.execute(SCHEMA)
    with op.get_context().autocommit_block():
        op.execute(INDEX)
