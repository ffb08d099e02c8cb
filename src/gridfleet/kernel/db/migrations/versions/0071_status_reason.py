"""Why a plant came or went, told to partners with the change.

Revision ID: 0071
"""

from alembic import op

revision = "0071"
down_revision = "0070"
branch_labels = None
depends_on = None

SCHEMA = """
-- Written with the status, by whoever changes it; null when nobody said why.
ALTER TABLE plant ADD COLUMN status_reason text;

CREATE OR REPLACE FUNCTION tell_plant_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF is_told_to_partners(NEW.organization_id, NEW.id) THEN
        INSERT INTO partner_event (event_id, organization_id, plant_id, kind, body)
        VALUES (gen_random_uuid(), NEW.organization_id, NEW.id, 'status', convert_to(json_strip_nulls(json_build_object(
            'siteId', NEW.id, 'status', NEW.status, 'time', as_partners_read(clock_timestamp()),
            'reason', NEW.status_reason))::text, 'UTF8'));
    END IF;
    RETURN NULL;
END $$;
"""


def upgrade() -> None:
    """Adds the column; tells it from now on."""
    op.execute(SCHEMA)
