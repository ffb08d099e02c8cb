"""Keep with alerts, partners' events, statuses and command steps which plant's message caused them.

Revision ID: 0088
"""

from alembic import op

revision = "0088"
down_revision = "0087"
branch_labels = None
depends_on = None

# As in 0080: null where nothing is known. `plant.status_cause` is written with the status, so that the event about it has it;
# an alert keeps the cause of its raising, which is none of the changes that follow.
STEPS = (
    "ALTER TABLE alert ADD COLUMN IF NOT EXISTS cause jsonb",
    "ALTER TABLE partner_event ADD COLUMN IF NOT EXISTS cause jsonb",
    "ALTER TABLE plant_command_transition ADD COLUMN IF NOT EXISTS cause jsonb",
    "ALTER TABLE plant ADD COLUMN IF NOT EXISTS status_cause jsonb",
    """
    CREATE OR REPLACE FUNCTION tell_plant_status() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF is_told_to_partners(NEW.organization_id, NEW.id) THEN
            INSERT INTO partner_event (event_id, organization_id, plant_id, kind, body, cause)
            VALUES (gen_random_uuid(), NEW.organization_id, NEW.id, 'status', convert_to(json_strip_nulls(json_build_object(
                'siteId', NEW.id, 'status', NEW.status, 'time', as_partners_read(clock_timestamp()),
                'reason', NEW.status_reason))::text, 'UTF8'), NEW.status_cause);
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE FUNCTION tell_alert() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' AND NEW.status = OLD.status THEN
            RETURN NULL;
        END IF;
        IF is_told_to_partners(NEW.organization_id, NEW.plant_id) THEN
            INSERT INTO partner_event (event_id, organization_id, plant_id, kind, body, cause)
            VALUES (gen_random_uuid(), NEW.organization_id, NEW.plant_id, 'alert', convert_to(json_build_object(
                'alertId', NEW.id, 'siteId', NEW.plant_id, 'type', NEW.type, 'severity', NEW.severity, 'status', NEW.status,
                'message', NEW.message, 'time', as_partners_read(NEW.updated_at))::text, 'UTF8'),
                CASE TG_OP WHEN 'INSERT' THEN NEW.cause END);
        END IF;
        RETURN NULL;
    END $$
    """,
)


def upgrade() -> None:
    """Add the columns, each by itself: one must not stay locked while the next is waited for. None of it rewrites a table."""
    with op.get_context().autocommit_block():
        for step in STEPS:
            op.execute(step)
