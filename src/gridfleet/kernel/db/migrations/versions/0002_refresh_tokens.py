"""Refresh tokens get rows of their own, and failed logins their times.

Several tokens of a session live side by side while tabs race, and any rotated one that comes back must still be
recognised; one column for the previous token could do neither. Ten failures within fifteen minutes can only be told from
their times.

Revision ID: 0002
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE refresh_token (
    token_hash bytea PRIMARY KEY,
    session_id uuid NOT NULL REFERENCES user_session ON DELETE CASCADE,
    expires_at timestamptz NOT NULL,
    rotated_at timestamptz
);
CREATE INDEX refresh_token_session ON refresh_token (session_id);
INSERT INTO refresh_token (token_hash, session_id, expires_at) SELECT refresh_hash, id, expires_at FROM user_session;
ALTER TABLE user_session
    DROP COLUMN refresh_hash,
    DROP COLUMN previous_refresh_hash,
    DROP COLUMN rotated_at;

DROP TABLE login_failure;
-- By e-mail, not by account: unknown addresses lock alike.
CREATE TABLE login_failure (
    email_hash bytea PRIMARY KEY,
    failed_at timestamptz[] NOT NULL DEFAULT '{}',
    locked_until timestamptz
);
"""


def upgrade() -> None:
    """Replaces the columns."""
    op.execute(TABLES)
