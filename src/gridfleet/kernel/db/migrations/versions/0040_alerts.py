"""Alert rules, what they raised, and the notifications about it.

Revision ID: 0040
"""

from alembic import op

revision = "0040"
down_revision = "0020"
branch_labels = None
depends_on = None

ALERTS = """
-- Rules and alerts of a plant follow it to another organisation by their foreign keys.
ALTER TABLE plant ADD CONSTRAINT plant_organization_key UNIQUE (id, organization_id);

CREATE TABLE alert_rule (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization ON DELETE CASCADE,
    plant_id uuid,
    name text NOT NULL,
    metric text NOT NULL,
    condition text NOT NULL CHECK (condition IN ('LT', 'GT', 'EQ')),
    threshold double precision NOT NULL,
    severity text NOT NULL CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL', 'EMERGENCY')),
    cooldown_minutes integer NOT NULL CHECK (cooldown_minutes BETWEEN 1 AND 1440),
    enabled boolean NOT NULL,
    for_seconds integer NOT NULL CHECK (for_seconds >= 0),
    clear_threshold double precision,
    auto_resolve boolean NOT NULL,
    last_triggered_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_rule_plant_fkey FOREIGN KEY (plant_id, organization_id)
        REFERENCES plant (id, organization_id) ON UPDATE CASCADE ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE INDEX alert_rule_newest ON alert_rule (organization_id, created_at DESC, id DESC);
CREATE INDEX alert_rule_plant ON alert_rule (plant_id);

CREATE TABLE alert (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    plant_id uuid NOT NULL,
    rule_id uuid REFERENCES alert_rule ON DELETE SET NULL,
    type text NOT NULL DEFAULT 'THRESHOLD_EXCEEDED',
    severity text NOT NULL CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL', 'EMERGENCY')),
    status text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'ACKNOWLEDGED', 'RESOLVED')),
    message text NOT NULL,
    metric text NOT NULL,
    value double precision NOT NULL,
    measured_at timestamptz NOT NULL,
    acknowledged_at timestamptz,
    acknowledged_by text,
    resolved_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alert_plant_fkey FOREIGN KEY (plant_id, organization_id)
        REFERENCES plant (id, organization_id) ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX alert_newest ON alert (organization_id, created_at DESC, id DESC);
CREATE INDEX alert_of_plant ON alert (plant_id, created_at DESC, id DESC);
CREATE INDEX alert_rule_of ON alert (rule_id);

-- Where a metric stands with a rule that looks further than one value: since when its condition holds without a break, the
-- time of the last value that was counted, and the alert that was raised and has not cleared.
CREATE TABLE alert_state (
    rule_id uuid NOT NULL REFERENCES alert_rule ON DELETE CASCADE,
    source_id integer NOT NULL REFERENCES telemetry_source ON DELETE CASCADE,
    metric text NOT NULL,
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    alert_id uuid REFERENCES alert ON DELETE CASCADE,
    PRIMARY KEY (rule_id, source_id, metric)
) WITH (fillfactor = 70);
CREATE INDEX alert_state_source ON alert_state (source_id);
CREATE INDEX alert_state_alert ON alert_state (alert_id) WHERE alert_id IS NOT NULL;

CREATE FUNCTION notify_alert_rule_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('alert_rule_changed', (CASE WHEN TG_OP = 'INSERT' THEN NEW ELSE OLD END).organization_id::text);
    IF TG_OP = 'UPDATE' AND NEW.organization_id <> OLD.organization_id THEN
        PERFORM pg_notify('alert_rule_changed', NEW.organization_id::text);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER alert_rule_changed
    AFTER INSERT OR DELETE OR UPDATE OF organization_id, plant_id, name, metric, condition, threshold, severity, enabled,
        for_seconds, clear_threshold, auto_resolve ON alert_rule
    FOR EACH ROW EXECUTE FUNCTION notify_alert_rule_changed();
"""

NOTIFICATIONS = """
ALTER TABLE user_account ADD COLUMN phone text;

CREATE TABLE push_token (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES user_account ON DELETE CASCADE,
    token text NOT NULL CONSTRAINT push_token_key UNIQUE,
    platform text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX push_token_user ON push_token (user_id);

-- A notification and its own place in the queue: it is to be tried once `due_at` has come; null when nothing is to be done.
-- Whoever tries moves `due_at` on first, so that nothing is lost when he is killed. `ticket` is the push service's, whose
-- word on the fate of the message is due at `receipt_due_at`.
CREATE TABLE notification_log (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES user_account ON DELETE CASCADE,
    channel text NOT NULL CHECK (channel IN ('PUSH', 'EMAIL', 'SMS')),
    address text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    status text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'SENT', 'FAILED')),
    error text,
    metadata jsonb NOT NULL DEFAULT '{}',
    attempts integer NOT NULL DEFAULT 0,
    due_at timestamptz DEFAULT now(),
    ticket text,
    receipt_due_at timestamptz,
    sent_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT notification_log_due CHECK ((due_at IS NOT NULL) = (status = 'PENDING'))
) WITH (fillfactor = 70);
CREATE INDEX notification_log_newest ON notification_log (created_at DESC, id DESC);
CREATE INDEX notification_log_user ON notification_log (user_id);
CREATE INDEX notification_log_queue ON notification_log (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX notification_log_receipts ON notification_log (receipt_due_at) WHERE receipt_due_at IS NOT NULL;

CREATE FUNCTION notify_notification_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('notification_due', '');
    RETURN NULL;
END $$;
CREATE TRIGGER notification_queued
    AFTER INSERT ON notification_log FOR EACH STATEMENT EXECUTE FUNCTION notify_notification_due();
"""


def upgrade() -> None:
    """Creates the tables."""
    op.execute(ALERTS)
    op.execute(NOTIFICATIONS)
