"""Effects on the outside world, queued with the change that causes them and carried out after its commit.

Revision ID: 0010
"""

from alembic import op

revision = "0010"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    key text,
    payload jsonb NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL
);
CREATE INDEX outbox_due ON outbox (kind, due_at);
CREATE INDEX outbox_key ON outbox (kind, key, id) WHERE key IS NOT NULL;

CREATE FUNCTION notify_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('outbox', NEW.kind);
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_filled AFTER INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION notify_outbox();
"""


def upgrade() -> None:
    """Creates the table."""
    op.execute(TABLE)
