"""Sites as partners steer them: orders, limits, modes, schedules, and the events that partners are told.

Revision ID: 0060
"""

from alembic import op

revision = "0060"
down_revision = "0050"
branch_labels = None
depends_on = None

VCP = """
-- What a partner has set at a site. `override_command_id` and `schedule_command_id` are the orders that made them, which the
-- plant may still refuse. Silence counts from `silent_from`; `fallback_since` is set while the fallback holds.
CREATE TABLE vcp_site (
    plant_id uuid PRIMARY KEY REFERENCES plant ON DELETE CASCADE,
    constraints jsonb NOT NULL DEFAULT '{}',
    fallback_mode text,
    fallback_after_seconds integer,
    fallback_since timestamptz,
    silent_from timestamptz NOT NULL DEFAULT now(),
    override_mode text,
    override_set_by text,
    override_set_at timestamptz,
    override_expires_at timestamptz,
    override_command_id uuid,
    schedule_id text,
    schedule_revision integer,
    schedule_active boolean NOT NULL DEFAULT false,
    schedule_command_id uuid,
    CONSTRAINT vcp_site_override CHECK ((override_mode IS NULL) = (override_set_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX vcp_site_override_ends ON vcp_site (override_expires_at) WHERE override_expires_at IS NOT NULL;
CREATE INDEX vcp_site_fallback ON vcp_site (silent_from)
    WHERE fallback_mode IS NOT NULL AND fallback_after_seconds IS NOT NULL AND fallback_since IS NULL;

-- What one organisation's partners have set is nothing to the next one's.
CREATE FUNCTION forget_vcp_site() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM vcp_site WHERE plant_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER plant_moves_without_vcp_site
    AFTER UPDATE OF organization_id ON plant FOR EACH ROW
    WHEN (OLD.organization_id <> NEW.organization_id) EXECUTE FUNCTION forget_vcp_site();

-- Steps of the active schedule. `done_at` is set when the plant was told, or when the time for that had passed.
CREATE TABLE vcp_interval (
    plant_id uuid NOT NULL REFERENCES vcp_site ON DELETE CASCADE,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    power_kw double precision NOT NULL,
    done_at timestamptz,
    PRIMARY KEY (plant_id, start_at),
    CONSTRAINT vcp_interval_forward CHECK (start_at < end_at)
);
CREATE INDEX vcp_interval_due ON vcp_interval (start_at) WHERE done_at IS NULL;

-- Every order that reached the service and what became of it. An accepted one has the id of the plant's command.
-- `claims_id` is false for messages that do not use their messageId up; `digest` is that of routing key and body.
CREATE TABLE vcp_command (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization ON DELETE CASCADE,
    api_key_id uuid NOT NULL,
    plant_id uuid REFERENCES plant ON DELETE CASCADE,
    site_id text,
    message_id text,
    correlation_id text,
    command_type text,
    routing_key text NOT NULL,
    payload jsonb NOT NULL,
    digest bytea NOT NULL,
    claims_id boolean NOT NULL,
    status text NOT NULL,
    ack_status text NOT NULL CHECK (ack_status IN ('ACCEPTED', 'REJECTED', 'APPLIED', 'FAILED', 'EXPIRED')),
    rejection_reason text,
    detail text,
    issued_at timestamptz,
    expires_at timestamptz,
    executed_at timestamptz,
    acknowledged_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX vcp_command_message ON vcp_command (organization_id, message_id) WHERE claims_id;
CREATE INDEX vcp_command_of_plant ON vcp_command (plant_id, created_at DESC, id DESC);
CREATE INDEX vcp_command_refused ON vcp_command (api_key_id, digest) WHERE NOT claims_id;

-- Events on their way to partners: to the vhosts of an organisation that may see the plant, or to one key's alone. Gone once
-- the broker has confirmed them.
CREATE TABLE partner_event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id uuid NOT NULL,
    organization_id uuid NOT NULL REFERENCES organization ON DELETE CASCADE,
    plant_id uuid,
    api_key_id uuid,
    kind text NOT NULL,
    body bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX partner_event_queue ON partner_event (organization_id, id);

CREATE FUNCTION notify_partner_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('partner_event', '');
    RETURN NULL;
END $$;
CREATE TRIGGER partner_event_queued
    AFTER INSERT ON partner_event FOR EACH STATEMENT EXECUTE FUNCTION notify_partner_event();

-- Connectivity and alerts change in several places; here every change is told, in the transaction that makes it.
CREATE FUNCTION is_told_to_partners(organization uuid, plant uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM partner_queues q JOIN partner_key k ON k.organization_id = q.organization_id
        WHERE q.organization_id = organization AND q.enabled AND k.amqp_slug IS NOT NULL AND k.activated_at IS NOT NULL
        AND k.vhost <> '/' AND (k.allowed_plant_ids IS NULL OR plant = ANY(k.allowed_plant_ids)))
$$;
CREATE FUNCTION as_partners_read(moment timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

CREATE FUNCTION tell_plant_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF is_told_to_partners(NEW.organization_id, NEW.id) THEN
        INSERT INTO partner_event (event_id, organization_id, plant_id, kind, body)
        VALUES (gen_random_uuid(), NEW.organization_id, NEW.id, 'status', convert_to(json_build_object(
            'siteId', NEW.id, 'status', NEW.status, 'time', as_partners_read(clock_timestamp()))::text, 'UTF8'));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER plant_status_told
    AFTER UPDATE OF status ON plant FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION tell_plant_status();

CREATE FUNCTION tell_alert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.status = OLD.status THEN
        RETURN NULL;
    END IF;
    IF is_told_to_partners(NEW.organization_id, NEW.plant_id) THEN
        INSERT INTO partner_event (event_id, organization_id, plant_id, kind, body)
        VALUES (gen_random_uuid(), NEW.organization_id, NEW.plant_id, 'alert', convert_to(json_build_object(
            'alertId', NEW.id, 'siteId', NEW.plant_id, 'type', NEW.type, 'severity', NEW.severity, 'status', NEW.status,
            'message', NEW.message, 'time', as_partners_read(NEW.updated_at))::text, 'UTF8'));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER alert_told
    AFTER INSERT OR UPDATE OF status ON alert FOR EACH ROW EXECUTE FUNCTION tell_alert();

CREATE FUNCTION notify_partner_queues_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('partner_key_changed', '');
    RETURN NULL;
END $$;
CREATE TRIGGER partner_queues_changed
    AFTER INSERT OR UPDATE OR DELETE ON partner_queues
    FOR EACH STATEMENT EXECUTE FUNCTION notify_partner_queues_changed();
"""


def upgrade() -> None:
    """Creates the tables."""
    op.execute(VCP)
