"""Delete a user's push devices when all of their sessions are ended: by logout-all, a password reset or an operator.

Revision ID: 0153
"""

from typing import Final

from alembic import op

revision = "0153"
down_revision = "0152"
branch_labels = None
depends_on = None

_STEPS: Final = (
    # A trigger, because several parts of the service end sessions, and those below notifications do not know push devices.
    """
    CREATE OR REPLACE FUNCTION delete_push_devices() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM push_token WHERE user_id = NEW.id;
        RETURN NULL;
    END $$
    """,
    "CREATE OR REPLACE TRIGGER ended_sessions_delete_push_devices AFTER UPDATE OF token_version ON user_account"
    " FOR EACH ROW WHEN (NEW.token_version <> OLD.token_version) EXECUTE FUNCTION delete_push_devices()",
)


def upgrade() -> None:
    """Add the trigger."""
    for step in _STEPS:
        op.execute(step)
