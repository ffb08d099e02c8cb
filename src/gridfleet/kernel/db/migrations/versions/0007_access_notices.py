"""Processes that remember who may do what hear when it changes.

The payload is the user concerned, or `*` for everybody. Only what a process remembers counts: a renewed hash or a
prolonged session says nothing.

Revision ID: 0007
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TRIGGERS = """
CREATE FUNCTION notify_access_of_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('access_changed', (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).user_id::text);
    RETURN NULL;
END $$;
CREATE FUNCTION notify_access_of_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('access_changed', OLD.id::text);
    RETURN NULL;
END $$;
CREATE FUNCTION notify_access_of_all() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('access_changed', '*');
    RETURN NULL;
END $$;

CREATE TRIGGER session_ended
    AFTER UPDATE OF revoked_at ON user_session FOR EACH ROW
    WHEN (NEW.revoked_at IS DISTINCT FROM OLD.revoked_at) EXECUTE FUNCTION notify_access_of_user();
CREATE TRIGGER session_deleted
    AFTER DELETE ON user_session FOR EACH ROW
    WHEN (OLD.revoked_at IS NULL AND OLD.expires_at > now()) EXECUTE FUNCTION notify_access_of_user();
CREATE TRIGGER account_changed
    AFTER UPDATE ON user_account FOR EACH ROW
    WHEN ((NEW.email, NEW.name, NEW.is_super_admin, NEW.token_version, NEW.default_organization_id)
        IS DISTINCT FROM (OLD.email, OLD.name, OLD.is_super_admin, OLD.token_version, OLD.default_organization_id))
    EXECUTE FUNCTION notify_access_of_account();
CREATE TRIGGER account_deleted
    AFTER DELETE ON user_account FOR EACH ROW EXECUTE FUNCTION notify_access_of_account();
CREATE TRIGGER membership_changed
    AFTER INSERT OR UPDATE OR DELETE ON membership FOR EACH ROW EXECUTE FUNCTION notify_access_of_user();
CREATE TRIGGER organization_deleted
    AFTER DELETE ON organization FOR EACH ROW EXECUTE FUNCTION notify_access_of_all();
"""


def upgrade() -> None:
    """Creates the triggers."""
    op.execute(TRIGGERS)
