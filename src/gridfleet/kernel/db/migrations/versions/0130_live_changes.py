"""Publish changes of plants, alerts and commands to the processes whose users watch them.

Revision ID: 0130
"""

from typing import Final

from alembic import op

revision = "0130"
down_revision = "0129"
branch_labels = None
depends_on = None

_SHOWN: Final = ("name", "serial_number", "status", "lifecycle_status", "organization_id")
_OLD, _NEW = (", ".join(f"{row}.{column}" for column in _SHOWN) for row in ("OLD", "NEW"))

_STEPS: Final = (
    """
CREATE OR REPLACE FUNCTION notify_live_plant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM pg_notify('live_changed', 'plant:' || OLD.organization_id || ':' || OLD.id);
    END IF;
    IF TG_OP <> 'DELETE' AND (TG_OP = 'INSERT' OR NEW.organization_id <> OLD.organization_id) THEN
        PERFORM pg_notify('live_changed', 'plant:' || NEW.organization_id || ':' || NEW.id);
    END IF;
    RETURN NULL;
END $$
""",
    "CREATE OR REPLACE TRIGGER live_plant AFTER INSERT OR DELETE ON plant FOR EACH ROW EXECUTE FUNCTION notify_live_plant()",
    # Every message of a plant may update its row: the trigger runs only if a column that users see has changed.
    "CREATE OR REPLACE TRIGGER live_plant_changed AFTER UPDATE ON plant FOR EACH ROW"
    f" WHEN (({_OLD}) IS DISTINCT FROM ({_NEW})) EXECUTE FUNCTION notify_live_plant()",
    """
CREATE OR REPLACE FUNCTION notify_live_alert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('live_changed', 'alert:' || NEW.organization_id || ':' || NEW.id);
    RETURN NULL;
END $$
""",
    "CREATE OR REPLACE TRIGGER live_alert AFTER INSERT OR UPDATE OF status ON alert FOR EACH ROW"
    " EXECUTE FUNCTION notify_live_alert()",
    """
CREATE OR REPLACE FUNCTION notify_live_command() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('live_changed', 'command:' || organization_id || ':' || NEW.id) FROM plant WHERE id = NEW.plant_id;
    RETURN NULL;
END $$
""",
    "CREATE OR REPLACE TRIGGER live_command AFTER INSERT ON plant_command FOR EACH ROW EXECUTE FUNCTION notify_live_command()",
    "CREATE OR REPLACE TRIGGER live_command_changed AFTER UPDATE OF status ON plant_command FOR EACH ROW"
    " WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION notify_live_command()",
)


def upgrade() -> None:
    """Create the triggers. Each step commits by itself, so that only one table is locked at a time."""
    with op.get_context().autocommit_block():
        for step in _STEPS:
            # The driver executes the text unchanged: Alembic would take the colons in it for parameters.
            op.get_bind().exec_driver_sql(step)
