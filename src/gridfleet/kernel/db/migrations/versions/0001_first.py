"""The first schema: accounts, organisations, templates, plants, telemetry frames.

Revision ID: 0001
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ACCOUNTS = """
CREATE TABLE organization (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    slug text NOT NULL CONSTRAINT organization_slug_key UNIQUE,
    description text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX organization_newest ON organization (created_at DESC, id DESC);

CREATE TABLE user_account (
    id uuid PRIMARY KEY,
    email text NOT NULL CONSTRAINT user_account_email_key UNIQUE CHECK (email = lower(email)),
    name text NOT NULL,
    password_hash text NOT NULL,
    is_super_admin boolean NOT NULL DEFAULT false,
    token_version integer NOT NULL DEFAULT 1,
    default_organization_id uuid REFERENCES organization ON DELETE SET NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Failures are counted by e-mail, not by account: unknown addresses lock alike.
CREATE TABLE login_failure (
    email_hash bytea PRIMARY KEY,
    failures integer NOT NULL,
    first_failed_at timestamptz NOT NULL,
    locked_until timestamptz
);

CREATE TABLE membership (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization,
    user_id uuid NOT NULL REFERENCES user_account ON DELETE CASCADE,
    role text NOT NULL CHECK (role IN ('ORG_ADMIN', 'OPERATOR', 'VIEWER')),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT membership_key UNIQUE (organization_id, user_id)
);
CREATE INDEX membership_user ON membership (user_id);

CREATE TABLE user_session (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES user_account ON DELETE CASCADE,
    refresh_hash bytea NOT NULL CONSTRAINT user_session_refresh_key UNIQUE,
    previous_refresh_hash bytea,
    rotated_at timestamptz,
    token_version integer NOT NULL,
    ip text,
    user_agent text,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX user_session_user ON user_session (user_id);
CREATE INDEX user_session_previous ON user_session (previous_refresh_hash);
"""

REGISTRY = """
CREATE TABLE device_template (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    type text NOT NULL CHECK (type IN ('CABINET', 'METER', 'INVERTER', 'BATTERY')),
    level text NOT NULL CHECK (level IN ('PLANT', 'SUB_DEVICE')),
    version integer NOT NULL CHECK (version >= 1),
    is_system boolean NOT NULL DEFAULT false,
    signals jsonb NOT NULL,
    actions jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT device_template_key UNIQUE (name, version)
);

CREATE TABLE plant (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization,
    name text NOT NULL,
    serial_number text NOT NULL,
    type text NOT NULL CHECK (type IN ('SENSOR', 'ACTUATOR', 'GATEWAY', 'CONTROLLER')),
    auth_method text NOT NULL CHECK (auth_method IN ('MTLS', 'TOKEN', 'PASSWORD')),
    lifecycle_status text NOT NULL DEFAULT 'PENDING'
        CHECK (lifecycle_status IN ('PENDING', 'ACTIVE', 'SUSPENDED', 'DECOMMISSIONED')),
    status text NOT NULL DEFAULT 'UNKNOWN' CHECK (status IN ('ONLINE', 'OFFLINE', 'UNKNOWN')),
    template_id uuid CONSTRAINT plant_template_fkey REFERENCES device_template,
    external_plant_id text,
    metadata jsonb NOT NULL DEFAULT '{}',
    activated_at timestamptz,
    last_seen_at timestamptz,
    usual_interval_seconds real,
    last_auth_failure_at timestamptz,
    auth_failure_count integer NOT NULL DEFAULT 0,
    secret_rotated_at timestamptz,
    certificate_expires_at timestamptz,
    certificate_fingerprint text,
    certificate_serial_number text,
    previous_certificate_serial_number text,
    previous_certificate_valid_until timestamptz,
    capacity_kwh double precision,
    config_enabled boolean,
    description text,
    esi_state text,
    fve_peak_power_kwp double precision,
    latitude double precision,
    longitude double precision,
    plant_with_load boolean,
    tag text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT plant_serial_key UNIQUE (organization_id, serial_number),
    CONSTRAINT plant_external_key UNIQUE (organization_id, external_plant_id)
) WITH (fillfactor = 70);
CREATE INDEX plant_newest ON plant (organization_id, created_at DESC, id DESC);
CREATE INDEX plant_template ON plant (template_id);

-- The deployment's own authority; one row. In the database so that every api process issues from the same one.
CREATE TABLE certificate_authority (
    id boolean PRIMARY KEY DEFAULT true CHECK (id),
    certificate text NOT NULL,
    private_key bytea NOT NULL,
    key_version integer NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Kept apart from the plant so that a list of plants can never carry a secret along.
CREATE TABLE plant_secret (
    plant_id uuid PRIMARY KEY REFERENCES plant ON DELETE CASCADE,
    key_version integer NOT NULL,
    hmac_secret bytea NOT NULL,
    previous_hmac_secret bytea,
    previous_valid_until timestamptz,
    password_hash text,
    package bytea,
    package_valid_until timestamptz
);

CREATE TABLE sub_device (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization,
    plant_id uuid NOT NULL REFERENCES plant ON DELETE CASCADE,
    external_id text NOT NULL,
    name text NOT NULL,
    serial_number text,
    template_id uuid CONSTRAINT sub_device_template_fkey REFERENCES device_template,
    type text NOT NULL CHECK (type IN ('CABINET', 'METER', 'INVERTER', 'BATTERY')),
    status text NOT NULL DEFAULT 'UNKNOWN' CHECK (status IN ('ONLINE', 'OFFLINE', 'DEGRADED', 'UNKNOWN')),
    metadata jsonb NOT NULL DEFAULT '{}',
    last_seen_at timestamptz,
    usual_interval_seconds real,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sub_device_external_key UNIQUE (plant_id, external_id)
) WITH (fillfactor = 70);
CREATE INDEX sub_device_newest ON sub_device (plant_id, created_at DESC, id DESC);
CREATE INDEX sub_device_template ON sub_device (template_id);
CREATE INDEX sub_device_organization ON sub_device (organization_id);

CREATE TABLE refused_message (
    id uuid PRIMARY KEY,
    plant_id uuid NOT NULL REFERENCES plant ON DELETE CASCADE,
    received_at timestamptz NOT NULL,
    topic text NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    message_id text,
    bytes integer NOT NULL
);
CREATE INDEX refused_message_newest ON refused_message (plant_id, received_at DESC, id DESC);
CREATE INDEX refused_message_age ON refused_message (received_at);

CREATE TABLE unregistered_device (
    plant_id uuid NOT NULL REFERENCES plant ON DELETE CASCADE,
    external_id text NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (plant_id, external_id)
);
"""

TELEMETRY = """
-- What reports: a plant itself (external_id null) or one of its sub-devices. Outlives the sub-device, so that its
-- history stays readable through the plant.
CREATE TABLE telemetry_source (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id uuid NOT NULL,
    plant_id uuid NOT NULL REFERENCES plant ON DELETE CASCADE,
    sub_device_id uuid REFERENCES sub_device ON DELETE SET NULL,
    external_id text
);
CREATE UNIQUE INDEX telemetry_source_plant ON telemetry_source (plant_id) WHERE external_id IS NULL;
CREATE UNIQUE INDEX telemetry_source_sub_device ON telemetry_source (sub_device_id) WHERE sub_device_id IS NOT NULL;
CREATE INDEX telemetry_source_of_plant ON telemetry_source (plant_id);

-- Which metric stands at which place of a frame. Addressed by content: equal devices share a layout, an edited
-- template gets a new one, and old frames keep theirs.
CREATE TABLE telemetry_layout (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest bytea NOT NULL CONSTRAINT telemetry_layout_digest_key UNIQUE,
    metrics text[] NOT NULL,
    units text[] NOT NULL,
    counters boolean[] NOT NULL,
    minimums float8[] NOT NULL,
    maximums float8[] NOT NULL
);

-- One row a source, time and layout. Narrow on purpose: source_id and layout_id share eight bytes.
CREATE TABLE telemetry_frame (
    source_id integer NOT NULL,
    layout_id integer NOT NULL,
    time timestamptz NOT NULL,
    vals float8[] NOT NULL,
    PRIMARY KEY (source_id, time, layout_id)
) PARTITION BY RANGE (time);

-- The newest value of every metric. `times` is null while all values are of `time`; `absent` lists the places without
-- a value. Both exist so that the usual update, a newer row with the same places filled, is a plain overwrite. The rows
-- also tell which layouts a source has ever used.
CREATE TABLE telemetry_latest (
    source_id integer NOT NULL REFERENCES telemetry_source ON DELETE CASCADE,
    layout_id integer NOT NULL REFERENCES telemetry_layout,
    time timestamptz NOT NULL,
    vals float8[] NOT NULL,
    absent text NOT NULL DEFAULT '',
    times timestamptz[],
    PRIMARY KEY (source_id, layout_id)
) WITH (fillfactor = 50);

CREATE FUNCTION telemetry_merge(older float8[], newer float8[]) RETURNS float8[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT array_agg(coalesce(n, o) ORDER BY i) FROM unnest(newer, older) WITH ORDINALITY AS pair (n, o, i));

-- Value by value: the newer time wins, a missing value never does.
CREATE FUNCTION telemetry_advance(
    old_time timestamptz, old_vals float8[], old_times timestamptz[],
    new_time timestamptz, new_vals float8[], new_times timestamptz[],
    OUT vals float8[], OUT absent text, OUT times timestamptz[]
) LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT array_agg(value ORDER BY i),
        coalesce(string_agg(CASE WHEN value IS NULL THEN (i - 1)::text END, ',' ORDER BY i), ''),
        array_agg(at ORDER BY i)
    FROM (
        SELECT i,
            CASE WHEN newer THEN new_value ELSE old_value END AS value,
            CASE WHEN newer THEN new_at ELSE old_at END AS at
        FROM (
            SELECT i, old_value, new_value, coalesce(old_element_time, old_time) AS old_at,
                coalesce(new_element_time, new_time) AS new_at,
                new_value IS NOT NULL AND (old_value IS NULL
                    OR coalesce(new_element_time, new_time) >= coalesce(old_element_time, old_time)) AS newer
            FROM unnest(old_vals, new_vals, old_times, new_times)
                WITH ORDINALITY AS pair (old_value, new_value, old_element_time, new_element_time, i)
        ) AS compared
    ) AS chosen;
END;
"""

INGEST = """
-- Until when a shard's queue is known to have been empty: what waits in it now arrived later. A message's age is judged
-- by this and not by the moment it is read, or an outage of ours would make good messages look too old.
CREATE TABLE ingest_shard (
    shard integer PRIMARY KEY,
    drained_at timestamptz NOT NULL
);
"""

# A process that caches credentials, templates or layouts hears here that they changed.
NOTIFICATIONS = """
CREATE FUNCTION notify_plant_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plant_changed', (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).id::text);
    RETURN NULL;
END $$;
CREATE FUNCTION notify_plant_part_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('plant_changed', (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).plant_id::text);
    RETURN NULL;
END $$;
CREATE FUNCTION notify_template_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('template_changed', (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER plant_changed
    AFTER UPDATE OF organization_id, lifecycle_status, template_id OR DELETE ON plant
    FOR EACH ROW EXECUTE FUNCTION notify_plant_changed();
CREATE TRIGGER plant_secret_changed
    AFTER INSERT OR UPDATE OF hmac_secret, previous_hmac_secret, previous_valid_until OR DELETE ON plant_secret
    FOR EACH ROW EXECUTE FUNCTION notify_plant_part_changed();
CREATE TRIGGER sub_device_changed
    AFTER INSERT OR UPDATE OF organization_id, external_id, template_id OR DELETE ON sub_device
    FOR EACH ROW EXECUTE FUNCTION notify_plant_part_changed();
CREATE TRIGGER template_changed
    AFTER UPDATE OF signals ON device_template
    FOR EACH ROW EXECUTE FUNCTION notify_template_changed();
"""


def upgrade() -> None:
    """Creates everything."""
    for part in (ACCOUNTS, REGISTRY, TELEMETRY, INGEST, NOTIFICATIONS):
        op.execute(part)
