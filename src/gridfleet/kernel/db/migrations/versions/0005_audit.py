"""Audit events: who did what to whom, when and from where. Rows are added and never changed.

Revision ID: 0005
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLE = """
-- No foreign keys: an event outlives whatever it speaks of.
CREATE TABLE audit_event (
    id uuid PRIMARY KEY,
    event text NOT NULL,
    organization_id uuid,
    actor_type text NOT NULL,
    actor_id text,
    subject_type text,
    subject_id text,
    details jsonb NOT NULL DEFAULT '{}',
    ip text,
    created_at timestamptz NOT NULL
);
CREATE INDEX audit_event_newest ON audit_event (created_at DESC, id DESC);
CREATE INDEX audit_event_of_organization ON audit_event (organization_id, created_at DESC, id DESC)
    WHERE organization_id IS NOT NULL;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_event_unchanged BEFORE UPDATE ON audit_event FOR EACH ROW EXECUTE FUNCTION refuse_change();
"""


def upgrade() -> None:
    """Creates the table."""
    op.execute(TABLE)
