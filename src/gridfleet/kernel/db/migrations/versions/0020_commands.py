"""Commands to plants with every step of their lives.

Revision ID: 0020
"""

from alembic import op

revision = "0020"
down_revision = "0030"
branch_labels = None
depends_on = None

TABLES = """
-- A command and its own place in the queue: it is to be sent, or sent again, once `due_at` has come; null when there is
-- nothing more to send. Whoever sends it moves `due_at` on first, so that nothing is lost when he is killed.
CREATE TABLE plant_command (
    id uuid PRIMARY KEY,
    plant_id uuid NOT NULL REFERENCES plant ON DELETE CASCADE,
    sub_device_id uuid REFERENCES sub_device ON DELETE SET NULL,
    type text NOT NULL,
    target text,
    instruction jsonb NOT NULL,
    status text NOT NULL DEFAULT 'PENDING'
        CHECK (status IN ('PENDING', 'SENT', 'RECEIVED', 'APPLIED', 'REJECTED', 'FAILED', 'EXPIRED')),
    requester_type text NOT NULL,
    requester_id text,
    issued_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    sent_at timestamptz,
    received_at timestamptz,
    finished_at timestamptz,
    reason jsonb,
    due_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    CONSTRAINT plant_command_finished CHECK (
        (finished_at IS NOT NULL) = (status IN ('APPLIED', 'REJECTED', 'FAILED', 'EXPIRED'))),
    CONSTRAINT plant_command_due CHECK ((due_at IS NOT NULL) = (status IN ('PENDING', 'SENT')))
) WITH (fillfactor = 70);
CREATE INDEX plant_command_of_device ON plant_command (sub_device_id, issued_at DESC, id DESC);
CREATE INDEX plant_command_of_plant ON plant_command (plant_id, issued_at DESC, id DESC);
CREATE INDEX plant_command_queue ON plant_command (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX plant_command_line ON plant_command (plant_id, issued_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX plant_command_open ON plant_command (expires_at) WHERE finished_at IS NULL;

-- Each state once: what a plant repeats is recorded once. `late` is a plant's word that came after the end and changed
-- nothing; `reported_at` is the time that the plant itself gave.
CREATE TABLE plant_command_transition (
    command_id uuid NOT NULL REFERENCES plant_command ON DELETE CASCADE,
    status text NOT NULL,
    at timestamptz NOT NULL,
    late boolean NOT NULL DEFAULT false,
    reported_at timestamptz,
    reason jsonb,
    PRIMARY KEY (command_id, status)
);

CREATE FUNCTION notify_plant_command_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plant_command_due', '');
    RETURN NULL;
END $$;
CREATE TRIGGER plant_command_issued
    AFTER INSERT ON plant_command FOR EACH STATEMENT EXECUTE FUNCTION notify_plant_command_due();
"""


def upgrade() -> None:
    """Creates the tables."""
    op.execute(TABLES)
