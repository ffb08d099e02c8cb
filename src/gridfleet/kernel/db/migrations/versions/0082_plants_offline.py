"""Notify ingest processes that cache a plant's status when the plant goes OFFLINE.

Revision ID: 0082
"""

from alembic import op

revision = "0082"
down_revision = "0081"
branch_labels = None
depends_on = None

SCHEMA = """
CREATE FUNCTION notify_plant_offline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plant_offline', NEW.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER plant_offline
    AFTER UPDATE OF status ON plant FOR EACH ROW
    WHEN (NEW.status = 'OFFLINE' AND OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION notify_plant_offline();
"""


def upgrade() -> None:
    """Add the trigger."""
    op.execute(SCHEMA)
