"""Keep the roles of signals that an edit removes from a template, for the values that devices have stored with them.

Revision ID: 0151
"""

from typing import Final

from alembic import op

revision = "0151"
down_revision = "0150"
branch_labels = None
depends_on = None

_STEPS: Final = (
    "ALTER TABLE device_template ADD COLUMN IF NOT EXISTS former_roles jsonb NOT NULL DEFAULT '{}'",
    "COMMENT ON COLUMN device_template.former_roles IS 'Roles by key of signals that earlier versions had.'",
    "COMMENT ON COLUMN telemetry_source.roles IS 'Roles by key that earlier templates of the device declared, of keys that had"
    " values and that its template does not declare now. NULL: there was no other template.'",
    # A trigger, because processes of the previous release edit templates too.
    """
    CREATE OR REPLACE FUNCTION keep_former_roles() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.former_roles := (OLD.former_roles || OLD.roles)
            - ARRAY(SELECT signal->>'key' FROM jsonb_array_elements(NEW.signals) AS signal);
        RETURN NEW;
    END $$
    """,
    "CREATE OR REPLACE TRIGGER template_keeps_former_roles BEFORE UPDATE OF signals ON device_template"
    " FOR EACH ROW EXECUTE FUNCTION keep_former_roles()",
)


def upgrade() -> None:
    """Add the column and the trigger. The signals that earlier edits removed are not known."""
    for step in _STEPS:
        op.execute(step)
