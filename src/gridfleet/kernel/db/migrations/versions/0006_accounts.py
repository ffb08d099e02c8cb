"""Invitations, pending changes of e-mail addresses, forgotten passwords.

Tokens are stored as their SHA-256. Somebody has one pending change and one reset at a time: the last request wins.

Revision ID: 0006
"""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE invitation (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization ON DELETE CASCADE,
    email text NOT NULL CHECK (email = lower(email)),
    role text NOT NULL CHECK (role IN ('ORG_ADMIN', 'OPERATOR', 'VIEWER')),
    status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'ACCEPTED', 'EXPIRED', 'REVOKED')),
    token_hash bytea NOT NULL CONSTRAINT invitation_token_key UNIQUE,
    invited_by uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    accepted_at timestamptz,
    -- When it made somebody a member: an accepted one still waits for its registration.
    used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX invitation_pending ON invitation (organization_id, email) WHERE status = 'PENDING';
CREATE INDEX invitation_newest ON invitation (organization_id, created_at DESC, id DESC);
CREATE INDEX invitation_expiry ON invitation (expires_at) WHERE status = 'PENDING';

CREATE TABLE email_change (
    user_id uuid PRIMARY KEY REFERENCES user_account ON DELETE CASCADE,
    email text NOT NULL CHECK (email = lower(email)),
    token_hash bytea NOT NULL CONSTRAINT email_change_token_key UNIQUE,
    requested_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE password_reset (
    user_id uuid PRIMARY KEY REFERENCES user_account ON DELETE CASCADE,
    token_hash bytea NOT NULL CONSTRAINT password_reset_token_key UNIQUE,
    requested_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE INDEX membership_newest ON membership (organization_id, created_at DESC, id DESC);
CREATE INDEX user_account_newest ON user_account (created_at DESC, id DESC);
CREATE INDEX user_account_default_organization ON user_account (default_organization_id);
"""


def upgrade() -> None:
    """Creates the tables."""
    op.execute(TABLES)
