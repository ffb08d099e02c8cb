"""Publish which sub-device of a plant has changed, apart from changes of the plant.

Revision ID: 0144
"""

from typing import Final

from alembic import op

revision = "0144"
down_revision = "0143"
branch_labels = None
depends_on = None

# Processes of the previous release listen on `plant_changed` alone; the next release removes that channel.
_FUNCTIONS: Final = (
    """
CREATE OR REPLACE FUNCTION notify_plant_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plant_changed', OLD.id::text);
    PERFORM pg_notify(CASE WHEN TG_OP = 'DELETE' THEN 'plant_deleted' ELSE 'plant_updated' END, OLD.id::text);
    RETURN NULL;
END $$
""",
    """
CREATE OR REPLACE FUNCTION notify_plant_part_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plant_changed', (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).plant_id::text);
    IF TG_TABLE_NAME = 'plant_secret' THEN
        PERFORM pg_notify('plant_updated', (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).plant_id::text);
        RETURN NULL;
    END IF;
    -- The deletion and the move of a plant change all its sub-devices. The plant's own notification suffices.
    IF TG_OP = 'DELETE' THEN
        PERFORM pg_notify('sub_device_changed', OLD.plant_id || ' ' || OLD.external_id) FROM plant WHERE id = OLD.plant_id;
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        IF NEW.external_id = OLD.external_id AND NEW.template_id IS NOT DISTINCT FROM OLD.template_id THEN
            RETURN NULL;
        END IF;
        PERFORM pg_notify('sub_device_changed', OLD.plant_id || ' ' || OLD.external_id);
    END IF;
    PERFORM pg_notify('sub_device_changed', NEW.plant_id || ' ' || NEW.external_id);
    RETURN NULL;
END $$
""",
)


def upgrade() -> None:
    """Replace the functions of the triggers."""
    for function in _FUNCTIONS:
        op.get_bind().exec_driver_sql(function)
