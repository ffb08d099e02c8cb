"""First answers to creating requests that came with an `Idempotency-Key`, kept for a day to be given again.

Revision ID: 0003
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLE = """
CREATE TABLE idempotent_answer (
    user_id uuid NOT NULL REFERENCES user_account ON DELETE CASCADE,
    scope text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    status smallint,
    answer bytea,
    key_version integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, scope, key)
);
CREATE INDEX idempotent_answer_age ON idempotent_answer (created_at);
"""


def upgrade() -> None:
    """Creates the table."""
    op.execute(TABLE)
